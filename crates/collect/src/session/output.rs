//! What goes into the profile, and when: samples in a stream, the rest at each checkpoint.

use super::Session;
use crate::runtimes::ToldNames;
use crate::unwind::Module;
use numalens_event::exact::site::WAYS;
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
    /// How much of the recording each module's code is: its part (0 to 1) of the counted accesses, or of the pages
    /// placed, whichever is larger; all of it where a phase is named by its code.
    pub shares: FxHashMap<ModuleId, f64>,
    /// Modules whose path does not lead to what was executed any more, or only within a container: with what was.
    pub kept: FxHashMap<ModuleId, Arc<Module>>,
    /// What runtimes have said of it.
    pub told: ToldNames,
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

    /// Appends rows that are reported once.
    pub fn add<T: numalens_profile::Row>(&mut self, rows: Vec<T>) {
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

    /// Gives the profile its final name.
    pub fn finish(self, meta: &Meta) -> Result<PathBuf, Error> {
        self.writer.finish(meta)
    }

    /// Bytes written so far.
    pub fn bytes(&self) -> u64 {
        self.writer.bytes_written()
    }
}

/// Writes the tables of a recording.
pub struct TableWriter<'a> {
    pub session: &'a mut Session,
}

impl TableWriter<'_> {
    /// Hands over what waits, and widens bins until they hold all of the recording, up to its last moment.
    fn bring_up_to_date(&mut self) -> Result<(), Error> {
        self.session.output.flush();
        if let Some(error) = self.session.output.failed.take() {
            return Err(error);
        }
        self.session.bin(self.session.clock.now_ns);
        Ok(())
    }

    fn write_tables(&mut self, pages: Vec<tables::PlacedPages>) -> Result<(), Error> {
        let period = self.session.options.period;
        let mappings = std::mem::take(&mut self.session.images.new_mappings);
        let writer = &mut self.session.output.writer;
        writer.append(mappings)?;
        let regions = self.session.facts.page_regions.clone();
        let facts = self.session.facts.settled();
        let (options, code) = (&self.session.options, &self.session.images.code);
        let (processes, threads, marks, objects) =
            (self.session.processes.rows(), &self.session.threads, &self.session.marks, &self.session.objects);
        let collections = &self.session.languages.collections;
        let mut contents = vec![
            // Those that take longest begin.
            Content::of(|| facts.site_rows(period)),
            Content::of(|| facts.page_rows(period)),
            Content::of(|| facts.object_rows(period)),
            Content::of(|| facts.code_rows(period)),
            Content::of(|| code.site_rows()),
            Content::of(|| pages),
            Content::of(|| regions),
            Content::of(|| code.stack_rows()),
            Content::of(|| code.module_rows()),
            Content::of(|| objects.rows().iter().cloned()),
            Content::of(|| marks.rows().iter().cloned()),
            Content::of(|| collections.rows().iter().cloned()),
            Content::of(|| collections.object_rows()),
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

    /// The code so far, without shares.
    pub fn code_so_far(&self) -> SeenCode {
        let code = &self.session.images.code;
        let kept = self.session.images.out_of_reach().collect();
        SeenCode {
            sites: code.site_rows().collect(),
            modules: code.module_rows().collect(),
            shares: FxHashMap::default(),
            kept,
            told: ToldNames::default(),
        }
    }

    fn seen_code(&mut self, pages: &[tables::PlacedPages]) -> SeenCode {
        let SeenCode { sites, modules, kept, .. } = self.code_so_far();
        let of = |site: SiteId| sites.get(site.0 as usize).and_then(|site| site.module);
        let accesses =
            shares(modules.len(), self.session.facts.accesses_by_site().map(|(site, count)| (of(site), count)));
        let pages = shares(modules.len(), pages.iter().filter_map(|row| Some((of(row.site?), row.count))));
        // Phases are named by their places.
        let named: FxHashSet<ModuleId> = self.session.marks.rows().iter().filter_map(|phase| of(phase.site?)).collect();
        let share = |module: &ModuleId| {
            let of = |shares: &[f64]| shares.get(module.0 as usize).copied().unwrap_or(0.0);
            if named.contains(module) { 1.0 } else { of(&accesses).max(of(&pages)) }
        };
        let shares = modules.iter().map(|row| (row.module, share(&row.module))).collect();
        let told = self.session.languages.runtimes.names(&sites, &modules);
        SeenCode { sites, modules, shares, kept, told }
    }

    fn complete_meta(&self, meta: &mut Meta) {
        meta.duration_ns = self.session.clock.now_ns;
        meta.bin_ns = self.session.facts.bin_width_ns();
        meta.bins = self.session.facts.bin_count(self.session.clock.now_ns);
        meta.counted_ns = self.session.observed.counted_ns(self.session.clock.now_ns);
        meta.coarsened.clone_from(&self.session.facts.coarsened);
        self.session.marks.note(meta);
        let mut coarsened = |what: &str, count: u64| {
            if count > 0 {
                meta.coarsened.push(format!("{what}: {count}"));
            }
        };
        coarsened("samples: rows left out of the table (the facts count them)", self.session.output.dropped_samples);
        coarsened("allocations: rows left out of the table", self.session.output.dropped_allocations);
        coarsened("pages: ended periods left out", self.session.pages.closed.dropped);
        coarsened("stacks: cut to one frame", self.session.images.code.cut_stacks);
        let lost = self.session.languages.runtimes.lost();
        if lost > 0 {
            meta.losses.insert("bytes of what runtimes told of their code".to_owned(), lost);
        }
        if self.session.languages.lines.count > 0 {
            meta.extra.insert("looks_at_lines".to_owned(), self.session.languages.lines.count.into());
        }
        self.session.unobserved.note(self.session.processes.rows(), meta);
        let tally = self.session.tally;
        if self.session.options.counted {
            let ways = WAYS.iter().zip(tally.ways).filter(|(_, accesses)| *accesses > 0);
            let ways = ways.map(|(way, accesses)| ((*way).to_owned(), accesses.into())).collect();
            meta.extra.insert("counted_as".to_owned(), serde_json::Value::Object(ways));
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
                "inferred_homes": self.session.pages.inferred_homes,
                "migrated_pages": self.session.pages.migrated,
            }),
        );
    }

    /// Makes what was seen so far readable on disk.
    pub fn checkpoint(&mut self, meta: &mut Meta) -> Result<(), Error> {
        self.bring_up_to_date()?;
        self.write_tables(self.session.pages.rows(self.session.processes.live()))?;
        self.complete_meta(meta);
        self.session.output.writer.checkpoint(meta)
    }

    /// Writes everything but what ends the file. `seen` gets the code first: it can be named meanwhile.
    pub fn complete(&mut self, meta: &mut Meta, seen: impl FnOnce(SeenCode)) -> Result<(), Error> {
        self.bring_up_to_date()?;
        let pages = self.session.pages.rows(self.session.processes.live());
        seen(self.seen_code(&pages));
        self.write_tables(pages)?;
        self.complete_meta(meta);
        Ok(())
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
