//! Files in which the kernel describes the machine: paths to them lead elsewhere.
//!
//! Problem: programs read sysfs and /proc in their own ways: with absolute paths, relative to a descriptor of `/`, by
//! descending from a folder that they have opened, by following links.
//!
//! Mechanism: while the program starts, the collector writes the virtual machine's files below a folder of its own,
//! with the kernel's names. A path that leads into one of the [`PLACES`] (`paths.rs`) gets that folder in front,
//! whatever the call: the rest is the kernel's work, also for whatever is then opened relative to such a folder. Files
//! that change or differ from thread to thread are made when they are opened (`proc_files.rs`).

use super::paths::{self, Base, LONGEST, Names, Path, Region};
use super::proc_files::{self, Made};
use crate::call;
use crate::state::runtime::runtime;
use crate::state::thread::Thread;
use crate::sys::user;
use crate::sys::{self, raw};
use crate::syscalls::call::{Call, errno};
use linux_raw_sys::errno::{EACCES, EFAULT, ENOENT, ERANGE};

/// What the collector has written: files, and folders with all that is in them.
const PLACES: [&[u8]; 6] = [
    b"/sys/devices/system/cpu",
    b"/sys/devices/system/node",
    b"/sys/devices/virtual/memory_tiering",
    b"/sys/bus/cpu",
    b"/sys/bus/node",
    b"/proc/cpuinfo",
];
/// CPUs and nodes of a group of processes, wherever it stands: what hwloc and container runtimes look at. Of both
/// versions of groups.
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

/// Of chdir and fchdir: the path of the working folder is to be asked for again.
pub fn move_to(thread: &mut Thread, call: &Call, lead: fn(&mut Thread, &Call) -> Option<u64>) -> Option<u64> {
    // SAFETY: the program's own call.
    let result = lead(thread, call).unwrap_or_else(|| unsafe { call.make() });
    paths::moved();
    Some(result)
}

/// Makes a call with another path, or makes the file that it opens; `folder` and `at` are the places of its arguments:
/// the folder that the path is relative to, and the path of a file which exists. None: it is like any other. Returns
/// the kernel's word.
pub fn lead(thread: &Thread, call: &Call, folder: Option<usize>, at: usize) -> Option<u64> {
    let &Call { number, arguments, .. } = call;
    let folder = folder.map_or(raw::AT_FDCWD, |folder| arguments[folder] as i32);
    let is_working = folder == raw::AT_FDCWD;
    // Who borrows the memory of another process works in a folder of its own.
    let works_in = if is_working && !thread.borrows { paths::known_region() } else { None };
    if is_other(arguments[at], works_in) {
        return None;
    }
    let mut text = [0u8; LONGEST];
    let path = user::read_text(arguments[at], &mut text)?;
    let names = Names::of(path.iter().copied(), is_own);
    let base = match () {
        () if names.is_absolute => Base { path: Path::new(), region: Region::Kernels },
        () if is_working && !thread.borrows => paths::working_folder()?,
        () => Base::of(folder)?,
    };
    if !names.is_absolute && (names.is_other(Some(base.region)) || is_kept_below(number, arguments)) {
        return None;
    }
    let mut absolute = base.path;
    let is_changed = names.goes_up && paths::walk(&mut absolute, path)?;
    if !names.goes_up {
        absolute.append(path)?;
    }
    let opens = matches!(number, raw::__NR_open | raw::__NR_openat | raw::__NR_openat2);
    let made = Made::of(absolute.text()).filter(|_| opens);
    if !is_changed && made.is_none() && !is_place(absolute.text()) {
        return None;
    }
    if opens && writes(number, arguments) && is_place(absolute.text()) {
        // As the kernel's: what can be written there is not this machine's.
        return Some(errno(EACCES));
    }
    let led = paths::led(absolute.text())?;
    let mut changed = arguments;
    changed[at] = led.address();
    if let Some(made) = made {
        return Some(proc_files::open(thread, &made, number, if is_changed { changed } else { arguments }));
    }
    // SAFETY: the program's own call, with a path of our own in place of its path.
    let result = unsafe { sys::for_program(number, changed) };
    if result == errno(ENOENT) && is_place(absolute.text()) {
        // The recording is over, and the folder gone.
        let root = paths::folder_of_machine()?;
        // SAFETY: a path of our own.
        let is_gone = unsafe { call!(__NR_faccessat, raw::AT_FDCWD, root.address(), raw::F_OK, 0) }.is_err();
        return (!is_gone).then_some(result);
    }
    Some(result)
}

/// Whether a call that opens a file would write it.
fn writes(number: u32, arguments: [u64; 6]) -> bool {
    let flags = match number {
        raw::__NR_open => arguments[1],
        raw::__NR_openat => arguments[2],
        _ => user::read::<u64>(arguments[2]).unwrap_or(0),
    };
    flags as u32 & (raw::O_WRONLY | raw::O_RDWR | raw::O_TRUNC) != 0
}

/// Whether a call wants to stay below the folder that it names: it would take no other path.
fn is_kept_below(number: u32, [.., how, _, _, _]: [u64; 6]) -> bool {
    number == raw::__NR_openat2 && user::read::<[u64; 3]>(how).is_ok_and(|[_, _, resolve]| resolve != 0)
}

/// getcwd in the collector's folder: what the machine calls it.
pub fn name_of_working_folder(thread: &mut Thread, call: &Call) -> Option<u64> {
    let [to, room, ..] = call.arguments;
    let base = match paths::known_region() {
        Some(region) if region != Region::Machines && !thread.borrows => return None,
        _ if thread.borrows => Base::of(raw::AT_FDCWD)?,
        _ => paths::working_folder()?,
    };
    if base.region != Region::Machines {
        return None;
    }
    let text = base.path.text();
    let length = text.len() as u64 + 1;
    Some(match () {
        () if length > room => errno(ERANGE),
        () if user::write_bytes(to, text).and_then(|()| user::write_bytes(to + length - 1, &[0])).is_err() => {
            errno(EFAULT)
        }
        () => length,
    })
}

/// Whether the path at an address certainly leads to other files: said of most, without asking the kernel for its
/// bytes. (It is about to read them itself.)
fn is_other(address: u64, works_in: Option<Region>) -> bool {
    let code = runtime().code.lock();
    let Some(mapping) = code.env.maps.find(address).filter(|mapping| mapping.protection & raw::PROT_READ != 0) else {
        return false;
    };
    // SAFETY: a byte of a readable mapping; nothing is unmapped while the lock is held. (Of a file that was cut behind
    // its mapping's back the program cannot read it either.)
    let bytes = (address..mapping.end).map(|at| unsafe { (at as *const u8).read() });
    Names::of(bytes, is_own).is_other(works_in)
}

/// Whether a file or folder of this name may be one that the machine has of its own.
fn is_own(name: &[u8]) -> bool {
    let is_last_of = |place: &[u8]| place.ends_with(name) && place[..place.len() - name.len()].ends_with(b"/");
    PLACES.into_iter().any(is_last_of)
        || OF_GROUPS.into_iter().any(|(known, _)| known == name)
        || Made::NAMES.contains(&name)
}

/// Whether the machine has a file or folder of its own at an absolute path without empty names in it.
pub fn is_place(path: &[u8]) -> bool {
    place_of(path).is_some()
}

/// Where below the collector's folder the file of a path is.
pub fn place_of(path: &[u8]) -> Option<&[u8]> {
    let is_in = |place: &[u8]| path.strip_prefix(place).is_some_and(paths::is_end);
    if PLACES.into_iter().any(is_in) {
        return Some(path);
    }
    let name = path.rsplit(|&byte| byte == b'/').next()?;
    let of_groups = OF_GROUPS.into_iter().find(|(known, _)| *known == name).filter(|_| is_in(GROUPS));
    of_groups.map(|(_, file)| file)
}

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
    }

    #[test]
    fn names_that_may_be_the_machine_s() {
        for name in ["cpu", "node", "memory_tiering", "cpuinfo", "cpuset.mems", "mems", "status", "stat"] {
            assert!(is_own(name.as_bytes()), "{name}");
        }
        for name in ["u", "cpus.h", "system", "cpu0", "tier", "self"] {
            assert!(!is_own(name.as_bytes()), "{name}");
        }
    }
}
