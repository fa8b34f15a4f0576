//! A small valid profile for tests: every table, every access class, names and lines as `symbolize` would write them.
//!
//! The program: `app` first touches an array serially on node 0 and then works on it from node 1 and from an unpinned
//! thread; its child, on node 2, uses memory on node 3, which has no CPUs. [`Synthetic::example`] states the accesses
//! once, as [`Touch`]es, and derives all facts from them, so that they agree. Change a field to break an invariant.

mod counted;
pub mod fleet;
pub mod large;
pub mod load;
mod mutate;
#[allow(dead_code, reason = "the macro makes more than is used here")]
mod older;

use crate::ids::*;
use crate::tables::*;
use crate::words::*;
use crate::{Engine, Error, MachineOption, Meta, RecordedUnit, Writer};
use numalens_topology::{CpuSet, Machine, Node, NodeId, PagePolicy, ThreadPlacement};
use std::path::{Path, PathBuf};

/// The content of a profile, one field per table.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct Synthetic {
    pub meta: Meta,
    pub machine: Vec<MachineNode>,
    pub processes: Vec<Process>,
    pub threads: Vec<Thread>,
    pub placements: Vec<Placement>,
    pub modules: Vec<Module>,
    pub mappings: Vec<Mapping>,
    pub sites: Vec<Site>,
    pub frames: Vec<Frame>,
    pub functions: Vec<Function>,
    pub stacks: Vec<Stack>,
    pub page_accesses: Vec<PageAccess>,
    pub site_accesses: Vec<SiteAccess>,
    pub object_accesses: Vec<ObjectAccess>,
    pub object_bounds: Vec<ObjectBound>,
    pub samples: Vec<Sample>,
    pub code_fetches: Vec<CodeFetch>,
    pub site_misses: Vec<SiteMiss>,
    pub page_misses: Vec<PageMiss>,
    pub cache_lines: Vec<CacheLine>,
    pub line_communication: Vec<LineCommunication>,
    pub waiting_sites: Vec<WaitingSite>,
    pub pages: Vec<PlacedPages>,
    pub objects: Vec<Object>,
    pub allocations: Vec<Allocation>,
    pub phases: Vec<Phase>,
    pub collections: Vec<Collection>,
    pub processed_objects: Vec<ProcessedObjects>,
    /// Page accesses are written as by versions that did not tell the thread's node.
    pub older: bool,
}

/// Amount of time that one sample of the example stands for: 997 Hz.
pub const PERIOD: u64 = 1_003_009;

/// Accesses of one thread from one site to one page in one bin, each a sample.
struct Touch {
    bin: u32,
    thread: u32,
    site: u32,
    page: u64,
    reads: u64,
    writes: u64,
}

/// A page of the example: where it is, of which object, who placed it.
struct PageOf {
    page: u64,
    process: u32,
    object: u32,
    home: Option<NodeId>,
    placed: Placed,
    toucher: Option<u32>,
}

const HEAP: u64 = 0x7_f000_0000;
const GLOBAL: u64 = 0x404;
const FILE: u64 = 0x7_f100_0000;
const STACK: u64 = 0x7_ffd0_0000;
const TIER: u64 = 0x7_f200_0000;
const CODE: u64 = 0x401;

/// A thread of which nothing is known but its numbers: what a test wants to be otherwise, it says.
pub fn a_thread(process: ProcessId, thread: ThreadId) -> Thread {
    Thread {
        process,
        thread,
        tid: 100 + thread.0,
        name: String::new(),
        start_ns: 0,
        end_ns: None,
        switches: 0,
        migrations: 0,
    }
}

/// The machine of the example: nodes 0 to 2 with two CPUs each, node 3 with memory only.
pub fn machine() -> Machine {
    let distances = [[10, 16, 22, 28], [16, 10, 16, 28], [22, 16, 10, 28], [28, 28, 28, 10]];
    let node = |(index, distances): (usize, &[u32; 4])| {
        let first = 2 * index as u32;
        Node {
            id: NodeId(index as u16),
            cpus: if index < 3 { CpuSet::from_iter([first, first + 1]) } else { CpuSet::new() },
            memory_bytes: 8 << 30,
            distances: distances.to_vec(),
            tier: u32::from(index == 3),
            huge_page_sizes: vec![2 << 20],
            only_unusable_cpus: false,
            latency_ns: (index != 1).then_some(80.5),
            bandwidth: None,
        }
    };
    Machine { name: "test-3+1".to_owned(), is_virtual: true, nodes: distances.iter().enumerate().map(node).collect() }
}

/// The node of each of the four threads; none: unpinned.
const NODES: [Option<NodeId>; 4] = [Some(NodeId(0)), Some(NodeId(1)), None, Some(NodeId(2))];
/// The process of each thread.
const PROCESSES: [u32; 4] = [0, 0, 0, 1];

fn pages() -> Vec<PageOf> {
    let page = |page, process, object, home: Option<u16>, placed, toucher| PageOf {
        page,
        process,
        object,
        home: home.map(NodeId),
        placed,
        toucher,
    };
    let mut pages: Vec<PageOf> =
        (0..8).map(|index| page(HEAP + index, 0, 0, Some(0), Placed::Pinned, Some(0))).collect();
    pages.extend([
        page(HEAP + 8, 0, 0, None, Placed::Unseen, None),
        page(GLOBAL, 0, 1, Some(1), Placed::Unpinned, Some(2)),
        page(FILE, 0, 2, Some(2), Placed::Unseen, None),
        page(STACK, 0, 4, Some(1), Placed::Pinned, Some(1)),
        page(TIER, 1, 5, Some(3), Placed::Pinned, Some(3)),
        page(TIER + 1, 0, 6, Some(3), Placed::Pinned, Some(2)),
    ]);
    pages
}

fn touches() -> Vec<Touch> {
    let touch = |bin, thread, site, page, reads, writes| Touch { bin, thread, site, page, reads, writes };
    // Site 0 fills the array, 1 and 2 work on it, 3 is the child's loop.
    let mut touches: Vec<Touch> = (0..8).map(|page| touch(0, 0, 0, HEAP + page, 0, 2)).collect();
    touches.extend((0..8).map(|page| touch(1, 1, 1, HEAP + page, 3, 1)));
    touches.extend([
        touch(2, 2, 2, HEAP + 3, 4, 0),
        touch(2, 1, 1, HEAP + 8, 1, 0),
        touch(2, 2, 2, GLOBAL, 2, 1),
        touch(2, 1, 1, GLOBAL, 1, 1),
        touch(3, 2, 2, FILE, 3, 0),
        touch(3, 1, 1, STACK, 2, 2),
        touch(3, 3, 3, TIER, 5, 5),
        touch(3, 2, 2, TIER + 1, 2, 0),
    ]);
    touches
}

impl Synthetic {
    /// The example described above.
    pub fn example() -> Synthetic {
        let machine = machine();
        let mut example = Synthetic {
            meta: meta(&machine),
            machine: MachineNode::of(&machine),
            phases: vec![
                Phase {
                    process: ProcessId(0),
                    phase: 0,
                    name: "fill".into(),
                    thread: Some(ThreadId(0)),
                    start_ns: 0,
                    end_ns: Some(10_000_000),
                    site: None,
                },
                Phase {
                    process: ProcessId(0),
                    phase: 1,
                    name: "work".into(),
                    thread: None,
                    start_ns: 10_000_000,
                    end_ns: None,
                    site: None,
                },
            ],
            ..Synthetic::default()
        };
        example.add_processes();
        example.add_code();
        example.add_objects();
        example.add_facts(&machine);
        example.add_collections();
        example
    }

    /// Two threads collect, mostly what lies on their own nodes; what is static is all on the first one.
    fn add_collections(&mut self) {
        let process = ProcessId(0);
        for (thread, generation, led, helped) in [(0, 0, 5, 2), (1, 0, 2, 5), (0, 1, 1, 0), (2, 0, 0, 1)] {
            self.collections.push(Collection {
                process,
                thread: Some(ThreadId(thread)),
                node: NODES[thread as usize],
                kind: format!("generation {generation}"),
                led,
                led_ns: led * 1_000_000,
                longest_ns: led.min(1) * 1_000_000,
                helped,
                helped_ns: helped * 900_000,
            });
        }
        for (thread, home, generation, objects) in [
            (0, 0, Some(0), 900),
            (0, 1, Some(0), 100),
            (1, 1, Some(0), 500),
            (0, 0, None, 40),
            (1, 0, None, 60),
            (1, 0, Some(1), 7),
            (0, 0, Some(2), 3),
            (0, 1, Some(3), 2),
        ] {
            let (node, home) = (NODES[thread], NODES[home]);
            self.processed_objects.push(ProcessedObjects { process, node, home, generation, objects });
        }
    }

    fn add_processes(&mut self) {
        for (process, command) in [(0, "./app"), (1, "./app --child")] {
            self.processes.push(Process {
                process: ProcessId(process),
                pid: 1000 + process,
                parent: (process > 0).then_some(ProcessId(0)),
                rank: None,
                host: "test".into(),
                command: command.into(),
                start_ns: u64::from(process) * 5_000_000,
                end_ns: Some(40_000_000),
                end: "exited 0".into(),
                heap_observed: process == 0,
            });
        }
        for (thread, name) in ["app", "worker", "floater", "child"].into_iter().enumerate() {
            let (process, id) = (ProcessId(PROCESSES[thread]), ThreadId(thread as u32));
            let start_ns = 1_000_000 * thread as u64;
            let end_ns = (thread != 2).then_some(39_000_000);
            let name = name.into();
            self.threads.push(Thread {
                tid: 1000 + id.0,
                name,
                start_ns,
                end_ns,
                switches: 12,
                ..a_thread(process, id)
            });
            let cpus = NODES[thread].map_or("0-5".to_owned(), |node| format!("{}-{}", 2 * node.0, 2 * node.0 + 1));
            self.placements.push(Placement {
                process,
                thread: id,
                time_ns: start_ns,
                cpus,
                node: NODES[thread],
                policy: "default".into(),
                cause: "virtual machine".into(),
            });
        }
    }

    fn add_code(&mut self) {
        self.modules = vec![
            Module { module: ModuleId(0), path: "/home/user/app".into(), build_id: "00ff12".into() },
            Module { module: ModuleId(1), path: "/lib/libc.so.6".into(), build_id: String::new() },
        ];
        for process in [0, 1] {
            self.mappings.push(Mapping {
                process: ProcessId(process),
                time_ns: 0,
                start: CODE << PAGE_SHIFT,
                end: (CODE + 2) << PAGE_SHIFT,
                offset: 0x1000,
                perms: "r-xp".into(),
                module: Some(ModuleId(0)),
                name: "/home/user/app".into(),
            });
        }
        let names = ["fill", "work(double*, int)", "step", "child_loop", "main", "malloc"];
        let module = |index: usize| Some(ModuleId(u32::from(index == 5)));
        self.functions = names
            .iter()
            .enumerate()
            .map(|(index, name)| Function {
                function: FunctionId(index as u32),
                module: module(index),
                name: (*name).into(),
            })
            .collect();
        // Sites 0 to 3 access memory, 4 is in main, 5 in malloc, 6 in code without a module.
        self.sites = (0..6)
            .map(|index| Site {
                site: SiteId(index),
                module: module(index as usize),
                address: 0x1100 + 0x40 * u64::from(index),
            })
            .collect();
        self.sites.push(Site { site: SiteId(6), module: None, address: 0x7fff_f7fc_1000 });
        let frame = |site, depth, function, line| Frame {
            site: SiteId(site),
            depth,
            function: FunctionId(function),
            file: Some("app.c".into()),
            line: Some(line),
        };
        // `step` is inlined into `work` at sites 1 and 2.
        self.frames = vec![
            frame(0, 0, 0, 9),
            frame(1, 0, 2, 21),
            frame(1, 1, 1, 31),
            frame(2, 0, 2, 22),
            frame(2, 1, 1, 31),
            frame(3, 0, 3, 44),
            frame(4, 0, 4, 50),
        ];
        self.frames.push(Frame { site: SiteId(5), depth: 0, function: FunctionId(5), file: None, line: None });
        let stack = |stack, parent: Option<u32>, site| Stack {
            stack: StackId(stack),
            parent: parent.map(StackId),
            site: SiteId(site),
        };
        // Stack n + 1 is site n called from main; 5 is malloc called from main.
        self.stacks = vec![
            stack(0, None, 4),
            stack(1, Some(0), 0),
            stack(2, Some(0), 1),
            stack(3, Some(0), 2),
            stack(4, Some(0), 3),
            stack(5, Some(0), 5),
        ];
    }

    fn add_objects(&mut self) {
        let objects = [
            (0, ObjectKind::Heap, "a", HEAP, 9),
            (0, ObjectKind::Global, "table", GLOBAL, 1),
            (0, ObjectKind::File, "/data/input", FILE, 1),
            (0, ObjectKind::Code, "/home/user/app .text", CODE, 2),
            (0, ObjectKind::Stack, "stack of worker", STACK, 1),
            (1, ObjectKind::Heap, "", TIER, 1),
            (0, ObjectKind::Unknown, "", TIER + 1, 1),
        ];
        for (index, (process, kind, name, page, pages)) in objects.into_iter().enumerate() {
            let heap = kind == ObjectKind::Heap;
            let (object, thread) = (ObjectId(index as u32), ThreadId(3 * process));
            let base = page << PAGE_SHIFT;
            self.objects.push(Object {
                process: ProcessId(process),
                object,
                kind,
                name: name.into(),
                base,
                size: pages << PAGE_SHIFT,
                count: 1,
                site: heap.then_some(SiteId(4)),
                stack: heap.then_some(StackId(0)),
                thread: heap.then_some(thread),
                birth_ns: 500_000,
                death_ns: (index == 0).then_some(38_000_000),
            });
            if heap {
                let bytes = pages << PAGE_SHIFT;
                self.allocations.push(Allocation {
                    process: ProcessId(process),
                    time_ns: 500_000,
                    thread,
                    object: Some(object),
                    call: Call::Malloc,
                    address: base,
                    bytes,
                    weight: bytes,
                });
            }
        }
        let freed = self.objects[0].base;
        self.allocations.push(Allocation {
            process: ProcessId(0),
            time_ns: 38_000_000,
            thread: ThreadId(0),
            object: Some(ObjectId(0)),
            call: Call::Free,
            address: freed,
            bytes: 0,
            weight: 0,
        });
        self.add_placed_pages();
    }

    fn add_placed_pages(&mut self) {
        for page in pages() {
            self.pages.push(PlacedPages {
                process: ProcessId(page.process),
                page: Page(page.page),
                count: 1,
                bin_from: Bin(0),
                bin_to: None,
                home: page.home,
                page_size: Page::BYTES,
                placed: page.placed,
                fault: if page.home.is_none() {
                    Fault::ZeroPage
                } else if page.placed == Placed::Unseen {
                    Fault::File
                } else {
                    Fault::Anonymous
                },
                call: None,
                thread: page.toucher.map(ThreadId),
                node: page.toucher.and_then(|toucher| NODES[toucher as usize]),
                site: page.toucher.map(SiteId),
                stack: page.toucher.map(|toucher| StackId(toucher + 1)),
                object: Some(ObjectId(page.object)),
                inferred: page.page == STACK,
            });
        }
    }

    fn add_facts(&mut self, machine: &Machine) {
        let pages = pages();
        for touch in touches() {
            if let Some(page) = pages.iter().find(|page| page.page == touch.page) {
                self.add_touch(&touch, page, machine);
            }
        }
        for (thread, process) in PROCESSES.into_iter().enumerate() {
            self.code_fetches.push(CodeFetch {
                process: ProcessId(process),
                bin: Bin(thread as u32),
                thread: ThreadId(thread as u32),
                node: NODES[thread],
                page: Page(CODE),
                module: Some(ModuleId(0)),
                home: Some(NodeId(0)),
                instructions: 10 + thread as u64,
                period: PERIOD,
            });
        }
    }

    /// One touch in all tables that have it.
    fn add_touch(&mut self, touch: &Touch, page: &PageOf, machine: &Machine) {
        let (thread, period) = (touch.thread as usize, PERIOD);
        let (node, home) = (NODES[thread], page.home);
        let class = Class::from(machine.locality(node, home, page.placed != Placed::Unpinned));
        let (process, bin, site) = (ProcessId(PROCESSES[thread]), Bin(touch.bin), SiteId(touch.site));
        let (thread, object) = (ThreadId(touch.thread), ObjectId(page.object));
        let (reads, writes, samples) = (touch.reads, touch.writes, (touch.reads + touch.writes) as u32);
        let page = Page(touch.page);
        self.page_accesses.push(PageAccess { process, bin, thread, node, home, page, reads, writes, samples, period });
        let row = SiteAccess { process, bin, thread, node, site, home, class, reads, writes, samples, period };
        self.add_site_access(row);
        let site = Some(site);
        let row =
            ObjectAccess { process, bin, thread, node, site, object, home, class, reads, writes, samples, period };
        self.samples.extend(samples_of(&row, page));
        self.add_object_access(row);
    }

    fn add_site_access(&mut self, row: SiteAccess) {
        let key = |row: &SiteAccess| (row.bin, row.thread, row.site, row.home, row.class);
        match self.site_accesses.iter_mut().find(|fact| key(fact) == key(&row)) {
            Some(fact) => {
                fact.reads += row.reads;
                fact.writes += row.writes;
                fact.samples += row.samples;
            }
            None => self.site_accesses.push(row),
        }
    }

    fn add_object_access(&mut self, row: ObjectAccess) {
        let key = |row: &ObjectAccess| (row.bin, row.thread, row.site, row.object, row.home, row.class);
        match self.object_accesses.iter_mut().find(|fact| key(fact) == key(&row)) {
            Some(fact) => {
                fact.reads += row.reads;
                fact.writes += row.writes;
                fact.samples += row.samples;
            }
            None => self.object_accesses.push(row),
        }
    }

    /// Writes it all to a new profile at `path`.
    ///
    /// # Errors
    /// As [`Writer`].
    pub fn write(&self, path: &Path) -> Result<PathBuf, Error> {
        let mut writer = Writer::create(path, false)?;
        self.replace_all(&mut writer)?;
        writer.finish(&self.meta)
    }

    /// Gives every table to a writer.
    ///
    /// # Errors
    /// As [`Writer::replace`].
    pub fn replace_all(&self, writer: &mut Writer) -> Result<(), Error> {
        writer.replace(self.machine.iter().cloned())?;
        writer.replace(self.processes.iter().cloned())?;
        writer.replace(self.threads.iter().cloned())?;
        writer.replace(self.placements.iter().cloned())?;
        writer.replace(self.modules.iter().cloned())?;
        writer.replace(self.mappings.iter().cloned())?;
        writer.replace(self.sites.iter().cloned())?;
        writer.replace(self.frames.iter().cloned())?;
        writer.replace(self.functions.iter().cloned())?;
        writer.replace(self.stacks.iter().cloned())?;
        match self.older {
            true => writer.replace(self.page_accesses.iter().cloned().map(older::PageAccess::from))?,
            false => writer.replace(self.page_accesses.iter().cloned())?,
        }
        writer.replace(self.site_accesses.iter().cloned())?;
        writer.replace(self.object_accesses.iter().cloned())?;
        writer.replace(self.object_bounds.iter().cloned())?;
        writer.replace(self.samples.iter().cloned())?;
        writer.replace(self.code_fetches.iter().cloned())?;
        writer.replace(self.site_misses.iter().cloned())?;
        writer.replace(self.page_misses.iter().cloned())?;
        writer.replace(self.cache_lines.iter().cloned())?;
        writer.replace(self.line_communication.iter().cloned())?;
        writer.replace(self.waiting_sites.iter().cloned())?;
        writer.replace(self.pages.iter().cloned())?;
        writer.replace(self.objects.iter().cloned())?;
        writer.replace(self.allocations.iter().cloned())?;
        writer.replace(self.collections.iter().cloned())?;
        writer.replace(self.processed_objects.iter().cloned())?;
        writer.replace(self.phases.iter().cloned())
    }
}

/// A sample for each access of a row to a page.
fn samples_of(row: &ObjectAccess, page: Page) -> impl Iterator<Item = Sample> + use<'_> {
    (0..row.reads + row.writes).filter_map(move |number| {
        let site = row.site?;
        Some(Sample {
            process: row.process,
            time_ns: u64::from(row.bin.0) * 10_000_000 + number * PERIOD,
            thread: row.thread,
            cpu: row.node.map_or(5, |node| 2 * u32::from(node.0)),
            site,
            stack: Some(StackId(site.0 + 1)),
            address: page.address() + 8 * number,
            found: Found::ALL[1 + number as usize % 3],
            access: if number < row.reads { Access::Read } else { Access::Write },
            object: Some(row.object),
            node: row.node,
            home: row.home,
            class: row.class,
            latency: None,
            source: None,
            period: PERIOD,
        })
    })
}

fn meta(machine: &Machine) -> Meta {
    Meta {
        complete: true,
        command: vec!["./app".into(), "8".into()],
        cwd: "/home/user".into(),
        host: "test".into(),
        kernel: "6.1.0".into(),
        numalens_version: "0.1.0".into(),
        engine: Engine::Sample,
        unit: RecordedUnit::TimeAtMemory,
        unit_note: "clock samples weigh time, they do not count accesses".into(),
        machine_name: machine.name.clone(),
        machine_virtual: machine.is_virtual,
        placement: MachineOption::Set(ThreadPlacement::Spread),
        policy: MachineOption::Set(PagePolicy::FirstTouch),
        start_time: "2024-02-29T12:00:00Z".into(),
        duration_ns: 40_000_000,
        bin_ns: 10_000_000,
        bins: 4,
        frequency: Some(997.0),
        period: PERIOD,
        losses: [("samples".to_owned(), 2)].into(),
        notes: vec!["synthetic".into()],
        exit_status: "exited 0".into(),
        lines_wait: false,
        environment: [("OMP_NUM_THREADS".to_owned(), "3".to_owned())].into(),
        ..Meta::default()
    }
}
