//! What each thread's private cache keeps of all the memory that the thread works on.
//!
//! Between two accesses to a page with *n* accesses a thread comes to another page of *m* about `min(1, m / n)`
//! times. The sum of that over all its pages is the memory that passes through the cache until the page is wanted
//! again: its *working set* at that page. Where the cache holds that, the page stays, wherever it lies. So a thread's
//! hottest pages may stay beside a stream that it reads once, and small blocks do not when there are many of them.
//!
//! Exact counts say this of every page. Samples miss pages: there a target's touched bytes stand for its pages,
//! divided as far as its users divide them, and are accessed alike.

use crate::facts::page_use::{PageUse, PageUseKey};
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
    pub fn new(targets: &PlacementTargets, page_use: &PageUse, usages: &[Usage], waiting: &Waiting) -> WorkingSets {
        let sampled = usages.iter().any(|usage| usage.all.samples > 0);
        let mut parts = if sampled { of_targets(targets, usages) } else { of_pages(targets, page_use, waiting) };
        parts.par_sort_unstable_by(|a, b| a.thread.cmp(&b.thread).then(b.density().total_cmp(&a.density())));
        let mut sets = WorkingSets::default();
        for of_thread in parts.chunk_by(|a, b| a.thread == b.thread) {
            let least = least_density(of_thread);
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

    /// Whether the users of a target have it in their caches, wherever it lies.
    pub fn keep(&self, target: TargetId) -> bool {
        self.targets.get(&target).is_some_and(|(all, kept)| *kept >= *all * MOSTLY)
    }

    /// Whether all who use a page have it in their caches; `page use` are those of the page.
    pub fn keep_page(&self, targets: &PlacementTargets, page_use: &[(PageUseKey, Tally)], waiting: &Waiting) -> bool {
        let kept = |part: &Part| self.least.get(&part.thread).is_some_and(|least| part.density() >= *least);
        of_page(targets, page_use, waiting).iter().all(kept)
    }
}

/// Accesses to a byte from which a thread's memory stays in its cache; `parts` are the thread's, the densest first.
fn least_density(parts: &[Part]) -> f64 {
    let mut less_dense: f64 = parts.iter().map(|part| part.n).sum();
    let (mut dense, mut least) = (0.0, f64::INFINITY);
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

/// Every page that a thread has used, as counted.
fn of_pages(targets: &PlacementTargets, page_use: &PageUse, waiting: &Waiting) -> Vec<Part> {
    page_use.sums.par_pages().flat_map_iter(|page_use| of_page(targets, page_use, waiting)).collect()
}

/// Of one page; its page use are in the order of threads.
fn of_page(targets: &PlacementTargets, page_use: &[(PageUseKey, Tally)], waiting: &Waiting) -> Vec<Part> {
    let of_thread = |rows: &[(PageUseKey, Tally)]| Part {
        thread: rows[0].0.thread,
        target: rows[0].0.run.map(|run| targets.target_of(run)),
        bytes: PAGE,
        n: (rows.iter().filter(|(key, _)| !key.initial))
            .map(|(key, tally)| waiting.without(key, *tally).basis() as f64)
            .sum(),
    };
    let threads = page_use.chunk_by(|(a, _), (b, _)| a.thread == b.thread);
    threads.map(of_thread).filter(|part| part.n > 0.0).collect()
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

    /// A cache of 64 pages.
    #[test]
    fn a_working_set_is_of_all_that_is_used_as_often() {
        assert_eq!(least_density(&pages(&[(64, 1e6)])), 1e6 / PAGE);
        assert_eq!(least_density(&pages(&[(65, 1e6)])), f64::INFINITY);
        // A hot block stays beside a stream a hundred times as large as the cache, and the stream does not.
        assert_eq!(least_density(&pages(&[(1, 1e6), (6400, 512.0)])), 1e6 / PAGE);
        // The stream passes it between any two of its accesses.
        assert_eq!(least_density(&pages(&[(1, 1000.0), (6400, 512.0)])), f64::INFINITY);
        assert_eq!(least_density(&[]), f64::INFINITY);
    }
}
