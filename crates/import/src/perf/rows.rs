//! From samples to the tables of a profile.

use super::homes::Homes;
use super::reader::{Mapped, Recording, Sampled};
use crate::{ImportError, Options};
use numalens_profile::ids::*;
use numalens_profile::tables::*;
use numalens_profile::words::*;
use numalens_profile::{Engine, Meta, RecordedUnit, write_whole};
use numalens_topology::{Machine, NodeId};
use rustc_hash::FxHashMap;
use std::path::{Path, PathBuf};

/// Time bins.
const BINS: u32 = 200;

#[derive(Default)]
struct Tables {
    processes: Vec<Process>,
    threads: Vec<Thread>,
    placements: Vec<Placement>,
    modules: Vec<Module>,
    mappings: Vec<Mapping>,
    sites: Vec<Site>,
    stacks: Vec<Stack>,
    samples: Vec<Sample>,
    pages: Vec<PlacedPages>,
    page_accesses: FxHashMap<PageKey, Sums>,
    site_accesses: FxHashMap<SiteKey, Sums>,
    process_ids: FxHashMap<u32, ProcessId>,
    thread_ids: FxHashMap<(u32, u32), ThreadId>,
    module_ids: FxHashMap<String, ModuleId>,
    site_ids: FxHashMap<(Option<ModuleId>, u64), SiteId>,
    stack_ids: FxHashMap<(Option<StackId>, SiteId), StackId>,
    nodes: FxHashMap<ThreadId, Option<NodeId>>,
    page_rows: FxHashMap<(ProcessId, Page), usize>,
}

/// Process, bin, thread, its node, the page's home, page, period.
type PageKey = (ProcessId, Bin, ThreadId, Option<NodeId>, Option<NodeId>, Page, u64);
/// Process, bin, thread, its node, site, home, class, period.
type SiteKey = (ProcessId, Bin, ThreadId, Option<NodeId>, SiteId, Option<NodeId>, Class, u64);
/// Reads, writes, samples.
type Sums = (u64, u64, u32);

/// Writes the profile.
///
/// # Errors
/// It cannot be written.
pub fn write(
    recording: &Recording,
    machine: &Machine,
    homes: &Homes,
    options: &Options,
    output: &Path,
    force: bool,
) -> Result<PathBuf, ImportError> {
    let first = recording.samples.first().map_or(0, |sample| sample.time);
    let last = recording.samples.last().map_or(first, |sample| sample.time);
    let duration = last - first;
    let bin_ns = (duration / u64::from(BINS)).saturating_add(1);
    let mut tables = Tables::default();
    let space = Space::new(recording);
    for sample in &recording.samples {
        tables.add(sample, recording, machine, homes, &space, (first, bin_ns));
    }
    for mapping in &recording.mappings {
        if let Some(process) = tables.process_ids.get(&mapping.pid).copied() {
            let module =
                Some(mapping.path.as_str()).filter(|path| path.starts_with('/')).map(|path| tables.module(path));
            tables.mappings.push(Mapping {
                process,
                time_ns: mapping.time.saturating_sub(first),
                start: mapping.start,
                end: mapping.end,
                offset: mapping.offset,
                perms: if mapping.executable { "r-xp" } else { "r--p" }.to_owned(),
                module,
                name: mapping.path.clone(),
            });
        }
    }
    let meta = meta(recording, machine, options, (duration, bin_ns));
    tables.write(machine, &meta, output, force)
}

fn meta(recording: &Recording, machine: &Machine, options: &Options, (duration, bin_ns): (u64, u64)) -> Meta {
    let mut notes = vec![
        format!("imported from perf.data; samples of {}", recording.events.join(", ")),
        "a thread's node is that of the CPU that a sample was taken on: where it was bound perf does not record"
            .to_owned(),
    ];
    let undirected = recording.samples.iter().filter(|sample| sample.access.is_none()).count();
    let mut note = |n: u64, text: &str| {
        if n > 0 {
            notes.push(format!("{n} samples {text}"));
        }
    };
    note(undirected as u64, "do not say whether they read or wrote: they count as reads");
    let nowhere = recording.samples.iter().filter(|sample| sample.cpu == u32::MAX).count();
    note(nowhere as u64, "do not say on which CPU (perf record --sample-cpu): their threads count as unpinned");
    note(recording.kernel, "of the kernel's own code are left out");
    note(recording.without_address, "without an address are left out");
    if options.machine.is_none() {
        notes.push(
            "distances between nodes are not in the file: 20 stands for all of them; --machine knows better".to_owned(),
        );
    }
    let lost = [("samples", recording.lost), ("unreadable records", recording.unreadable)];
    Meta {
        command: recording.command.clone(),
        host: recording.host.clone(),
        kernel: recording.kernel_release.clone(),
        numalens_version: env!("CARGO_PKG_VERSION").to_owned(),
        engine: Engine::Perf,
        unit: RecordedUnit::EstimatedAccesses,
        unit_note: "samples times their periods".to_owned(),
        machine_name: machine.name.clone(),
        duration_ns: duration,
        bin_ns,
        bins: BINS,
        reads_and_writes: undirected == 0,
        run_time_ns: options.run_time_ns,
        losses: lost.into_iter().filter(|(_, n)| *n > 0).map(|(what, n)| (what.to_owned(), n)).collect(),
        notes,
        ..Meta::default()
    }
}

/// What was mapped where and when.
struct Space<'a> {
    processes: FxHashMap<u32, Vec<&'a Mapped>>,
    parents: FxHashMap<u32, u32>,
}

impl<'a> Space<'a> {
    fn new(recording: &'a Recording) -> Self {
        let mut processes: FxHashMap<u32, Vec<&Mapped>> = FxHashMap::default();
        for mapping in &recording.mappings {
            processes.entry(mapping.pid).or_default().push(mapping);
        }
        let forks = recording.forks.iter().filter(|(_, pid, parent, _)| pid != parent);
        Space { processes, parents: forks.map(|(_, pid, parent, _)| (*pid, *parent)).collect() }
    }

    /// The newest mapping that covers an address; a forked child has its parent's.
    fn find(&self, mut pid: u32, address: u64, time: u64) -> Option<&'a Mapped> {
        for _ in 0..16 {
            let found = self.processes.get(&pid).into_iter().flatten().rev();
            let covers = |map: &&&Mapped| map.time <= time && (map.start..map.end).contains(&address);
            if let Some(found) = found.copied().find(|map| covers(&map)) {
                return Some(found);
            }
            pid = *self.parents.get(&pid)?;
        }
        None
    }
}

impl Tables {
    fn add(
        &mut self,
        sample: &Sampled,
        recording: &Recording,
        machine: &Machine,
        homes: &Homes,
        space: &Space<'_>,
        (first, bin_ns): (u64, u64),
    ) {
        let time_ns = sample.time.saturating_sub(first);
        let process = self.process(sample, recording, time_ns);
        let thread = self.thread(sample, process, recording, time_ns);
        let node = machine.node_of_cpu(sample.cpu);
        self.place(process, thread, node, machine, time_ns);
        let bin = Bin(u32::try_from(time_ns / bin_ns).unwrap_or(BINS - 1).min(BINS - 1));
        let page = Page::of(sample.address);
        let found = homes.of(sample.pid, page);
        // Who faults a page in has it placed where it runs, as long as nothing else is known.
        let home = found
            .map(|(home, _)| home)
            .or_else(|| self.home_of_row(process, page))
            .or(node.filter(|_| sample.is_fault));
        let site = self.site(sample.ip, sample, space);
        let stack = self.stack(site, sample, space);
        if home.is_some() || sample.is_fault {
            self.page(
                process,
                page,
                home,
                found.is_none_or(|(_, physical)| !physical),
                sample,
                (thread, site, stack),
                (bin, node),
            );
        }
        let class = Class::from(machine.locality(node, home, true));
        let access = sample.access.unwrap_or(Access::Read);
        let (reads, writes) = match access {
            Access::Read => (1, 0),
            Access::Write => (0, 1),
            Access::ReadWrite => (1, 1),
        };
        let add = |sum: &mut (u64, u64, u32)| *sum = (sum.0 + reads, sum.1 + writes, sum.2 + 1);
        add(self.page_accesses.entry((process, bin, thread, node, home, page, sample.period)).or_default());
        add(self.site_accesses.entry((process, bin, thread, node, site, home, class, sample.period)).or_default());
        self.samples.push(Sample {
            process,
            time_ns,
            thread,
            cpu: sample.cpu,
            site,
            stack,
            address: sample.address,
            found: Found::Hardware,
            access,
            object: None,
            node,
            home,
            class,
            latency: sample.latency,
            source: sample.source,
            period: sample.period,
        });
    }

    fn process(&mut self, sample: &Sampled, recording: &Recording, time_ns: u64) -> ProcessId {
        *self.process_ids.entry(sample.pid).or_insert_with(|| {
            let process = ProcessId(self.processes.len() as u32);
            let name = recording.names.iter().rev().find(|(_, pid, tid, _)| *pid == sample.pid && tid == pid);
            self.processes.push(Process {
                process,
                pid: sample.pid,
                parent: None,
                rank: None,
                host: recording.host.clone(),
                command: name.map(|(.., name)| name.clone()).unwrap_or_default(),
                start_ns: time_ns,
                end_ns: None,
                end: "unknown".to_owned(),
                heap_observed: false,
            });
            process
        })
    }

    fn thread(&mut self, sample: &Sampled, process: ProcessId, recording: &Recording, time_ns: u64) -> ThreadId {
        *self.thread_ids.entry((sample.pid, sample.tid)).or_insert_with(|| {
            let thread = ThreadId(self.threads.len() as u32);
            let name = recording.names.iter().rev().find(|(_, pid, tid, _)| (*pid, *tid) == (sample.pid, sample.tid));
            self.threads.push(Thread {
                process,
                thread,
                tid: sample.tid,
                name: name.map(|(.., name)| name.clone()).unwrap_or_default(),
                start_ns: time_ns,
                end_ns: None,
                switches: 0,
                migrations: 0,
            });
            thread
        })
    }

    /// A row of the pinning log when the thread turns up on another node.
    fn place(&mut self, process: ProcessId, thread: ThreadId, node: Option<NodeId>, machine: &Machine, time_ns: u64) {
        if self.nodes.insert(thread, node) != Some(node) {
            self.placements.push(Placement {
                process,
                thread,
                time_ns,
                cpus: node.and_then(|node| machine.node(node)).map(|node| node.cpus.to_string()).unwrap_or_default(),
                node,
                policy: "default".to_owned(),
                cause: "observed".to_owned(),
            });
        }
    }

    fn home_of_row(&self, process: ProcessId, page: Page) -> Option<NodeId> {
        self.pages.get(*self.page_rows.get(&(process, page))?)?.home
    }

    #[allow(clippy::too_many_arguments, reason = "the columns of one row")]
    fn page(
        &mut self,
        process: ProcessId,
        page: Page,
        home: Option<NodeId>,
        inferred: bool,
        sample: &Sampled,
        (thread, site, stack): (ThreadId, SiteId, Option<StackId>),
        (bin, node): (Bin, Option<NodeId>),
    ) {
        if self.page_rows.contains_key(&(process, page)) {
            return;
        }
        self.page_rows.insert((process, page), self.pages.len());
        let touched = sample.is_fault;
        self.pages.push(PlacedPages {
            process,
            page,
            count: 1,
            bin_from: bin,
            bin_to: None,
            home,
            page_size: Page::BYTES,
            placed: match (touched, node) {
                (false, _) => Placed::Unseen,
                (true, Some(_)) => Placed::Pinned,
                (true, None) => Placed::Unpinned,
            },
            call: None,
            fault: if touched { Fault::Anonymous } else { Fault::None },
            thread: touched.then_some(thread),
            node: node.filter(|_| touched),
            site: touched.then_some(site),
            stack: stack.filter(|_| touched),
            object: None,
            inferred,
        });
    }

    fn module(&mut self, path: &str) -> ModuleId {
        if let Some(module) = self.module_ids.get(path) {
            return *module;
        }
        let module = ModuleId(self.modules.len() as u32);
        self.modules.push(Module { module, path: path.to_owned(), build_id: String::new() });
        self.module_ids.insert(path.to_owned(), module);
        module
    }

    fn site(&mut self, address: u64, sample: &Sampled, space: &Space<'_>) -> SiteId {
        let mapping = space.find(sample.pid, address, sample.time).filter(|map| map.path.starts_with('/'));
        let (module, address) = match mapping {
            Some(map) => (Some(self.module(&map.path)), address - map.start + map.offset),
            None => (None, address),
        };
        *self.site_ids.entry((module, address)).or_insert_with(|| {
            let site = SiteId(self.sites.len() as u32);
            self.sites.push(Site { site, module, address });
            site
        })
    }

    /// The callers' sites are the calls: one byte before where they return to.
    fn stack(&mut self, leaf: SiteId, sample: &Sampled, space: &Space<'_>) -> Option<StackId> {
        if sample.callers.is_empty() {
            return None;
        }
        let mut sites = vec![leaf];
        for caller in &sample.callers {
            sites.push(self.site(caller.saturating_sub(1), sample, space));
        }
        let mut parent = None;
        for site in sites.into_iter().rev() {
            let stack = *self.stack_ids.entry((parent, site)).or_insert_with(|| {
                let stack = StackId(self.stacks.len() as u32);
                self.stacks.push(Stack { stack, parent, site });
                stack
            });
            parent = Some(stack);
        }
        parent
    }

    fn write(self, machine: &Machine, meta: &Meta, output: &Path, force: bool) -> Result<PathBuf, ImportError> {
        let mut page_accesses: Vec<_> = self.page_accesses.into_iter().collect();
        page_accesses.sort_unstable();
        let mut site_accesses: Vec<_> = self.site_accesses.into_iter().collect();
        site_accesses.sort_unstable();
        write_whole(output, force, |writer| {
            writer.replace(MachineNode::of(machine))?;
            writer.replace(self.processes)?;
            writer.replace(self.threads)?;
            writer.replace(self.placements)?;
            writer.replace(self.modules)?;
            writer.replace(self.mappings)?;
            writer.replace(self.sites)?;
            writer.replace(self.stacks)?;
            writer.replace(self.samples)?;
            writer.replace(self.pages)?;
            writer.replace(page_accesses.into_iter().map(
                |((process, bin, thread, node, home, page, period), (reads, writes, samples))| PageAccess {
                    process,
                    bin,
                    thread,
                    node,
                    home,
                    page,
                    reads,
                    writes,
                    samples,
                    period,
                },
            ))?;
            writer.replace(site_accesses.into_iter().map(|(key, (reads, writes, samples))| {
                let (process, bin, thread, node, site, home, class, period) = key;
                SiteAccess { process, bin, thread, node, site, home, class, reads, writes, samples, period }
            }))?;
            Ok(meta.clone())
        })
    }
}
