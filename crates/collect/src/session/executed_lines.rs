//! Lines of a language that an interpreter executes: what its runtime accesses is theirs.
//!
//! An instruction of the interpreter, or of a library that it calls, tells nothing of the program's own line. So each
//! thread is looked at every few milliseconds, and what it has accessed in between is given to the lines that it was
//! seen at. That is an estimate by time: lines that are executed in turn within milliseconds share alike.

use numalens_profile::ids::{ModuleId, SiteId};
use numalens_profile::python;
use rustc_hash::FxHashMap;

/// Counts are read that long after they were made at most.
const KEPT_NS: u64 = 2_000_000_000;
/// What no look has seen is of a line that was seen so near at most.
const NEAR_NS: u64 = 25_000_000;

/// Libraries that interpreters and their modules call, up to a version.
const CALLED: [&str; 9] =
    ["libc.", "libc-", "libm.", "libpthread.", "libstdc++.", "libgcc_s.", "libgomp", "libopenblas", "ld-linux-"];

/// What was seen so far.
#[derive(Default)]
pub struct ExecutedLines {
    /// By the thread's number in the kernel: a thread may be seen before anybody has told of it.
    seen: FxHashMap<u32, Vec<Seen>>,
    works: FxHashMap<ModuleId, bool>,
    /// How often a thread was seen at a line.
    pub count: u64,
}

/// A thread was at a line.
#[derive(Clone, Copy)]
struct Seen {
    time_ns: u64,
    site: SiteId,
}

impl ExecutedLines {
    /// A thread is at a line.
    pub fn add(&mut self, tid: u32, time_ns: u64, site: SiteId) {
        self.count += 1;
        let seen = self.seen.entry(tid).or_default();
        let old = seen.partition_point(|one| one.time_ns + KEPT_NS < time_ns);
        // Now and then, not each time.
        if old > 256 {
            seen.drain(..old);
        }
        seen.push(Seen { time_ns, site });
    }

    /// The lines that a thread was at between two times, and how often; else where it was before.
    pub fn between(&self, tid: u32, since_ns: u64, until_ns: u64) -> Vec<(SiteId, u64)> {
        let Some(seen) = self.seen.get(&tid) else { return Vec::new() };
        let [from, to] = [since_ns, until_ns].map(|time| seen.partition_point(|one| one.time_ns <= time));
        let before = from.checked_sub(1).filter(|&at| from == to && seen[at].time_ns + NEAR_NS > since_ns);
        let mut lines: Vec<(SiteId, u64)> = Vec::new();
        for one in &seen[before.unwrap_or(from)..to] {
            match lines.iter_mut().find(|(site, _)| *site == one.site) {
                Some((_, times)) => *times += 1,
                None => lines.push((one.site, 1)),
            }
        }
        lines
    }

    /// The line that a thread was at, at about that time.
    pub fn near(&self, tid: u32, time_ns: u64) -> Option<SiteId> {
        let seen = self.seen.get(&tid)?;
        let next = seen.partition_point(|one| one.time_ns < time_ns);
        let around = [next.checked_sub(1), Some(next)].into_iter().flatten().filter_map(|at| seen.get(at));
        let nearest = around.min_by_key(|one| one.time_ns.abs_diff(time_ns))?;
        (nearest.time_ns.abs_diff(time_ns) <= NEAR_NS).then_some(nearest.site)
    }

    /// Whether code of a module works for lines; `path`: where it is.
    pub fn works_for(&mut self, module: ModuleId, path: impl FnOnce() -> String) -> bool {
        *self.works.entry(module).or_insert_with(|| works_for_lines(&path()))
    }
}

/// The interpreter, what comes with it or was installed for it, and what these call.
fn works_for_lines(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    python::is_native(path) || CALLED.iter().any(|library| name.starts_with(library))
}

/// `count` divided by how often lines were seen: the parts add up to it.
pub fn parts(count: u64, lines: &[(SiteId, u64)]) -> impl Iterator<Item = u64> + '_ {
    let all: u128 = lines.iter().map(|(_, times)| u128::from(*times)).sum::<u128>().max(1);
    let upto = move |times: u128| (u128::from(count) * times / all) as u64;
    lines.iter().scan(0, move |before: &mut u128, (_, times)| {
        let so_far = *before + u128::from(*times);
        Some(upto(so_far) - upto(std::mem::replace(before, so_far)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_given_to_lines_by_how_often_they_were_seen() {
        let mut lines = ExecutedLines::default();
        let (tid, [one, other]) = (3, [SiteId(7), SiteId(8)]);
        for (time_ns, site) in [(10, one), (20, one), (30, other), (40, one)] {
            lines.add(tid, time_ns, site);
        }
        assert_eq!(lines.between(tid, 10, 40), [(one, 2), (other, 1)]);
        assert_eq!(lines.between(tid, 45, 50), [(one, 1)], "where it was before");
        assert_eq!(lines.between(tid, 3 * NEAR_NS, 4 * NEAR_NS), []);
        assert_eq!(lines.between(4, 0, 50), []);
        assert_eq!(lines.near(tid, 28), Some(other));
        assert_eq!(lines.near(tid, 41 + NEAR_NS), None);
        assert_eq!(parts(10, &[(one, 2), (other, 1)]).collect::<Vec<_>>(), [6, 4]);
        assert_eq!(parts(u64::MAX, &[(one, 1)]).collect::<Vec<_>>(), [u64::MAX]);
    }

    #[test]
    fn what_is_the_users_own_keeps_its_lines() {
        for path in ["/usr/bin/python3.11", "/v/lib/python3.11/site-packages/numpy/core/x.so", "/lib/libc.so.6"] {
            assert!(works_for_lines(path), "{path}");
        }
        assert!(!works_for_lines("/home/me/build/mine.cpython-311-x86_64-linux-gnu.so") && !works_for_lines("/b/app"));
    }
}
