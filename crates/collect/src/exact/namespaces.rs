//! Processes in pid namespaces of their own: containers, sandboxes, `unshare --pid`.
//!
//! A process knows its number in its own namespace only, and that is what its agent says. Its number here, by which
//! /proc and the kernel's calls know it, stands in `NSpid` of /proc/PID/status, first; the innermost one stands last.
//! Children are in their parent's namespace, or in that which its `ns/pid_for_children` leads to; the first process of
//! a namespace is its number 1, which nobody is here that we record.

use std::path::PathBuf;

/// Above all numbers that the kernel gives.
const NOBODY: i32 = 1 << 30;

/// A process by its number here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// 0x4000_0000 and more: it has gone before it could be found.
    pub pid: i32,
    /// Its number in its own namespace.
    pub said: i32,
    /// That is another one than ours.
    pub is_inner: bool,
}

/// Who it is that calls itself `said`, a child of `parent`. `is_taken`: which numbers are another one's.
pub fn identify(said: i32, parent: Option<Identity>, is_taken: impl Fn(i32) -> bool) -> Identity {
    let is_inner = said == 1 || parent.is_some_and(|parent| parent.is_inner || leads_elsewhere(parent.pid));
    if !is_inner {
        return Identity { pid: said, said, is_inner };
    }
    let is_it = |pid: &i32| !is_taken(*pid) && inner_number(*pid) == Some(said);
    let of_parent = parent.into_iter().flat_map(|parent| children(parent.pid)).find(is_it);
    let found = of_parent.or_else(|| {
        // An orphan, in the namespace of its parent if that is known.
        let wanted = parent.filter(|parent| parent.is_inner).and_then(|parent| namespace(parent.pid, "pid"));
        numbers("/proc".into()).find(|pid| is_it(pid) && (wanted.is_none() || namespace(*pid, "pid") == wanted))
    });
    let nobody = || (NOBODY + said..).find(|pid| !is_taken(*pid)).unwrap_or(NOBODY);
    Identity { pid: found.unwrap_or_else(nobody), said, is_inner }
}

/// The children of a process are in another namespace than ours.
fn leads_elsewhere(pid: i32) -> bool {
    let ours = std::fs::read_link("/proc/self/ns/pid").ok();
    namespace(pid, "pid_for_children").is_some_and(|theirs| Some(theirs) != ours)
}

fn namespace(pid: i32, which: &str) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{pid}/ns/{which}")).ok()
}

/// The number of a process in its own namespace, if that is not ours.
fn inner_number(pid: i32) -> Option<i32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_whitespace().skip(1).last()?.parse().ok()
}

fn children(pid: i32) -> Vec<i32> {
    let tasks = numbers(format!("/proc/{pid}/task").into());
    let of = |tid| std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/children")).unwrap_or_default();
    tasks.map(of).flat_map(|text| text.split_whitespace().flat_map(str::parse).collect::<Vec<i32>>()).collect()
}

/// The entries of a folder that are numbers.
fn numbers(folder: PathBuf) -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_in_our_namespace_is_who_it_says() {
        let pid = std::process::id() as i32;
        let parent = Identity { pid, said: pid, is_inner: false };
        assert_eq!(identify(4711, None, |_| false), Identity { pid: 4711, said: 4711, is_inner: false });
        assert_eq!(identify(4711, Some(parent), |_| false), Identity { pid: 4711, said: 4711, is_inner: false });
    }

    #[test]
    fn who_has_gone_is_nobody_else() {
        let parent = Identity { pid: NOBODY, said: 7, is_inner: true };
        let gone = identify(i32::from(i16::MAX), Some(parent), |_| false);
        assert!(gone.is_inner && gone.pid >= NOBODY, "{gone:?}");
        let other = identify(i32::from(i16::MAX), Some(parent), |pid| pid == gone.pid);
        assert_ne!(gone.pid, other.pid);
    }
}
