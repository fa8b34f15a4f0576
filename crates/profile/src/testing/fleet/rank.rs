//! The profile of one rank of a fleet: 16 threads on 4 nodes, each with its part of three objects, which it and the
//! next thread use in every time bin.

use super::Fault;
use crate::error::Error;
use crate::ids::*;
use crate::meta::Meta;
use crate::meta_words::{Engine, MachineOption, RecordedUnit};
use crate::tables::*;
use crate::testing::a_thread;
use crate::testing::load::scatter;
use crate::words::{Class, Fault as PageFault, ObjectKind, Placed};
use crate::write::Writer;
use numalens_topology::{Machine, NodeId, PagePolicy, ThreadPlacement};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const THREADS: u64 = 16;
const NODES: u64 = 4;
const BINS: u64 = 16;
const BIN_NS: u64 = 100_000_000;
const BASE: u64 = 0x7_f000_0000;
const MODULE: ModuleId = ModuleId(0);

/// An object, its twentieths of the pages, the function and line that use it, and the line that allocates it.
struct Part {
    name: &'static str,
    twentieths: u64,
    function: &'static str,
    line: u32,
    allocated: u32,
}

const PARTS: [Part; 3] = [
    Part { name: "mesh", twentieths: 14, function: "sweep", line: 88, allocated: 12 },
    Part { name: "halo", twentieths: 3, function: "exchange", line: 120, allocated: 13 },
    Part { name: "table", twentieths: 3, function: "lookup", line: 150, allocated: 14 },
];
const MAIN: FunctionId = FunctionId(PARTS.len() as u32);

/// Pages of one object whose first user is one thread.
#[derive(Clone, Copy)]
struct Run {
    first: u64,
    count: u64,
    part: u32,
    owner: u64,
}

/// A rank and what is wrong with it.
pub struct Rank {
    pub number: u32,
    pub host: String,
    pub fault: Fault,
    pub shade: u32,
    pub facts: u64,
}

/// What is summed over pages: bin, thread, object and home.
type Sums = BTreeMap<(u32, u32, u32, NodeId), (u64, u64)>;

fn node(thread: u64) -> NodeId {
    NodeId((thread * NODES / THREADS) as u16)
}

impl Rank {
    /// The runs of pages, in order.
    fn runs(&self) -> Vec<Run> {
        let pages = (self.facts / (2 * BINS)).max(20 * THREADS);
        let mut runs = Vec::new();
        let mut first = BASE;
        for (part, of) in PARTS.iter().enumerate() {
            let each = pages * of.twentieths / 20 / THREADS;
            for owner in 0..THREADS {
                runs.push(Run { first, count: each, part: part as u32, owner });
                first += each;
            }
        }
        runs
    }

    /// The thread that touched a run first, and where its pages are.
    fn touch(&self, run: Run) -> (u64, NodeId) {
        match (self.fault, PARTS[run.part as usize].name) {
            (Fault::OneNode, _) => (run.owner, NodeId(1)),
            (Fault::SerialMesh, "mesh") | (Fault::RemoteHalo, "halo") | (Fault::RemoteTable, "table") => (0, NodeId(0)),
            _ => (run.owner, node(run.owner)),
        }
    }

    /// The facts of a run of pages; what they add up to goes into `sums`.
    fn facts(&self, run: Run, sums: &mut Sums) -> Vec<PageAccess> {
        let (_, home) = self.touch(run);
        let mut facts = Vec::with_capacity((2 * BINS * run.count) as usize);
        for page in run.first..run.first + run.count {
            for bin in 0..BINS {
                let next = (run.owner + 1) % THREADS;
                let shade = u64::from(self.shade);
                let noise = scatter(page * BINS + bin + (shade << 50));
                let (own, other) = (64 + noise % 64, 4 + shade + (noise >> 32) % 8);
                for (thread, reads, writes) in [(run.owner, own, own / 4), (next, other, 0)] {
                    let (bin, thread, node) = (Bin(bin as u32), ThreadId(thread as u32), Some(node(thread)));
                    let sum = sums.entry((bin.0, thread.0, run.part, home)).or_default();
                    *sum = (sum.0 + reads, sum.1 + writes);
                    let (process, page, home) = (ProcessId(0), Page(page), Some(home));
                    facts.push(PageAccess {
                        process,
                        bin,
                        thread,
                        node,
                        home,
                        page,
                        reads,
                        writes,
                        samples: 0,
                        period: 1,
                    });
                }
            }
        }
        facts
    }

    fn placed(&self, run: Run) -> PlacedPages {
        let (thread, home) = self.touch(run);
        PlacedPages {
            process: ProcessId(0),
            page: Page(run.first),
            count: run.count,
            bin_from: Bin(0),
            bin_to: None,
            home: Some(home),
            page_size: Page::BYTES,
            placed: Placed::Pinned,
            fault: PageFault::Anonymous,
            call: None,
            thread: Some(ThreadId(thread as u32)),
            node: Some(node(thread)),
            site: Some(SiteId(run.part)),
            stack: None,
            object: Some(ObjectId(run.part)),
            inferred: false,
        }
    }

    pub fn process(&self, process: ProcessId) -> Process {
        Process {
            process,
            pid: 1000 + self.number,
            parent: None,
            rank: Some(self.number),
            host: self.host.clone(),
            command: "./solver mesh.dat".into(),
            start_ns: 0,
            end_ns: Some(BINS * BIN_NS),
            end: "exited 0".into(),
            heap_observed: true,
        }
    }

    pub fn meta(&self) -> Meta {
        Meta {
            command: vec!["./solver".into(), "mesh.dat".into()],
            host: self.host.clone(),
            engine: Engine::Exact,
            unit: RecordedUnit::Accesses,
            machine_name: "xeon64".into(),
            machine_virtual: true,
            placement: MachineOption::Set(ThreadPlacement::Compact),
            policy: MachineOption::Set(PagePolicy::FirstTouch),
            duration_ns: BINS * BIN_NS,
            bin_ns: BIN_NS,
            bins: BINS as u32,
            exit_status: "exited 0".into(),
            ..Meta::default()
        }
    }

    /// Writes the whole profile.
    pub fn write(&self, path: &Path) -> Result<PathBuf, Error> {
        let mut writer = Writer::create(path, false)?;
        let machine = Machine::preset("xeon64").map(|machine| MachineNode::of(&machine)).unwrap_or_default();
        let process = ProcessId(0);
        writer.append([self.process(process)])?;
        writer.append((0..THREADS).map(|thread| a_thread(process, ThreadId(thread as u32))))?;
        writer.append((0..THREADS).map(|thread| Placement {
            process,
            thread: ThreadId(thread as u32),
            time_ns: 0,
            cpus: machine.get(usize::from(node(thread).0)).map_or(String::new(), |node| node.cpus.clone()),
            node: Some(node(thread)),
            policy: "first-touch".into(),
            cause: "virtual machine".into(),
        }))?;
        writer.append(machine)?;
        let runs = self.runs();
        self.write_code(&mut writer)?;
        for (part, of) in (0..).zip(&PARTS) {
            let mine = || runs.iter().filter(|run| run.part == part);
            writer.append([Object {
                process,
                object: ObjectId(part),
                kind: ObjectKind::Heap,
                name: of.name.into(),
                base: mine().next().map_or(0, |run| run.first) << PAGE_SHIFT,
                size: mine().map(|run| run.count).sum::<u64>() << PAGE_SHIFT,
                count: 1,
                site: Some(SiteId(PARTS.len() as u32 + part)),
                stack: None,
                thread: Some(ThreadId(0)),
                birth_ns: 0,
                death_ns: None,
            }])?;
        }
        writer.append(runs.iter().map(|run| self.placed(*run)))?;
        let mut sums = Sums::new();
        for run in &runs {
            writer.append(self.facts(*run, &mut sums))?;
        }
        self.write_sums(&mut writer, &sums)?;
        writer.finish(&self.meta())
    }

    fn write_code(&self, writer: &mut Writer) -> Result<(), Error> {
        writer.append([Module { module: MODULE, path: "/home/user/solver".into(), build_id: "00ff13".into() }])?;
        let names = PARTS.iter().map(|part| part.function).chain(["main"]);
        writer.append((0..).zip(names).map(|(function, name)| Function {
            function: FunctionId(function),
            module: Some(MODULE),
            name: name.into(),
        }))?;
        let uses = (0..).zip(&PARTS).map(|(function, part)| (FunctionId(function), part.line));
        let lines = uses.chain(PARTS.iter().map(|part| (MAIN, part.allocated)));
        for (site, (function, line)) in (0..).zip(lines) {
            let address = 0x1000 + 0x40 * u64::from(site);
            let site = SiteId(site);
            writer.append([Site { site, module: Some(MODULE), address }])?;
            writer.append([Frame { site, depth: 0, function, file: Some("solver.c".into()), line: Some(line) }])?;
        }
        Ok(())
    }

    fn write_sums(&self, writer: &mut Writer, sums: &Sums) -> Result<(), Error> {
        for (&(bin, thread, part, home), &(reads, writes)) in sums {
            let (process, bin, node, home) = (ProcessId(0), Bin(bin), Some(node(thread.into())), Some(home));
            let (thread, site, object) = (ThreadId(thread), SiteId(part), ObjectId(part));
            let class = if home == node { Class::Local } else { Class::Remote };
            let (samples, period) = (0, 1);
            writer.append([SiteAccess {
                process,
                bin,
                thread,
                node,
                site,
                home,
                class,
                reads,
                writes,
                samples,
                period,
            }])?;
            let site = None;
            writer.append([ObjectAccess {
                process,
                bin,
                thread,
                node,
                site,
                object,
                home,
                class,
                reads,
                writes,
                samples,
                period,
            }])?;
        }
        Ok(())
    }
}
