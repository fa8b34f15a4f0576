//! /proc/PID/numa_maps: policies, and pages per node of every mapping.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use numalens_topology::NodeId;

use super::maps::unescape;

/// One line of numa_maps: one mapping. Counts are in pages of `kernel_page_kb`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NumaMapsRow {
    /// First address; `maps` has the end.
    pub start: u64,
    /// The policy in force, in the kernel's words (`default`, `bind:0`, `interleave:0-3`, `prefer (many):1`): the
    /// mapping's own, else the task's that the file was opened for.
    pub policy: String,
    /// The file.
    pub file: Option<PathBuf>,
    /// The heap of brk.
    pub heap: bool,
    /// The main thread's stack.
    pub stack: bool,
    /// A hugetlb mapping.
    pub huge: bool,
    /// Anonymous pages.
    pub anon: u64,
    /// Dirty pages.
    pub dirty: u64,
    /// Pages mapped (the kernel omits it when it equals `anon` or `dirty`).
    pub mapped: u64,
    /// The largest number of processes that map one of the pages.
    pub mapmax: u64,
    /// Pages in the swap cache.
    pub swapcache: u64,
    /// Pages on the active list; `None` when all are.
    pub active: Option<u64>,
    /// Pages being written back.
    pub writeback: u64,
    /// Pages by node, nodes without pages left out.
    pub pages_per_node: Vec<(NodeId, u64)>,
    /// Size of a page in KiB: 4, or 2048 and more for hugetlb; 4 too for transparent huge pages. 0 when no page is
    /// present.
    pub kernel_page_kb: u64,
}

/// All of /proc/PID/numa_maps. The kernel walks every page table of the process for it: measured as long as
/// [`super::page_map()`] takes, a quarter of what asking for every page's home does.
///
/// # Errors
/// NotFound: the process is gone, or the kernel has no NUMA. PermissionDenied: it may not be traced by this user.
pub fn read_numa_maps(pid: i32) -> io::Result<Vec<NumaMapsRow>> {
    let text = std::fs::read(format!("/proc/{pid}/numa_maps"))?;
    text.split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| {
            parse(line).ok_or_else(|| {
                let shown = String::from_utf8_lossy(line);
                io::Error::new(io::ErrorKind::InvalidData, format!("/proc/{pid}/numa_maps: cannot read line `{shown}`"))
            })
        })
        .collect()
}

fn parse(line: &[u8]) -> Option<NumaMapsRow> {
    let mut words = line.split(|&byte| byte == b' ').peekable();
    let start = u64::from_str_radix(std::str::from_utf8(words.next()?).ok()?, 16).ok()?;
    let mut policy = String::from_utf8_lossy(words.next()?).into_owned();
    // `prefer (many):0-1` and `weighted interleave:0-1` are the policies of two words.
    let second = words.next_if(|word| word.starts_with(b"(") || policy == "weighted");
    if let Some(second) = second {
        policy.push(' ');
        policy.push_str(&String::from_utf8_lossy(second));
    }
    let mut row = NumaMapsRow { start, policy, ..NumaMapsRow::default() };
    for word in words {
        let mut halves = word.splitn(2, |&byte| byte == b'=');
        let (key, value) = (halves.next()?, halves.next());
        let number = || std::str::from_utf8(value?).ok()?.parse::<u64>().ok();
        match key {
            b"file" => row.file = Some(PathBuf::from(std::ffi::OsString::from_vec(unescape(value?)))),
            b"heap" => row.heap = true,
            b"stack" => row.stack = true,
            b"huge" => row.huge = true,
            b"anon" => row.anon = number()?,
            b"dirty" => row.dirty = number()?,
            b"mapped" => row.mapped = number()?,
            b"mapmax" => row.mapmax = number()?,
            b"swapcache" => row.swapcache = number()?,
            b"active" => row.active = Some(number()?),
            b"writeback" => row.writeback = number()?,
            b"kernelpagesize_kB" => row.kernel_page_kb = number()?,
            [b'N', node @ ..] => {
                let node = std::str::from_utf8(node).ok()?.parse().ok()?;
                row.pages_per_node.push((NodeId(node), number()?));
            }
            // Words of kernels to come.
            _ => {}
        }
    }
    Some(row)
}

/// The memory policy of thread `tid` of process `pid`, in the kernel's words: what `set_mempolicy` set for it.
///
/// No file states a task's policy, but `/proc/PID/task/TID/numa_maps` prints it on every mapping that has no policy of
/// its own. So the first line decides when it says `default` (a mapping cannot own that) or when it is a private
/// mapping of a file, on which nobody sets a policy; otherwise the next lines are read. Usually that is one line, the
/// program's text, and the kernel walks the page tables of that mapping only. When no line decides, the most frequent
/// policy does.
///
/// # Errors
/// NotFound: no such thread, or the kernel has no NUMA. PermissionDenied: it may not be traced by this user.
pub fn thread_policy(pid: i32, tid: i32) -> io::Result<String> {
    let mut file = File::open(format!("/proc/{pid}/task/{tid}/numa_maps"))?;
    let mut text = Vec::new();
    let mut votes: Vec<(String, u32)> = Vec::new();
    // Every read makes the kernel produce whole lines until they fill the buffer: a small one, for one line.
    let mut piece = [0; 96];
    loop {
        let read = match file.read(&mut piece) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            result => result?,
        };
        text.extend_from_slice(&piece[..read]);
        while let Some(end) = text.iter().position(|&byte| byte == b'\n') {
            let row = parse(&text[..end]);
            text.drain(..=end);
            let Some(row) = row else { continue };
            if row.policy == "default" || row.file.as_ref().is_some_and(|file| is_ordinary(file)) {
                return Ok(row.policy);
            }
            match votes.iter_mut().find(|(policy, _)| *policy == row.policy) {
                Some((_, count)) => *count += 1,
                None => votes.push((row.policy, 1)),
            }
        }
        if read == 0 {
            // A task that is exiting has no memory any more: no lines, hence the policy of all that follow.
            let most = votes.into_iter().max_by_key(|&(_, count)| count);
            return Ok(most.map_or_else(|| "default".to_owned(), |(policy, _)| policy));
        }
    }
}

/// Whether the kernel moves pages to where they are used (`kernel.numa_balancing`). It finds out who uses them by
/// faults.
pub fn kernel_balances() -> bool {
    std::fs::read_to_string("/proc/sys/kernel/numa_balancing").is_ok_and(|mode| mode.trim() != "0")
}

/// Shared memory has policies of its own, and shows them as those of the mapping.
fn is_ordinary(file: &std::path::Path) -> bool {
    !["/dev", "/memfd:", "/SYSV", "/anon_hugepage"].iter().any(|prefix| file.to_string_lossy().starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_of_a_line() {
        let line = b"7f0000000000 prefer (many):0-1 file=/tmp/a\\040b\\075c huge anon=3 dirty=2 mapped=9 mapmax=4 \
                     swapcache=1 active=0 writeback=5 N0=7 N12=2 kernelpagesize_kB=2048";
        let row = parse(line).unwrap();
        assert_eq!(row.policy, "prefer (many):0-1");
        assert_eq!(row.file.as_deref(), Some(std::path::Path::new("/tmp/a b=c")));
        assert_eq!((row.anon, row.dirty, row.mapped, row.mapmax), (3, 2, 9, 4));
        assert_eq!((row.swapcache, row.active, row.writeback, row.kernel_page_kb), (1, Some(0), 5, 2048));
        assert_eq!(row.pages_per_node, [(NodeId(0), 7), (NodeId(12), 2)]);
        assert!(row.huge && !row.heap && !row.stack);
        assert_eq!(parse(b"1000 weighted interleave:0-3").unwrap().policy, "weighted interleave:0-3");
        assert_eq!(parse(b"1000 bind=static:1 stack").unwrap().policy, "bind=static:1");
        assert!(parse(b"xyz default").is_none());
    }
}
