//! What goes into the profile, and when: samples in a stream, the rest at each checkpoint.

use super::Session;
use crate::unwind::Module;
use numalens_profile::ids::{ModuleId, SiteId};
use numalens_profile::tables;
use numalens_profile::{Content, Error, Meta, Writer};
use rustc_hash::{FxHashMap, FxHashSet};
use std::path::PathBuf;
use std::sync::Arc;

/// Why the profile could not be written.
pub type OutputError = Error;

/// Samples gathered before they are handed to the writer.
const SAMPLES_AT_ONCE: usize = 1 << 14;
/// Samples kept before every second one is left out.
const SAMPLES_PER_STRIDE: u64 = 8 << 20;
/// Allocations written one by one.
const MOST_ALLOCATIONS: u64 = 4 << 20;

/// The code of a recording.
#[derive(Debug)]
pub struct SeenCode {
    pub sites: Vec<tables::Site>,
    pub modules: Vec<tables::Module>,
    /// How much of the recording each module's code is: its part (0 to 1) of the counted accesses, or of the pages placed, whichever is larger; all
    /// of it where a phase is named by its code.
    pub shares: FxHashMap<ModuleId, f64>,
    /// Modules whose path does not lead to what was executed any more, or only within a container: with what was.
    pub kept: FxHashMap<ModuleId, Arc<Module>>,
}

/// The parts of a sum that modules have, of so many; other code has none.
fn shares(modules: usize, counts: impl Iterator<Item = (Option<ModuleId>, u64)>) -> Vec<f64> {
    // Facts are many: no hashing.
    let (mut sums, mut others) = (vec![0u64; modules], 0u64);
    for (module, count) in counts {
        let sum = module.and_then(|module| sums.get_mut(module.0 as usize)).unwrap_or(&mut others);
        *sum = sum.saturating_add(count);
    }
    let total: f64 = sums.iter().chain([&others]).map(|&sum| sum as f64).sum();
    sums.into_iter().map(|sum| sum as f64 / total.max(1.0)).collect()
}

/// The writer, and what waits for it.
pub struct Output {
    writer: Writer,
    samples: Vec<tables::Sample>,
    allocations: Vec<tables::Allocation>,
    written_samples: u64,
    written_allocations: u64,
    /// Every how many samples one is kept in the table (the facts count all).
    stride: u64,
    seen: u64,
    dropped_samples: u64,
    dropped_allocations: u64,
    failed: Option<Error>,
}

impl Output {
    pub fn new(writer: Writer) -> Self {
        Output {
            writer,
            samples: Vec::new(),
            allocations: Vec::new(),
            written_samples: 0,
            written_allocations: 0,
            stride: 1,
            seen: 0,
            dropped_samples: 0,
            dropped_allocations: 0,
            failed: None,
        }
    }

    /// Keeps a sample for the `samples` table. Of a very long recording only every second, fourth, ... is kept.
    pub fn add_sample(&mut self, sample: tables::Sample) {
        self.seen += 1;
        if !self.seen.is_multiple_of(self.stride) {
            self.dropped_samples += 1;
            return;
        }
        self.samples.push(sample);
        self.written_samples += 1;
        if self.written_samples.is_multiple_of(SAMPLES_PER_STRIDE) {
            self.stride *= 2;
        }
        if self.samples.len() >= SAMPLES_AT_ONCE {
            self.flush();
        }
    }

    /// Keeps an allocation for the `allocations` table.
    pub fn add_allocation(&mut self, allocation: tables::Allocation) {
        if self.written_allocations >= MOST_ALLOCATIONS {
            self.dropped_allocations += 1;
            return;
        }
        self.written_allocations += 1;
        self.allocations.push(allocation);
        if self.allocations.len() >= SAMPLES_AT_ONCE {
            self.flush();
        }
    }

    /// Appends rows that are told once.
    fn add<T: numalens_profile::Row>(&mut self, rows: Vec<T>) {
        if let Err(error) = self.writer.append(rows) {
            self.failed.get_or_insert(error);
        }
    }

    fn flush(&mut self) {
        let samples = std::mem::take(&mut self.samples);
        let allocations = std::mem::take(&mut self.allocations);
        let done = self.writer.append(samples).and_then(|()| self.writer.append(allocations));
        if let Err(error) = done {
            // A full disk must not end the recording: the next checkpoint says what is missing.
            self.failed.get_or_insert(error);
        }
    }

    /// Bytes written so far.
    pub fn bytes(&self) -> u64 {
        self.writer.bytes_written()
    }
}

impl Session {
    /// Hands over what waits, and widens bins until they hold all of the recording, up to its last moment.
    fn bring_up_to_date(&mut self) -> Result<(), Error> {
        self.output.flush();
        if let Some(error) = self.output.failed.take() {
            return Err(error);
        }
        self.bin(self.clock.now_ns);
        Ok(())
    }

    fn write_tables(&mut self, pages: Vec<tables::PlacedPages>) -> Result<(), Error> {
        let period = self.options.period;
        let mappings = std::mem::take(&mut self.images.new_mappings);
        let writer = &mut self.output.writer;
        writer.append(mappings)?;
        let facts = self.facts.settled();
        let (options, code) = (&self.options, &self.images.code);
        let (processes, threads, marks, objects) = (self.processes.rows(), &self.threads, &self.marks, &self.objects);
        let mut contents = vec![
            // Those that take longest begin.
            Content::of(|| facts.site_rows(period)),
            Content::of(|| facts.page_rows(period)),
            Content::of(|| facts.object_rows(period)),
            Content::of(|| facts.code_rows(period)),
            Content::of(|| code.site_rows()),
            Content::of(|| pages),
            Content::of(|| code.stack_rows()),
            Content::of(|| code.module_rows()),
            Content::of(|| objects.rows().iter().cloned()),
            Content::of(|| marks.rows().iter().cloned()),
            Content::of(|| threads.placement_rows().iter().cloned()),
            Content::of(|| threads.rows().iter().cloned()),
            Content::of(|| processes.iter().map(|row| with_command(row, threads.rows()))),
            Content::of(|| tables::MachineNode::of(&options.machine)),
        ];
        if options.counted {
            contents.push(Content::of(|| objects.bounds.iter().cloned()));
        }
        if options.cache.is_some() {
            contents.push(Content::of(|| facts.page_miss_rows()));
            contents.push(Content::of(|| facts.site_miss_rows()));
        }
        writer.replace_all(contents)
    }

    fn seen_code(&self, pages: &[tables::PlacedPages]) -> SeenCode {
        let sites: Vec<tables::Site> = self.images.code.site_rows().collect();
        let of = |site: SiteId| sites.get(site.0 as usize).and_then(|site| site.module);
        let modules: Vec<tables::Module> = self.images.code.module_rows().collect();
        let accesses = shares(modules.len(), self.facts.accesses_by_site().map(|(site, count)| (of(site), count)));
        let pages = shares(modules.len(), pages.iter().filter_map(|row| Some((of(row.site?), row.count))));
        // Phases are named by their places.
        let named: FxHashSet<ModuleId> = self.marks.rows().iter().filter_map(|phase| of(phase.site?)).collect();
        let share = |module: &ModuleId| {
            let of = |shares: &[f64]| shares.get(module.0 as usize).copied().unwrap_or(0.0);
            if named.contains(module) { 1.0 } else { of(&accesses).max(of(&pages)) }
        };
        let shares = modules.iter().map(|row| (row.module, share(&row.module))).collect();
        let kept = self.images.out_of_reach().collect();
        SeenCode { sites, modules, shares, kept }
    }

    fn complete_meta(&self, meta: &mut Meta) {
        meta.duration_ns = self.clock.now_ns;
        meta.bin_ns = self.facts.bin_width_ns();
        meta.bins = self.facts.bin_count(self.clock.now_ns);
        meta.counted_ns = self.observed.counted_ns(self.clock.now_ns);
        meta.coarsened.clone_from(&self.facts.coarsened);
        self.marks.note(meta);
        let mut coarsened = |what: &str, count: u64| {
            if count > 0 {
                meta.coarsened.push(format!("{what}: {count}"));
            }
        };
        coarsened("samples: rows left out of the table (the facts count them)", self.output.dropped_samples);
        coarsened("allocations: rows left out of the table", self.output.dropped_allocations);
        coarsened("pages: ended periods left out", self.pages.closed.dropped);
        coarsened("stacks: cut to one frame", self.images.code.cut_stacks);
        self.unobserved.note(self.processes.rows(), meta);
        let tally = self.tally;
        if self.options.counted {
            return;
        }
        if tally.lost > 0 {
            meta.losses.insert("perf records".to_owned(), tally.lost);
        }
        meta.extra.insert(
            "sampling".to_owned(),
            serde_json::json!({
                "samples": tally.samples,
                "resolved": tally.resolved,
                "stack_accesses_left_out": tally.stack,
                "without_memory_access": tally.no_access,
                "in_the_interposer": tally.own,
                "page_faults": tally.faults,
                "inferred_homes": self.pages.inferred_homes,
                "migrated_pages": self.pages.migrated,
            }),
        );
    }

    /// Makes what was seen so far readable on disk.
    pub fn checkpoint(&mut self, meta: &mut Meta) -> Result<(), Error> {
        self.bring_up_to_date()?;
        self.write_tables(self.pages.rows(self.processes.live()))?;
        self.complete_meta(meta);
        self.output.writer.checkpoint(meta)
    }

    /// Writes everything and gives the profile its final name. `seen` is told of the code first: it can be named meanwhile.
    pub fn finish(mut self, meta: &mut Meta, seen: impl FnOnce(SeenCode)) -> Result<PathBuf, Error> {
        self.settle();
        self.bring_up_to_date()?;
        let pages = self.pages.rows(self.processes.live());
        seen(self.seen_code(&pages));
        self.write_tables(pages)?;
        self.complete_meta(meta);
        self.output.writer.finish(meta)
    }

    /// Adds cache lines that threads have accessed.
    pub fn add_cache_lines(&mut self, rows: Vec<tables::CacheLine>) {
        if !self.leaves_lines_out() {
            self.output.add(rows);
        }
    }

    /// Accesses by cache line are known for all of a process only: with pauses in between they would not be those that were counted.
    fn leaves_lines_out(&mut self) -> bool {
        let paused = self.observed.ever_paused();
        if paused {
            self.coarsened("cache_lines: left out, as the counting was paused");
        }
        paused
    }

    /// Adds accesses to cache lines that another thread had accessed last.
    pub fn add_line_communication(&mut self, rows: Vec<tables::LineCommunication>) {
        if !self.leaves_lines_out() {
            self.output.add(rows);
        }
    }

    /// Notes what was given up to stay within memory.
    pub fn coarsened(&mut self, note: &str) {
        if !self.facts.coarsened.iter().any(|known| known == note) {
            self.facts.coarsened.push(note.to_owned());
        }
    }

    /// Bytes written to disk so far.
    pub fn bytes_written(&self) -> u64 {
        self.output.bytes()
    }

    /// Time of the last record, since the start.
    pub fn now_ns(&self) -> u64 {
        self.clock.now_ns
    }

    /// Ids of the processes that live.
    pub fn live_pids(&self) -> Vec<i32> {
        self.processes.pids()
    }
}

/// A process with its command; of one that had gone before that could be asked for, the name of its first thread.
fn with_command(row: &tables::Process, threads: &[tables::Thread]) -> tables::Process {
    let mut row = row.clone();
    if row.command.is_empty() {
        let first = threads.iter().rfind(|thread| thread.process == row.process && thread.tid == row.pid);
        row.command = first.map(|thread| thread.name.clone()).unwrap_or_default();
    }
    row
}
