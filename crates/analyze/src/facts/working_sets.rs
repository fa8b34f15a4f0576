//! What each thread's private cache keeps of all the memory that the thread works on.
//!
//! Between two accesses to a page with *n* accesses a thread comes to another page of *m* about `min(1, m / n)`
//! times. The sum of that over all its pages is the memory that passes through the cache until the page is wanted
//! again: its *working set* at that page. Where the cache holds that, the page stays, wherever it lies. So a thread's
//! hottest pages may stay beside a stream that it reads once, and small blocks do not when there are many of them.
//!
//! Exact counts say this of every page. Samples miss pages: there a target's touched bytes stand for its pages,
//! divided as far as its users divide them, and are accessed alike.

use crate::facts::page_use::PageUseKey;
use crate::facts::placement_targets::{PlacementTargets, TargetId};
use crate::facts::usage::Usage;
use crate::facts::waiting::Waiting;
use crate::model::tally::Tally;
use numalens_profile::ids::{Page, ThreadId};
use rayon::prelude::*;
use rustc_hash::FxHashMap;

/// Bytes that a private cache keeps of what its thread works on: half a second-level cache.
const KEPT: f64 = (256 << 10) as f64;
/// Part of a target's accesses that go to pages which stay in caches, from which all of it does.
const MOSTLY: f64 = 0.9;
const PAGE: f64 = Page::BYTES as f64;

/// Memory that a thread accesses alike.
struct Part {
    thread: ThreadId,
    target: Option<TargetId>,
    bytes: f64,
    n: f64,
}

impl Part {
    fn density(&self) -> f64 {
        self.n / self.bytes
    }
}

/// What stays in private caches.
#[derive(Default)]
pub struct WorkingSets {
    /// By thread: accesses to a byte from which memory stays.
    least: FxHashMap<ThreadId, f64>,
    /// By target: its accesses, and those to memory that stays.
    targets: FxHashMap<TargetId, (f64, f64)>,
}

impl WorkingSets {
    /// Of all accesses, without initialisations; `usages` are those of the targets.
    pub fn new(targets: &PlacementTargets, pages: DensePages, usages: &[Usage]) -> WorkingSets {
        if !usages.iter().any(|usage| usage.all.samples > 0) {
            return WorkingSets::of_pages(pages);
        }
        let mut parts = of_targets(targets, usages);
        parts.par_sort_unstable_by(|a, b| a.thread.cmp(&b.thread).then(b.density().total_cmp(&a.density())));
        let mut sets = WorkingSets::default();
        for of_thread in parts.chunk_by(|a, b| a.thread == b.thread) {
            let least = least_density(of_thread, of_thread.iter().map(|part| part.n).sum());
            sets.least.insert(of_thread[0].thread, least);
            for part in of_thread {
                let Some(target) = part.target else { continue };
                let (all, kept) = sets.targets.entry(target).or_default();
                *all += part.n;
                *kept += if part.density() >= least { part.n } else { 0.0 };
            }
        }
        sets
    }

    /// Of the pages alone.
    fn of_pages(pages: DensePages) -> WorkingSets {
        let mut sets = WorkingSets::default();
        for (thread, Dense { mut parts, all, .. }) in pages.threads {
            parts.sort_unstable_by(|a, b| b.density().total_cmp(&a.density()));
            let least = least_density(&parts, all);
            sets.least.insert(thread, least);
            for part in parts.iter().filter(|part| part.density() >= least) {
                let Some(target) = part.target else { continue };
                sets.targets.entry(target).or_default().1 += part.n;
            }
        }
        for (target, n) in pages.targets {
            sets.targets.entry(target).or_default().0 += n;
        }
        sets
    }

    /// The same of sums: accesses to each target, and those to memory that stays.
    pub fn of_sums(targets: impl Iterator<Item = (TargetId, (u64, u64))>) -> WorkingSets {
        let used = targets.filter(|(_, (all, _))| *all > 0);
        let targets = used.map(|(target, (all, kept))| (target, (all as f64, kept as f64))).collect();
        WorkingSets { least: FxHashMap::default(), targets }
    }

    /// Accesses to a target, and those of them to memory that stays, where they are counted.
    pub fn sums(&self, target: TargetId) -> (u64, u64) {
        self.targets.get(&target).map_or((0, 0), |(all, kept)| (*all as u64, *kept as u64))
    }

    /// Whether the users of a target have it in their caches, wherever it lies.
    pub fn keep(&self, target: TargetId) -> bool {
        self.targets.get(&target).is_some_and(|(all, kept)| *kept >= *all * MOSTLY)
    }

    /// Whether all who use a page have it in their caches; `page use` are those of the page.
    pub fn keep_page(&self, targets: &PlacementTargets, page_use: &[(PageUseKey, Tally)], waiting: &Waiting) -> bool {
        let kept = |part: &Part| self.least.get(&part.thread).is_some_and(|least| part.density() >= *least);
        of_page(targets, page_use, waiting).all(|part| kept(&part))
    }
}

/// Accesses to a byte from which a thread's memory stays in its cache; `parts` are the thread's, the densest first, as
/// far as they fit there; `all` are the accesses to all of them.
fn least_density(parts: &[Part], all: f64) -> f64 {
    let (mut dense, mut less_dense, mut least) = (0.0, all, f64::INFINITY);
    for part in parts {
        dense += part.bytes;
        less_dense -= part.n;
        if dense + less_dense / part.density() > KEPT {
            break;
        }
        least = part.density();
    }
    least
}

/// Every page that a thread has used, as counted: no more than a cache has room for may stay, so the densest are
/// enough, with the sum of all. Pages that are counted together are one part.
#[derive(Default)]
pub struct DensePages {
    threads: FxHashMap<ThreadId, Dense>,
    targets: FxHashMap<TargetId, f64>,
}

/// Of one thread.
#[derive(Default)]
struct Dense {
    parts: Vec<Part>,
    all: f64,
    /// There are enough that are denser.
    floor: f64,
}

/// Pages that a cache has room for.
const ROOM: usize = (KEPT / PAGE) as usize;

impl DensePages {
    /// Adds the users of a page.
    pub fn add(&mut self, targets: &PlacementTargets, page_use: &[(PageUseKey, Tally)], waiting: &Waiting) {
        for part in of_page(targets, page_use, waiting) {
            if let Some(target) = part.target {
                *self.targets.entry(target).or_default() += part.n;
            }
            let dense = self.threads.entry(part.thread).or_default();
            dense.all += part.n;
            dense.push(part);
        }
    }

    /// Both together.
    pub fn merge(&mut self, other: DensePages) {
        for (thread, more) in other.threads {
            let dense = self.threads.entry(thread).or_default();
            dense.all += more.all;
            more.parts.into_iter().for_each(|part| dense.push(part));
        }
        for (target, n) in other.targets {
            *self.targets.entry(target).or_default() += n;
        }
    }
}

impl Dense {
    fn push(&mut self, part: Part) {
        if part.density() < self.floor {
            return;
        }
        self.parts.push(part);
        if self.parts.len() >= 2 * ROOM {
            self.parts.select_nth_unstable_by(ROOM, |a, b| b.density().total_cmp(&a.density()));
            self.parts.truncate(ROOM);
            self.floor = self.parts.iter().map(Part::density).fold(f64::INFINITY, f64::min);
        }
    }
}

/// Of one page; its page use are in the order of threads.
fn of_page<'a>(
    targets: &'a PlacementTargets,
    page_use: &'a [(PageUseKey, Tally)],
    waiting: &'a Waiting,
) -> impl Iterator<Item = Part> + 'a {
    let of_thread = |rows: &'a [(PageUseKey, Tally)]| Part {
        thread: rows[0].0.thread,
        target: rows[0].0.run.map(|run| targets.target_of(run)),
        bytes: PAGE * f64::from(targets.pages_counted_as(rows[0].0.process, rows[0].0.page)),
        n: (rows.iter().filter(|(key, _)| !key.initial))
            .map(|(key, tally)| waiting.without(key, *tally).basis() as f64)
            .sum(),
    };
    let threads = page_use.chunk_by(|(a, _), (b, _)| a.thread == b.thread);
    threads.map(of_thread).filter(|part| part.n > 0.0)
}

/// Every target that a thread was seen to use, as far as it is the thread's.
fn of_targets(targets: &PlacementTargets, usages: &[Usage]) -> Vec<Part> {
    let of_one = |(index, usage): (usize, &Usage)| {
        let users = usage.users().len().max(1) as f64;
        let together = usage.page_sharing().map_or(1.0, |sharing| sharing.users).min(users);
        let bytes = (targets.all[index].touched() as f64 * together / users).max(PAGE);
        let target = Some(TargetId(index as u32));
        let of_thread = |(thread, tally): (ThreadId, Tally)| Part { thread, target, bytes, n: tally.basis() as f64 };
        let threads: Vec<_> = usage.threads.iter().map(|(thread, tally)| (*thread, *tally)).collect();
        threads.into_iter().map(of_thread).filter(|part| part.n > 0.0).collect::<Vec<_>>()
    };
    usages.par_iter().enumerate().flat_map_iter(of_one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parts of one thread: so many pages with so many accesses each, the densest first.
    fn pages(of: &[(usize, f64)]) -> Vec<Part> {
        let part = |n| Part { thread: ThreadId(0), target: None, bytes: PAGE, n };
        of.iter().flat_map(|(count, n)| (0..*count).map(move |_| part(*n))).collect()
    }

    fn least(of: &[(usize, f64)]) -> f64 {
        let parts = pages(of);
        let mut dense = Dense::default();
        pages(of).into_iter().rev().for_each(|part| dense.push(part));
        dense.parts.sort_unstable_by(|a, b| b.density().total_cmp(&a.density()));
        let all = parts.iter().map(|part| part.n).sum();
        let of_dense = least_density(&dense.parts, all);
        assert_eq!(of_dense, least_density(&parts, all), "those that are used most are enough");
        of_dense
    }

    /// A cache of 64 pages.
    #[test]
    fn a_working_set_is_of_all_that_is_used_as_often() {
        assert_eq!(least(&[(64, 1e6)]), 1e6 / PAGE);
        assert_eq!(least(&[(65, 1e6)]), f64::INFINITY);
        // A hot block stays beside a stream a hundred times as large as the cache, and the stream does not.
        assert_eq!(least(&[(1, 1e6), (6400, 512.0)]), 1e6 / PAGE);
        // The stream passes it between any two of its accesses.
        assert_eq!(least(&[(1, 1000.0), (6400, 512.0)]), f64::INFINITY);
        assert_eq!(least(&[]), f64::INFINITY);
    }
}
