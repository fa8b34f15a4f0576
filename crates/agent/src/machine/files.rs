//! Files in which the kernel describes the machine: paths to them lead elsewhere.
//!
//! Problem: programs read sysfs and /proc in their own ways: with absolute paths, relative to a descriptor of `/`, by descending from a folder
//! that they have opened, by following links.
//!
//! Mechanism: before the program starts, the collector writes the virtual machine's files below a folder of its own, with the kernel's names.
//! A path that leads into one of the [`PLACES`] gets that folder in front, whatever the call: the rest is the kernel's work, also for
//! whatever is then opened relative to such a folder. Files that change or differ from thread to thread are made when they are opened
//! (`proc_files.rs`). Paths with `..` in them are left alone, as is what a program reaches by descending from `/sys/devices`.

use super::proc_files::{self, Made};
use crate::call;
use crate::runtime::runtime;
use crate::sys::{self, raw};
use crate::syscalls::errno;
use crate::thread::Thread;
use crate::user;
use core::sync::atomic::Ordering::Relaxed;
use linux_raw_sys::errno::ENOENT;
use numalens_event::exact::MOST_PATH;

/// What the collector has written: files, and folders with all that is in them.
const PLACES: [&[u8]; 6] = [
    b"/sys/devices/system/cpu",
    b"/sys/devices/system/node",
    b"/sys/devices/virtual/memory_tiering",
    b"/sys/bus/cpu",
    b"/sys/bus/node",
    b"/proc/cpuinfo",
];
/// CPUs and nodes of a group of processes, wherever it stands: what hwloc and container runtimes look at. Of both versions of groups.
const GROUPS: &[u8] = b"/sys/fs/cgroup";
const OF_GROUPS: [(&[u8], &[u8]); 8] = [
    (b"cpuset.cpus", b"/cpuset.cpus"),
    (b"cpuset.cpus.effective", b"/cpuset.cpus"),
    (b"cpuset.effective_cpus", b"/cpuset.cpus"),
    (b"cpus", b"/cpuset.cpus"),
    (b"cpuset.mems", b"/cpuset.mems"),
    (b"cpuset.mems.effective", b"/cpuset.mems"),
    (b"cpuset.effective_mems", b"/cpuset.mems"),
    (b"mems", b"/cpuset.mems"),
];
/// Longest path that is looked at: all that lead to these files are shorter.
const LONGEST: usize = 256;

/// The calls that take the path of a file which exists: where the folder stands that it is relative to, and the path.
fn arguments_of(number: u32) -> Option<(Option<usize>, usize)> {
    match number {
        raw::__NR_open
        | raw::__NR_stat
        | raw::__NR_lstat
        | raw::__NR_access
        | raw::__NR_readlink
        | raw::__NR_chdir
        | raw::__NR_statfs
        | raw::__NR_getxattr
        | raw::__NR_lgetxattr
        | raw::__NR_listxattr
        | raw::__NR_llistxattr => Some((None, 0)),
        raw::__NR_openat
        | raw::__NR_openat2
        | raw::__NR_newfstatat
        | raw::__NR_statx
        | raw::__NR_faccessat
        | raw::__NR_faccessat2
        | raw::__NR_readlinkat => Some((Some(0), 1)),
        _ => None,
    }
}

/// Makes a call with another path, or makes the file that it opens. None: it is like any other. Returns the kernel's word.
pub fn examine(thread: &Thread, number: u32, arguments: [u64; 6]) -> Option<u64> {
    let (folder, at) = arguments_of(number)?;
    if is_other(arguments[at]) {
        return None;
    }
    let mut text = [0u8; LONGEST];
    let path = user::read_text(arguments[at], &mut text)?;
    let is_relative = path.first() != Some(&b'/');
    let mut absolute = Path::new();
    absolute.append(path)?;
    let path = absolute.text();
    if !path.starts_with(b"/sys/") && !path.starts_with(b"/proc/") {
        return None;
    }
    if is_relative && !is_root(folder.map_or(raw::AT_FDCWD, |folder| arguments[folder] as i32)) {
        return None;
    }
    let opens = matches!(number, raw::__NR_open | raw::__NR_openat | raw::__NR_openat2);
    if let Some(made) = Made::of(path).filter(|_| opens) {
        return Some(proc_files::open(thread, &made, number, arguments));
    }
    let place = place_of(path)?;
    let mut elsewhere = Path::new();
    for (to, from) in elsewhere.bytes.iter_mut().zip(&runtime().session.header().files) {
        *to = from.load(Relaxed);
    }
    elsewhere.length = elsewhere.bytes.iter().position(|&byte| byte == 0).filter(|&length| length > 0)?;
    let root = elsewhere.length;
    elsewhere.append(place)?;
    let mut changed = arguments;
    changed[at] = elsewhere.bytes.as_ptr() as u64;
    // SAFETY: the program's own call, with a path of our own in place of its path.
    let result = unsafe { sys::for_program(number, changed) };
    if result == errno(ENOENT) {
        // The recording is over, and the folder gone.
        elsewhere.bytes[root] = 0;
        // SAFETY: a path of our own.
        let is_gone = unsafe { call!(__NR_faccessat, raw::AT_FDCWD, elsewhere.bytes.as_ptr(), raw::F_OK, 0) }.is_err();
        return (!is_gone).then_some(result);
    }
    Some(result)
}

/// Whether the path at an address certainly leads to other files: said of most, without asking the kernel for its bytes. (It is about to read
/// them itself.)
fn is_other(address: u64) -> bool {
    let code = runtime().code.lock();
    let Some(mapping) = code.world.maps.find(address).filter(|mapping| mapping.protection & raw::PROT_READ != 0) else {
        return false;
    };
    // SAFETY: a byte of a readable mapping; nothing is unmapped while the lock is held. (Of a file that was cut behind its mapping's back the
    // program cannot read it either.)
    let bytes = (address..mapping.end).map(|at| unsafe { (at as *const u8).read() });
    begins_otherwise(bytes)
}

/// Whether a path, of which these are bytes, leads neither into `sys` nor into `proc`.
fn begins_otherwise(bytes: impl Iterator<Item = u8>) -> bool {
    let mut bytes = bytes.skip_while(|&byte| byte == b'/');
    let rest: &[u8] = match bytes.next() {
        Some(b's') => b"ys/",
        Some(b'p') => b"roc/",
        Some(b'.') | None => return false,
        Some(_) => return true,
    };
    rest.iter().zip(bytes).any(|(wanted, byte)| *wanted != byte)
}

/// Where below the collector's folder the file of a path is.
fn place_of(path: &[u8]) -> Option<&[u8]> {
    let is_in = |place: &[u8]| path.strip_prefix(place).is_some_and(|rest| matches!(rest.first(), None | Some(b'/')));
    if PLACES.into_iter().any(is_in) {
        return Some(path);
    }
    let name = path.rsplit(|&byte| byte == b'/').next()?;
    let of_groups = OF_GROUPS.into_iter().find(|(known, _)| *known == name).filter(|_| is_in(GROUPS));
    of_groups.map(|(_, file)| file)
}

/// Whether a descriptor is the root of the file system (or [`raw::AT_FDCWD`] stands for it).
fn is_root(folder: i32) -> bool {
    // SAFETY: structures of our own for the answers; an empty path stands for the descriptor itself.
    unsafe {
        let (mut one, mut root): (raw::stat, raw::stat) = (core::mem::zeroed(), core::mem::zeroed());
        let empty = c"".as_ptr();
        let known = call!(__NR_newfstatat, folder, empty, &raw mut one, raw::AT_EMPTY_PATH).is_ok();
        let there = call!(__NR_newfstatat, raw::AT_FDCWD, c"/".as_ptr(), &raw mut root, 0).is_ok();
        known && there && (one.st_dev, one.st_ino) == (root.st_dev, root.st_ino)
    }
}

/// A path under construction, ended by 0.
struct Path {
    bytes: [u8; 2 * LONGEST],
    length: usize,
}

impl Path {
    fn new() -> Self {
        Path { bytes: [0; 2 * LONGEST], length: 0 }
    }

    fn text(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Appends the names of a path, with one slash before each. None where one is `..`: who knows where that leads.
    fn append(&mut self, path: &[u8]) -> Option<()> {
        for name in path.split(|&byte| byte == b'/').filter(|name| !matches!(*name, b"" | b".")) {
            if name == b".." || self.length + name.len() + 2 > self.bytes.len() {
                return None;
            }
            self.bytes[self.length] = b'/';
            self.bytes[self.length + 1..][..name.len()].copy_from_slice(name);
            self.length += 1 + name.len();
        }
        self.bytes[self.length] = 0;
        Some(())
    }
}

const _: () = assert!(MOST_PATH + LONGEST <= 2 * LONGEST);

#[cfg(test)]
mod tests {
    use super::*;

    fn place(path: &str) -> Option<&'static str> {
        let mut absolute = Path::new();
        absolute.append(path.as_bytes())?;
        let found = place_of(absolute.text())?;
        Some(alloc::string::String::from_utf8(found.to_vec()).unwrap().leak())
    }

    #[test]
    fn paths_that_describe_the_machine_lead_elsewhere() {
        assert_eq!(place("/sys/devices/system/cpu"), Some("/sys/devices/system/cpu"));
        assert_eq!(place("//sys/devices/./system/node//node0/"), Some("/sys/devices/system/node/node0"));
        assert_eq!(place("sys/bus/node/devices"), Some("/sys/bus/node/devices"));
        assert_eq!(place("/proc/cpuinfo"), Some("/proc/cpuinfo"));
        assert_eq!(place("/sys/fs/cgroup/cpuset//a/cpuset.mems"), Some("/cpuset.mems"));
    }

    #[test]
    fn others_do_not() {
        for path in
            ["/sys/devices/system/cpufreq", "/sys/devices/system", "/proc/cpuinfo2", "/srv/cpuset.mems", "/", ""]
        {
            assert_eq!(place(path), None, "{path}");
        }
        assert_eq!(place("/sys/devices/system/cpu/../node"), None);
    }

    #[test]
    fn most_paths_are_told_by_their_first_bytes() {
        let other = |path: &[u8]| begins_otherwise(path.iter().copied());
        for path in [&b"/usr/lib\0"[..], b"name\0", b"/\0", b"/syslog\0", b"share/x\0", b"//proc2/x\0", b"sys\0"] {
            assert!(other(path), "{path:?}");
        }
        // The last ones end where the memory does.
        for path in [&b"/sys/x\0"[..], b"//proc/\0", b"sys/x\0", b"/./sys/\0", b"../x\0", b"/sy", b"//", b""] {
            assert!(!other(path), "{path:?}");
        }
    }

    #[test]
    fn the_root_is_known_by_its_descriptor() {
        // SAFETY: paths of our own.
        let open = |path: &core::ffi::CStr| unsafe { call!(__NR_openat, raw::AT_FDCWD, path.as_ptr(), 0, 0) }.unwrap();
        let (root, other) = (open(c"/"), open(c"/proc"));
        assert!(is_root(root as i32) && !is_root(other as i32));
        for descriptor in [root, other] {
            // SAFETY: descriptors of our own.
            let _ = unsafe { call!(__NR_close, descriptor) };
        }
    }
}
