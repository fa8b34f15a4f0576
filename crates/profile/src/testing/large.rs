//! A profile of the size that the web view must stand: as many facts as one likes, 1,024 threads, 100,000 lines of
//! source.

use crate::ids::*;
use crate::tables::*;
use crate::testing::{Synthetic, a_thread};
use crate::words::{Class, Fault, ObjectKind, Placed};
use crate::{Engine, MachineOption, Meta, RecordedUnit, Writer};
use numalens_topology::{Machine, NodeId, PagePolicy, ThreadPlacement};
use std::path::{Path, PathBuf};

const THREADS: u64 = 1024;
const LINES: u64 = 100_000;
const FUNCTIONS: u64 = 2000;
const BINS: u64 = 200;
const NODES: u64 = 8;
/// Pages of each thread's object.
const PAGES: u64 = 256;
const BASE: u64 = 0x7_f000_0000;

/// Writes it to `path`: about `facts` rows of accesses by site, by object and by page.
///
/// # Errors
/// The disk is full, ...
pub fn write(path: &Path, facts: u64) -> Result<PathBuf, Box<dyn std::error::Error>> {
    let machine = Machine::preset("togian").ok_or("there is no preset togian")?;
    let mut writer = Writer::create(path, true)?;
    writer.append(MachineNode::of(&machine))?;
    let mut process = Synthetic::example().processes.swap_remove(0);
    (process.process, process.pid, process.end_ns) = (ProcessId(0), 1000, Some(BINS * 10_000_000));
    writer.append([process])?;
    writer.append((0..THREADS).map(thread))?;
    writer.append((0..THREADS).map(placement))?;
    writer.append([Module { module: ModuleId(0), path: "/usr/bin/large".into(), build_id: String::new() }])?;
    writer.append((0..LINES).map(|n| Site {
        site: SiteId(n as u32),
        module: Some(ModuleId(0)),
        address: 0x1000 + 4 * n,
    }))?;
    writer.append((0..FUNCTIONS).map(|n| Function {
        function: FunctionId(n as u32),
        module: Some(ModuleId(0)),
        name: format!("work::of::function_{n}"),
    }))?;
    writer.append((0..LINES).map(|n| Frame {
        site: SiteId(n as u32),
        depth: 0,
        function: FunctionId((n / (LINES / FUNCTIONS)) as u32),
        file: Some(format!("/src/large/part_{}.cc", n / 1000)),
        line: Some((n % 1000 + 1) as u32),
    }))?;
    writer.append((0..THREADS).map(object))?;
    writer.append((0..THREADS).map(pages))?;
    // The same accesses by site, by object and by page.
    writer.append((0..facts / 3).map(site_access))?;
    writer.append((0..facts / 3).map(object_access))?;
    writer.append((0..facts / 3).map(page_access))?;
    let meta = Meta {
        command: vec!["/usr/bin/large".into()],
        engine: Engine::Exact,
        unit: RecordedUnit::Accesses,
        machine_name: machine.name.clone(),
        machine_virtual: true,
        placement: MachineOption::Set(ThreadPlacement::Spread),
        policy: MachineOption::Set(PagePolicy::FirstTouch),
        duration_ns: BINS * 10_000_000,
        bin_ns: 10_000_000,
        bins: BINS as u32,
        exit_status: "exited 0".into(),
        ..Meta::default()
    };
    Ok(writer.finish(&meta)?)
}

/// Scatter, the same in every run.
fn scatter(index: u64) -> u64 {
    let value = (index ^ (index >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    value ^ (value >> 29)
}

fn node(of: u64) -> Option<NodeId> {
    Some(NodeId((of % NODES) as u16))
}

fn thread(n: u64) -> Thread {
    Thread {
        tid: 1000 + n as u32,
        name: format!("worker {n}"),
        start_ns: n * 1000,
        switches: n,
        ..a_thread(ProcessId(0), ThreadId(n as u32))
    }
}

fn placement(n: u64) -> Placement {
    Placement {
        process: ProcessId(0),
        thread: ThreadId(n as u32),
        time_ns: n * 1000,
        cpus: (n % 64).to_string(),
        node: node(n),
        policy: "first-touch".into(),
        cause: "virtual machine".into(),
    }
}

fn object(n: u64) -> Object {
    Object {
        process: ProcessId(0),
        object: ObjectId(n as u32),
        kind: ObjectKind::Heap,
        name: format!("part {n}"),
        base: (BASE + n * PAGES) << PAGE_SHIFT,
        size: PAGES << PAGE_SHIFT,
        count: 1,
        site: Some(SiteId((n * 97 % LINES) as u32)),
        stack: None,
        thread: Some(ThreadId(n as u32)),
        birth_ns: n * 1000,
        death_ns: None,
    }
}

/// Every second thread's memory lies on node 0.
fn home(of: u64) -> Option<NodeId> {
    if of.is_multiple_of(2) { Some(NodeId(0)) } else { node(of) }
}

fn pages(n: u64) -> PlacedPages {
    PlacedPages {
        process: ProcessId(0),
        page: Page(BASE + n * PAGES),
        count: PAGES,
        bin_from: Bin(0),
        bin_to: None,
        home: home(n),
        page_size: Page::BYTES,
        placed: Placed::Pinned,
        fault: Fault::Anonymous,
        call: None,
        thread: Some(ThreadId(n as u32)),
        node: node(n),
        site: Some(SiteId((n * 89 % LINES) as u32)),
        stack: None,
        object: Some(ObjectId(n as u32)),
        inferred: false,
    }
}

/// A thread and whose memory it uses: mostly its own.
fn use_of(index: u64) -> (u64, u64, u64) {
    let noise = scatter(index);
    let thread = index % THREADS;
    let owner = if noise.is_multiple_of(8) { (thread + 1) % THREADS } else { thread };
    (thread, owner, noise)
}

fn class(thread: u64, owner: u64) -> Class {
    if node(thread) == home(owner) { Class::Local } else { Class::Remote }
}

fn site_access(index: u64) -> SiteAccess {
    let (thread, owner, noise) = use_of(index);
    SiteAccess {
        process: ProcessId(0),
        bin: Bin((index / THREADS % BINS) as u32),
        thread: ThreadId(thread as u32),
        node: node(thread),
        // Each thread works on a part of the lines.
        site: SiteId(((thread * 97 + noise % 200) % LINES) as u32),
        home: home(owner),
        class: class(thread, owner),
        reads: noise >> 54,
        writes: noise >> 58,
        samples: 0,
        period: 1,
    }
}

fn object_access(index: u64) -> ObjectAccess {
    let (thread, owner, noise) = use_of(index);
    ObjectAccess {
        process: ProcessId(0),
        bin: Bin((index / THREADS % BINS) as u32),
        thread: ThreadId(thread as u32),
        node: node(thread),
        site: None,
        object: ObjectId(owner as u32),
        home: home(owner),
        class: class(thread, owner),
        reads: noise >> 54,
        writes: noise >> 58,
        samples: 0,
        period: 1,
    }
}

fn page_access(index: u64) -> PageAccess {
    let (thread, owner, noise) = use_of(index);
    PageAccess {
        process: ProcessId(0),
        bin: Bin((index / THREADS % BINS) as u32),
        thread: ThreadId(thread as u32),
        node: node(thread),
        home: home(owner),
        page: Page(BASE + owner * PAGES + noise % PAGES),
        reads: noise >> 54,
        writes: noise >> 58,
        samples: 0,
        period: 1,
    }
}
