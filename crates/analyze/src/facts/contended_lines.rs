//! Cache lines that several nodes write: counted, or seen in sampled addresses.
//!
//! What threads have in common in a line says what would help:
//!
//! ```text
//!   thread   word 0  1  2  3        own: no word that one writes is another's; with lines of their own all is well
//!   1             w  -  -  r
//!   2             -  w  -  r
//!
//!   1             rw -  -  -        same: several write one word, as a counter or a lock
//!   2             rw -  -  -
//!
//!   1             w  -  -  -        handed over: one writes what others read. That is the program's communication, and
//!   2             r  -  -  -        no layout mends it: such lines are none of these
//! ```

use crate::facts::cache_lines::{LINE_SHIFT, LineFacts, LineKey, LineUse};
use crate::facts::code::Code;
use crate::facts::placement_targets::{PlacementTargets, TargetId};
use crate::model::tally::{add, sum, total};
use numalens_profile::ids::{Bin, ObjectId, Page, ProcessId, SiteId, ThreadId};
use numalens_profile::tables::CacheLine;
use numalens_topology::NodeId;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// What threads have in common in a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Common {
    Own,
    Same,
    HandedOver,
    NotKnown,
}

/// Samples of a thread in a line from which all words that it uses are likely to be known.
const SURE: u64 = 3;

impl Common {
    fn of<'a>(threads: impl Iterator<Item = &'a LineUse> + Clone) -> Common {
        match Common::of_masks(threads.clone().map(|found| (found.words.into(), found.written.into()))) {
            Common::Own if threads.clone().any(|found| found.samples < SURE) => Common::NotKnown,
            common => common,
        }
    }

    /// Of the words that each thread has accessed, and written.
    fn of_masks(threads: impl Iterator<Item = (u32, u32)> + Clone) -> Common {
        let written = threads.clone().fold(0, |all, (_, written)| all | written);
        let both = several(threads.clone().map(|(accessed, _)| accessed)) & written;
        match both {
            0 => Common::Own,
            _ if several(threads.map(|(_, written)| written)) != 0 => Common::Same,
            _ => Common::HandedOver,
        }
    }
}

/// The bits that several masks have.
fn several(masks: impl Iterator<Item = u32>) -> u32 {
    masks.fold((0, 0), |(once, twice), mask| (once | mask, twice | once & mask)).1
}

/// Lines of a target that several nodes use and at least one other than the reader's writes.
#[derive(Clone, Debug, Default)]
pub struct Contended {
    pub lines: u64,
    pub samples: u64,
    /// Samples (accesses, where lines were counted) of all its lines.
    pub all: u64,
    /// Samples of lines of which it is known what threads have in common: words of their own (false sharing), or the
    /// same.
    pub own: u64,
    pub same: u64,
    /// Samples of lines that were seen to travel as often as they might.
    pub often: u64,
    pub threads: usize,
    /// Of counted lines: accesses that took one from another thread.
    pub transitions: u64,
    /// Samples by site.
    pub sites: BTreeMap<SiteId, u64>,
    /// And by object: several may lie on the target's pages.
    pub objects: BTreeMap<ObjectId, u64>,
}

impl Contended {
    /// The object that most of them are of.
    pub fn object(&self) -> Option<ObjectId> {
        let most = self.objects.iter().max_by_key(|&(id, samples)| (*samples, Reverse(*id)));
        most.map(|(&id, _)| id)
    }
}

/// Fewer samples of a line say nothing about who shares it.
const ENOUGH: u64 = 10;

/// What is known of cache lines, and whose they are.
#[derive(Clone, Copy)]
pub struct Lines<'a> {
    pub counted: &'a [CacheLine],
    pub sampled: &'a LineFacts,
    pub targets: &'a PlacementTargets,
    pub code: &'a Code,
}

/// The contended lines of every target that has some.
pub fn contended(lines: Lines<'_>) -> BTreeMap<TargetId, Contended> {
    if lines.counted.is_empty() { sampled(lines) } else { counted(lines) }
}

/// Part of a line's accesses that takes it from another thread and moves it for somebody's write: such an access takes
/// as long as a hundred others.
pub const OFTEN: u64 = 100;

/// Times that each thread takes a line from another: what phases hand over once is not contended.
const BACK: u64 = 4;

/// Reads and writes of a row.
fn accesses(row: &CacheLine) -> u64 {
    sum(row.reads, row.writes)
}

/// By what was counted of each line.
fn counted(of: Lines<'_>) -> BTreeMap<TargetId, Contended> {
    let mut lines: BTreeMap<(ProcessId, u64), Vec<&CacheLine>> = BTreeMap::new();
    let mut all: FxHashMap<TargetId, u64> = FxHashMap::default();
    let target_of = |process: ProcessId, page: Page| {
        let run = of.targets.run_of(process, page, Bin(u32::MAX), None)?;
        Some(of.targets.target_of(run))
    };
    for row in of.counted {
        if let Some(id) = target_of(row.process, row.page) {
            add(all.entry(id).or_default(), accesses(row));
        }
        if let Some(line) = row.line {
            let line = (row.page.address() >> LINE_SHIFT) + u64::from(line);
            lines.entry((row.process, line)).or_default().push(row);
        }
    }
    let mut sites: FxHashMap<(ProcessId, u64), Vec<(SiteId, u64)>> = FxHashMap::default();
    for (key, found) in &of.sampled.0 {
        sites.entry((key.process, key.line)).or_default().push((key.site, found.samples));
    }
    let mut targets: BTreeMap<TargetId, Contended> = BTreeMap::new();
    for ((process, line), users) in lines {
        let all_of = |figure: fn(&CacheLine) -> u64| total(users.iter().map(|row| figure(row)));
        let (accessed, apart) = (all_of(accesses), all_of(|row| row.false_sharing));
        let together = all_of(|row| row.true_sharing);
        let Some(id) = target_of(process, Page::of(line << LINE_SHIFT)) else { continue };
        // Which nodes these are is not known: threads may have been elsewhere by then.
        if all_of(|row| row.node_transitions) == 0 {
            continue;
        }
        // How often threads took it from each other is this host's doing, who runs them in turn: what they would do at
        // the same time is another matter where they have come back to it.
        let often = apart + together >= accessed.div_ceil(OFTEN);
        let active = || users.iter().filter(|row| accesses(row) >= accessed.div_ceil(20));
        let writes = total(active().map(|row| row.writes));
        let came_back = all_of(|row| row.transitions) >= BACK * users.len() as u64;
        let could = active().count() > 1 && came_back && writes * users.len() as u64 * OFTEN >= accessed;
        let common = Common::of_masks(active().map(|row| (row.words_accessed, row.words_written)));
        if !often && !could || common == Common::HandedOver {
            continue;
        }
        let target = targets.entry(id).or_default();
        let mut threads: Vec<ThreadId> = users.iter().map(|row| row.thread).collect();
        threads.dedup();
        target.lines += 1;
        add(&mut target.samples, accessed);
        add(&mut target.transitions, all_of(|row| row.transitions));
        for (object, row) in users.iter().filter_map(|row| Some((row.object?, row))) {
            add(target.objects.entry(object).or_default(), accesses(row));
        }
        add(if common == Common::Own { &mut target.own } else { &mut target.same }, accessed);
        add(&mut target.often, if often { accessed } else { 0 });
        target.threads = target.threads.max(threads.len());
        for (site, samples) in sites.get(&(process, line)).into_iter().flatten() {
            *target.sites.entry(*site).or_default() += samples;
        }
    }
    for (id, target) in &mut targets {
        target.all = all.get(id).copied().unwrap_or(0);
    }
    targets
}

/// By sampled addresses.
fn sampled(of: Lines<'_>) -> BTreeMap<TargetId, Contended> {
    let mut lines: FxHashMap<(ProcessId, u64), Vec<(&LineKey, &LineUse)>> = FxHashMap::default();
    for (key, found) in &of.sampled.0 {
        lines.entry((key.process, key.line)).or_default().push((key, found));
    }
    let mut targets: BTreeMap<TargetId, Contended> = BTreeMap::new();
    let mut all: FxHashMap<TargetId, u64> = FxHashMap::default();
    let target_of = |process: ProcessId, line: u64| {
        let run = of.targets.run_of(process, Page::of(line << LINE_SHIFT), Bin(u32::MAX), None)?;
        Some(of.targets.target_of(run))
    };
    for ((process, line), mut users) in lines {
        // Whoever waits takes the line when it was written, and not with each access.
        users.retain(|(key, _)| !of.code.waits(key.site));
        users.sort_by_key(|(key, _)| (key.thread, key.site));
        let samples: u64 = users.iter().map(|(_, found)| found.samples).sum();
        let Some(id) = target_of(process, line) else { continue };
        *all.entry(id).or_default() += samples;
        let mut nodes: BTreeMap<NodeId, (u64, u64)> = BTreeMap::new();
        let mut threads: BTreeMap<ThreadId, LineUse> = BTreeMap::new();
        for (key, found) in &users {
            threads.entry(key.thread).or_default().merge(found);
            if let Some(node) = key.node {
                let sum = nodes.entry(node).or_default();
                *sum = (sum.0 + found.samples, sum.1 + found.writes);
            }
        }
        // A stray sample makes nobody a user.
        nodes.retain(|_, (all, _)| *all * 20 >= samples);
        let written = nodes.values().any(|(_, writes)| *writes > 0);
        if samples < ENOUGH || nodes.len() < 2 || !written {
            continue;
        }
        threads.retain(|_, found| found.samples * 20 >= samples);
        let common = Common::of(threads.values());
        if common == Common::HandedOver {
            continue;
        }
        let target = targets.entry(id).or_default();
        target.lines += 1;
        target.samples += samples;
        target.own += if common == Common::Own { samples } else { 0 };
        target.same += if common == Common::Same { samples } else { 0 };
        target.often += samples;
        target.threads = target.threads.max(threads.len());
        for (key, found) in &users {
            *target.sites.entry(key.site).or_default() += found.samples;
            if let Some(object) = found.object {
                *target.objects.entry(object).or_default() += found.samples;
            }
        }
    }
    for (id, target) in &mut targets {
        target.all = all.get(id).copied().unwrap_or(0);
    }
    targets
}

#[cfg(test)]
mod tests {
    use super::*;

    fn common(threads: &[(u64, u8, u8)]) -> Common {
        let of = |(samples, words, written): &(u64, u8, u8)| LineUse {
            samples: *samples,
            words: *words,
            written: *written,
            ..LineUse::default()
        };
        Common::of(threads.iter().map(of).collect::<Vec<_>>().iter())
    }

    #[test]
    fn what_threads_have_in_common_is_what_one_writes_and_another_uses() {
        assert_eq!(common(&[(9, 0b0001, 0b0001), (9, 0b0010, 0b0010)]), Common::Own);
        assert_eq!(common(&[(9, 0b1001, 0b0001), (9, 0b1010, 0b0010)]), Common::Own, "both read a third word");
        assert_eq!(common(&[(9, 0b0001, 0b0001), (9, 0b0001, 0b0001)]), Common::Same, "a counter");
        assert_eq!(common(&[(9, 0b0001, 0b0001), (9, 0b0001, 0)]), Common::HandedOver);
        assert_eq!(common(&[(9, 0b0001, 0b0001), (2, 0b0010, 0b0010)]), Common::NotKnown, "too few to say");
    }
}
