//! Time of every analysis on ten million page accesses and as many site accesses, and the peak of memory.
//!
//! `cargo run --release -p numalens-analyze --example timing [ROWS]`

use numalens_analyze::{Options, advice, sections};
use numalens_profile::ids::*;
use numalens_profile::tables::*;
use numalens_profile::testing::{a_thread, load};
use numalens_profile::words::{Fault, ObjectKind, Placed};
use numalens_profile::{Engine, Meta, Profile, RecordedUnit, Writer};
use numalens_topology::{Machine, NodeId};
use std::path::Path;
use std::time::Instant;

/// As the load has them.
const THREADS: u32 = 16;
const SITES: u32 = 500;
const FIRST: u64 = 0x7_f000_0000;
/// Pages of one row of the table of pages, and of one object.
const RUN: u64 = 16;
const OBJECT: u64 = 4096;

fn write(path: &Path, rows: u64) -> Result<std::path::PathBuf, Box<dyn std::error::Error>> {
    let machine = Machine::preset("xeon64").ok_or("no preset")?;
    let pages = 2 * rows / 200 + 2 * u64::from(THREADS);
    let mut writer = Writer::create(path, false)?;
    writer.replace(MachineNode::of(&machine))?;
    writer.replace([Process {
        process: ProcessId(0),
        pid: 1,
        parent: None,
        rank: None,
        host: "load".into(),
        command: "load".into(),
        start_ns: 0,
        end_ns: None,
        end: "exited 0".into(),
        heap_observed: true,
    }])?;
    writer.replace((0..THREADS).map(|thread| a_thread(ProcessId(0), ThreadId(thread))))?;
    writer.replace((0..THREADS).map(|thread| Placement {
        process: ProcessId(0),
        thread: ThreadId(thread),
        time_ns: 0,
        cpus: "0".into(),
        node: Some(NodeId((thread % 4) as u16)),
        policy: "default".into(),
        cause: "start".into(),
    }))?;
    writer.replace([Module { module: ModuleId(0), path: "/app".into(), build_id: String::new() }])?;
    writer.replace((0..SITES).map(|site| Site {
        site: SiteId(site),
        module: Some(ModuleId(0)),
        address: u64::from(site) * 4,
    }))?;
    writer.replace((0..SITES).map(|site| Frame {
        site: SiteId(site),
        depth: 0,
        function: FunctionId(site / 10),
        file: Some("app.c".into()),
        line: Some(site),
    }))?;
    writer.replace((0..SITES / 10).map(|function| Function {
        function: FunctionId(function),
        module: Some(ModuleId(0)),
        name: format!("function{function}"),
    }))?;
    writer.replace((0..pages / OBJECT + 1).map(|object| Object {
        process: ProcessId(0),
        object: ObjectId(object as u32),
        kind: ObjectKind::Heap,
        name: String::new(),
        base: (FIRST + object * OBJECT) << PAGE_SHIFT,
        size: OBJECT << PAGE_SHIFT,
        count: 1,
        site: Some(SiteId(object as u32 % SITES)),
        stack: None,
        thread: Some(ThreadId(0)),
        birth_ns: 0,
        death_ns: None,
    }))?;
    writer.replace((0..pages / RUN).map(|run| PlacedPages {
        process: ProcessId(0),
        page: Page(FIRST + run * RUN),
        count: RUN,
        bin_from: Bin(0),
        bin_to: None,
        home: Some(NodeId((run % 4) as u16)),
        page_size: 4096,
        placed: Placed::Pinned,
        fault: Fault::Anonymous,
        call: None,
        thread: Some(ThreadId((run % u64::from(THREADS)) as u32)),
        node: None,
        site: Some(SiteId((run % 7) as u32)),
        stack: None,
        object: Some(ObjectId((run * RUN / OBJECT) as u32)),
        inferred: false,
    }))?;
    writer.append(load::page_accesses(rows))?;
    writer.append(load::site_accesses(rows))?;
    writer.append(load::site_accesses(rows / 10).map(|row| ObjectAccess {
        process: row.process,
        bin: row.bin,
        thread: row.thread,
        node: row.node,
        site: None,
        object: ObjectId((u64::from(row.site.0) % (pages / OBJECT + 1)) as u32),
        home: row.home,
        class: row.class,
        reads: row.reads,
        writes: row.writes,
        samples: 0,
        period: 1,
    }))?;
    let meta = Meta {
        engine: Engine::Exact,
        unit: RecordedUnit::Accesses,
        machine_name: machine.name,
        machine_virtual: true,
        duration_ns: 10_000_000_000,
        bin_ns: 50_000_000,
        bins: 200,
        ..Meta::default()
    };
    Ok(writer.finish(&meta)?)
}

/// Peak of memory so far, in MiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) / 1024
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let rows: u64 = arguments.next().map_or(Ok(10_000_000), |rows| rows.parse())?;
    let scratch = tempfile::tempdir()?;
    let path = write(&scratch.path().join("load.numalens"), rows)?;
    println!("{rows} rows of each fact; {} MiB after writing them", peak());
    let profile = Profile::open(&path)?;
    let timed = |name: &str, work: &dyn Fn() -> Result<usize, Box<dyn std::error::Error>>| {
        let start = Instant::now();
        let reports = work()?;
        println!("{name:<18} {:6.2} s, {reports} reports, peak {} MiB", start.elapsed().as_secs_f64(), peak());
        Ok::<(), Box<dyn std::error::Error>>(())
    };
    for section in sections::ALL {
        timed(section.name, &|| Ok(sections::run(&profile, &Options::default(), &[section])?.len()))?;
    }
    timed("all sections", &|| {
        Ok(sections::run(&profile, &Options::default(), &sections::ALL.iter().collect::<Vec<_>>())?.len())
    })?;
    timed("advise", &|| Ok(advice::run(&profile, &Options::default())?.len()))
}
