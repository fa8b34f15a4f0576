//! Writes a profile in which many threads use many pages: `many_pages PATH [FACTS] [THREADS] [page|thread]`, with so
//! many rows of `page_accesses`, in the order of pages or, as versions before did, of threads.
//!
//! Half of the memory was touched by the first thread, all by thread 0 on node 0; of the other half each thread has
//! touched its part. All threads use all pages.

use numalens_profile::ids::*;
use numalens_profile::tables::*;
use numalens_profile::testing::{Synthetic, a_thread};
use numalens_profile::words::{Class, Fault, ObjectKind, Placed};
use numalens_profile::{Engine, MachineOption, Meta, RecordedUnit, Writer};
use numalens_topology::{Machine, NodeId, PagePolicy, ThreadPlacement};
use rustc_hash::FxHashMap;

const NODES: u64 = 4;
const BASE: u64 = 0x7_f000_0000;
const NS: u64 = 10_000_000;

/// Pages and threads.
#[derive(Clone, Copy)]
struct Size {
    pages: u64,
    threads: u64,
}

/// SplitMix64: scatter without a dependency, the same in every run.
fn scatter(index: u64) -> u64 {
    let mut value = index.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

fn node(thread: u64) -> NodeId {
    NodeId((thread % NODES) as u16)
}

impl Size {
    /// The thread that touched a page first.
    fn toucher(self, page: u64) -> u64 {
        let half = self.pages / 2;
        if page < half { 0 } else { (page - half) * self.threads / (self.pages - half) }
    }

    fn access(self, page: u64, thread: u64) -> PageAccess {
        let noise = scatter(page * self.threads + thread);
        PageAccess {
            process: ProcessId(0),
            bin: Bin(3),
            thread: ThreadId(thread as u32),
            node: Some(node(thread)),
            home: Some(node(self.toucher(page))),
            page: Page(BASE + page),
            reads: 1 + (noise >> 58),
            writes: 1 + (noise >> 61),
            samples: 0,
            period: 1,
        }
    }

    fn accesses(self, by_page: bool) -> Box<dyn Iterator<Item = PageAccess>> {
        match by_page {
            true => {
                Box::new((0..self.pages).flat_map(move |page| (0..self.threads).map(move |t| self.access(page, t))))
            }
            false => {
                Box::new((0..self.threads).flat_map(move |t| (0..self.pages).map(move |page| self.access(page, t))))
            }
        }
    }

    /// Who touched so many pages from one on.
    fn placed(self, page: u64, count: u64, object: u32) -> PlacedPages {
        let toucher = self.toucher(page);
        PlacedPages {
            process: ProcessId(0),
            page: Page(BASE + page),
            count,
            bin_from: Bin(0),
            bin_to: None,
            home: Some(node(toucher)),
            page_size: 4096,
            placed: Placed::Pinned,
            fault: Fault::Anonymous,
            call: None,
            thread: Some(ThreadId(toucher as u32)),
            node: Some(node(toucher)),
            site: Some(SiteId(object)),
            stack: None,
            object: Some(ObjectId(object)),
            inferred: false,
        }
    }

    fn object(self, object: u64) -> Object {
        let half = self.pages / 2;
        let (first, count) = if object == 0 { (0, half) } else { (half, self.pages - half) };
        Object {
            process: ProcessId(0),
            object: ObjectId(object as u32),
            kind: ObjectKind::Heap,
            name: format!("half {object}"),
            base: (BASE + first) << PAGE_SHIFT,
            size: count << PAGE_SHIFT,
            count: 1,
            site: Some(SiteId(object as u32)),
            stack: None,
            thread: Some(ThreadId(0)),
            birth_ns: 0,
            death_ns: None,
        }
    }

    fn pages(self) -> Vec<PlacedPages> {
        let half = self.pages / 2;
        let starts: Vec<u64> = (half..=self.pages)
            .filter(|page| *page == half || *page == self.pages || self.toucher(*page) != self.toucher(page - 1))
            .collect();
        let own = starts.windows(2).map(|ends| self.placed(ends[0], ends[1] - ends[0], 1));
        std::iter::once(self.placed(0, half, 0)).chain(own).collect()
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: many_pages PATH [FACTS] [THREADS] [page|thread]")?;
    let facts: u64 = arguments.next().map_or(Ok(10_000_000), |facts| facts.parse())?;
    let threads: u64 = arguments.next().map_or(Ok(32), |threads| threads.parse())?;
    let by_page = arguments.next().as_deref() != Some("thread");
    let size = Size { pages: (facts / threads).max(2 * threads), threads };
    let machine = Machine::preset("xeon64").ok_or("there is no preset xeon64")?;
    let mut writer = Writer::create(path.as_ref(), true)?;
    writer.append(MachineNode::of(&machine))?;
    let mut process = Synthetic::example().processes.swap_remove(0);
    (process.process, process.pid, process.end_ns) = (ProcessId(0), 1000, Some(8 * NS));
    writer.append([process])?;
    writer.append((0..threads).map(|thread| a_thread(ProcessId(0), ThreadId(thread as u32))))?;
    writer.append((0..threads).map(|thread| Placement {
        process: ProcessId(0),
        thread: ThreadId(thread as u32),
        time_ns: 0,
        cpus: thread.to_string(),
        node: Some(node(thread)),
        policy: "first-touch".into(),
        cause: "virtual machine".into(),
    }))?;
    writer.append([Module { module: ModuleId(0), path: "/usr/bin/many".into(), build_id: String::new() }])?;
    writer.append((0..2).map(|site| Site {
        site: SiteId(site),
        module: Some(ModuleId(0)),
        address: u64::from(site),
    }))?;
    writer.append([0, 1].map(|object| size.object(object)))?;
    writer.append(size.pages())?;
    // The same accesses by thread and home: each half is used at a line of its own.
    let mut sums: FxHashMap<(u64, u32, Option<NodeId>), (u64, u64)> = FxHashMap::default();
    writer.append(size.accesses(by_page).inspect(|row| {
        let site = u32::from(row.page.0 - BASE >= size.pages / 2);
        let sum = sums.entry((u64::from(row.thread.0), site, row.home)).or_default();
        *sum = (sum.0 + row.reads, sum.1 + row.writes);
    }))?;
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_unstable_by_key(|(key, _)| *key);
    writer.append(sums.iter().map(|((thread, site, home), (reads, writes))| SiteAccess {
        process: ProcessId(0),
        bin: Bin(3),
        thread: ThreadId(*thread as u32),
        node: Some(node(*thread)),
        site: SiteId(*site),
        home: *home,
        class: if *home == Some(node(*thread)) { Class::Local } else { Class::Remote },
        reads: *reads,
        writes: *writes,
        samples: 0,
        period: 1,
    }))?;
    writer.append(sums.iter().map(|((thread, site, home), (reads, writes))| ObjectAccess {
        process: ProcessId(0),
        bin: Bin(3),
        thread: ThreadId(*thread as u32),
        node: Some(node(*thread)),
        site: None,
        object: ObjectId(*site),
        home: *home,
        class: if *home == Some(node(*thread)) { Class::Local } else { Class::Remote },
        reads: *reads,
        writes: *writes,
        samples: 0,
        period: 1,
    }))?;
    let meta = Meta {
        command: vec!["/usr/bin/many".into()],
        engine: Engine::Exact,
        unit: RecordedUnit::Accesses,
        machine_name: machine.name.clone(),
        machine_virtual: true,
        placement: MachineOption::Set(ThreadPlacement::Spread),
        policy: MachineOption::Set(PagePolicy::FirstTouch),
        duration_ns: 8 * NS,
        bin_ns: NS,
        bins: 8,
        exit_status: "exited 0".into(),
        ..Meta::default()
    };
    println!("{}", writer.finish(&meta)?.display());
    Ok(())
}
