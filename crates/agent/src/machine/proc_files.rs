//! Files that are made when a program opens them: the kernel's text, with other lines for CPUs and nodes.
//!
//! The kernel opens the real file first, so that numbers of descriptors and errors are its own; a file in memory then
//! takes the descriptor's place. It does not change any more: who keeps it open and reads it again reads the same.

use super::calls::cpu_of;
use super::cpus::{CpuSet, NodeSet, write_list, write_mask};
use super::nodes::memory_nodes;
use super::place::{Place, all_cpus};
use super::policies::MOST_NUMBERS;
use super::{memory, numa_maps, placement};
use crate::call;
use crate::placement as places;
use crate::state::runtime::runtime;
use crate::state::thread::Thread;
use crate::sys::{self, PAGE, raw};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Write};
use core::sync::atomic::Ordering::Relaxed;

/// A file that is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Made {
    /// `status` of a thread; none: of the calling one.
    Status(Option<u32>),
    /// `numa_maps` of the process of a thread; none: of the calling one.
    NumaMaps(Option<u32>),
    /// `stat` of a thread, or of a process's first; none: of the calling one.
    ThreadStat(Option<u32>),
    /// `stat` of the machine.
    Stat,
    /// `meminfo` of the machine.
    Memory,
    /// What a PCI device says of the CPUs that are near: it is as near to all of this machine.
    NearMask,
    NearList,
    NearNode,
}

impl Made {
    /// The last names of their paths.
    pub const NAMES: [&[u8]; 7] =
        [b"status", b"stat", b"meminfo", b"numa_maps", b"local_cpus", b"local_cpulist", b"numa_node"];
    /// Where the kernel keeps PCI devices, by either path.
    const DEVICES: [&[u8]; 2] = [b"/sys/bus/pci/devices/", b"/sys/devices/pci"];

    /// The file at a path without empty names in it.
    pub fn of(path: &[u8]) -> Option<Made> {
        if Self::DEVICES.into_iter().any(|place| path.starts_with(place)) {
            return match path.rsplit(|&byte| byte == b'/').next()? {
                b"local_cpus" => Some(Made::NearMask),
                b"local_cpulist" => Some(Made::NearList),
                b"numa_node" => Some(Made::NearNode),
                _ => None,
            };
        }
        let mut names = path.strip_prefix(b"/proc/")?.split(|&byte| byte == b'/');
        let mut tid = match names.next()? {
            b"stat" => return names.next().is_none().then_some(Made::Stat),
            b"meminfo" => return names.next().is_none().then_some(Made::Memory),
            b"self" => Some(sys::process_id()),
            b"thread-self" => None,
            name => Some(number(name)?),
        };
        loop {
            match names.next()? {
                b"task" => tid = Some(number(names.next()?)?),
                b"status" => return names.next().is_none().then_some(Made::Status(tid)),
                b"stat" => return names.next().is_none().then_some(Made::ThreadStat(tid)),
                b"numa_maps" => return names.next().is_none().then_some(Made::NumaMaps(tid)),
                _ => return None,
            }
        }
    }
}

fn number(name: &[u8]) -> Option<u32> {
    core::str::from_utf8(name).ok()?.parse().ok()
}

/// Opens a file that is made; the kernel's word.
pub fn open(thread: &Thread, made: &Made, number: u32, arguments: [u64; 6]) -> u64 {
    // SAFETY: the program's own call.
    let result = unsafe { sys::for_program(number, arguments) };
    let Ok(descriptor) = sys::check(result) else { return result };
    let Some(text) = read(descriptor) else { return result };
    let mut changed = String::with_capacity(text.len() + PAGE as usize);
    let written = match *made {
        Made::Status(tid) => status(&mut changed, &text, &cpus_of(thread, tid)),
        Made::ThreadStat(tid) => match cpu_number(thread, tid) {
            Some(cpu) => thread_stat(&mut changed, &text, cpu),
            None => return result,
        },
        Made::Stat => stat(&mut changed, &text, &all_cpus(placement())),
        Made::NearMask => {
            let numbers = placement().cpu_numbers.load(Relaxed) as usize;
            write_mask(&mut changed, &all_cpus(placement()).0, numbers).and_then(|()| changed.write_char('\n'))
        }
        Made::NearList => {
            write_list(&mut changed, all_cpus(placement()).iter()).and_then(|()| changed.write_char('\n'))
        }
        Made::NearNode => changed.write_str("-1\n"),
        Made::Memory => memory::write(&mut changed, &text),
        Made::NumaMaps(tid) => match numa_maps::write(&mut changed, &text, thread, tid) {
            Some(written) => written,
            // One that does not see this machine.
            None => return result,
        },
    };
    if written.is_ok() {
        replace(descriptor, changed.as_bytes());
    }
    result
}

fn cpus_of(thread: &Thread, tid: Option<u32>) -> CpuSet {
    match tid {
        None => thread.place.cpus.clone(),
        Some(tid) if tid == thread.tid => thread.place.cpus.clone(),
        Some(tid) => {
            let session = &runtime().session;
            session.thread_of(tid).map_or_else(|| all_cpus(placement()), |extent| places::wanted(session, extent).0)
        }
    }
}

/// The CPU that a thread is on; none: it does not see this machine.
fn cpu_number(thread: &Thread, tid: Option<u32>) -> Option<u32> {
    if tid.is_none_or(|tid| tid == thread.tid) {
        return Some(cpu_of(&thread.place, placement()).0);
    }
    let session = &runtime().session;
    let extent = session.thread_of(tid?)?;
    let (cpus, policy) = places::wanted(session, extent);
    let place = Place::among(cpus, policy).seated(placement(), session.entry(extent).slot.load(Relaxed));
    Some(cpu_of(&place, placement()).0)
}

/// Writes what a thread has done, with the number of its CPU.
fn thread_stat(to: &mut String, text: &str, cpu: u32) -> fmt::Result {
    /// Behind the name, which may hold anything, up to its last parenthesis.
    const PROCESSOR: usize = 36;
    let Some((name, fields)) = text.rsplit_once(") ") else { return to.write_str(text) };
    write!(to, "{name})")?;
    for (number, field) in fields.split(' ').enumerate() {
        match number {
            PROCESSOR => write!(to, " {cpu}")?,
            _ => write!(to, " {field}")?,
        }
    }
    Ok(())
}

/// All of a file; none where it cannot be read.
fn read(descriptor: u64) -> Option<String> {
    let mut text: Vec<u8> = Vec::new();
    loop {
        text.reserve(PAGE as usize);
        let (at, room) = (text.len(), text.capacity() - text.len());
        // SAFETY: room of our own behind what has been read.
        unsafe {
            match call!(__NR_pread64, descriptor, text.as_mut_ptr().add(at), room, at) {
                Ok(0) => break,
                Ok(bytes) => text.set_len(at + bytes as usize),
                Err(_) => return None,
            }
        }
    }
    String::from_utf8(text).ok()
}

/// Puts a file in memory with this text in the place of a descriptor, that can only be read, as those of `/proc`:
/// programs look (Chromium does). Where that fails, the descriptor stays what it is.
fn replace(descriptor: u64, text: &[u8]) {
    const FD_CLOEXEC: u64 = 1;
    // SAFETY: descriptors that the program does not know yet, and a text of our own.
    unsafe {
        // Beyond a limit of file sizes there would be a signal.
        let mut limit = [0u64; 2];
        let _ = call!(__NR_getrlimit, linux_raw_sys::general::RLIMIT_FSIZE, limit.as_mut_ptr());
        if limit[0] < text.len() as u64 {
            return;
        }
        let flags = call!(__NR_fcntl, descriptor, raw::F_GETFD, 0).unwrap_or(0);
        let Ok(file) = call!(__NR_memfd_create, c"proc".as_ptr(), raw::MFD_CLOEXEC) else { return };
        if call!(__NR_pwrite64, file, text.as_ptr(), text.len(), 0) == Ok(text.len() as u64) {
            let path = alloc::format!("/proc/thread-self/fd/{file}\0");
            let how = raw::O_RDONLY | raw::O_CLOEXEC;
            if let Ok(read_only) = call!(__NR_openat, raw::AT_FDCWD, path.as_ptr(), how, 0) {
                let how = if flags & FD_CLOEXEC != 0 { raw::O_CLOEXEC } else { 0 };
                let _ = call!(__NR_dup3, read_only, descriptor, how);
                let _ = call!(__NR_close, read_only);
            }
        }
        let _ = call!(__NR_close, file);
    }
}

/// Writes a status with other CPUs and nodes.
fn status(to: &mut String, text: &str, cpus: &CpuSet) -> fmt::Result {
    let bits = placement().cpu_numbers.load(Relaxed) as usize;
    status_of(to, text, cpus, bits, &memory_nodes(placement()))
}

fn status_of(to: &mut String, text: &str, cpus: &CpuSet, cpu_numbers: usize, nodes: &NodeSet) -> fmt::Result {
    for line in text.split_inclusive('\n') {
        let (name, _) = line.split_once('\t').unwrap_or((line, ""));
        match name {
            "Cpus_allowed:" | "Cpus_allowed_list:" | "Mems_allowed:" | "Mems_allowed_list:" => write!(to, "{name}\t")?,
            _ => {
                to.push_str(line);
                continue;
            }
        }
        match name {
            "Cpus_allowed:" => write_mask(to, &cpus.0, cpu_numbers)?,
            "Cpus_allowed_list:" => write_list(to, cpus.iter())?,
            "Mems_allowed:" => write_mask(to, &nodes.0, MOST_NUMBERS as usize)?,
            _ => write_list(to, nodes.iter())?,
        }
        to.push('\n');
    }
    Ok(())
}

/// Writes the machine's times with a line for each CPU: the host's CPUs stand for them in turn.
fn stat(to: &mut String, text: &str, cpus: &CpuSet) -> fmt::Result {
    let is_cpu =
        |line: &&str| line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let hosts: Vec<&str> = text.lines().filter(is_cpu).collect();
    let mut done = hosts.is_empty();
    for line in text.split_inclusive('\n') {
        if !is_cpu(&line) {
            to.push_str(line);
        } else if !done {
            done = true;
            for (cpu, like) in cpus.iter().zip(hosts.iter().cycle()) {
                let (_, times) = like.split_once(' ').unwrap_or((like, ""));
                writeln!(to, "cpu{cpu} {times}")?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_by_their_paths() {
        let own = Some(sys::process_id());
        assert_eq!(Made::of(b"/proc/self/status"), Some(Made::Status(own)));
        assert_eq!(Made::of(b"/proc/thread-self/status"), Some(Made::Status(None)));
        assert_eq!(Made::of(b"/proc/12/task/13/status"), Some(Made::Status(Some(13))));
        assert_eq!(Made::of(b"/proc/self/numa_maps"), Some(Made::NumaMaps(own)));
        assert_eq!(Made::of(b"/proc/stat"), Some(Made::Stat));
        assert_eq!(Made::of(b"/proc/self/stat"), Some(Made::ThreadStat(own)));
        assert_eq!(Made::of(b"/proc/12/task/13/stat"), Some(Made::ThreadStat(Some(13))));
        assert_eq!(Made::of(b"/sys/bus/pci/devices/0000:00:01.0/local_cpus"), Some(Made::NearMask));
        assert_eq!(Made::of(b"/sys/devices/pci0000:00/0000:00:01.0/numa_node"), Some(Made::NearNode));
        assert_eq!(Made::of(b"/sys/devices/pci0000:00/0000:00:01.0/class"), None);
        assert_eq!(Made::of(b"/proc/meminfo"), Some(Made::Memory));
        for path in
            ["/proc/self/stat/x", "/proc/sys/kernel", "/proc/self/status/x", "/proc/x/status", "/proc", "/sys/stat"]
        {
            assert_eq!(Made::of(path.as_bytes()), None, "{path}");
        }
    }

    #[test]
    fn lines_about_cpus_and_nodes_are_others() {
        let text =
            "Name:\tx\nCpus_allowed:\t3\nCpus_allowed_list:\t0-1\nMems_allowed:\t1\nMems_allowed_list:\t0\nend:\t1\n";
        let mut to = String::new();
        status_of(&mut to, text, &[4, 5, 9].into_iter().collect(), 16, &[0, 2].into_iter().collect()).unwrap();
        let zeros = "00000000,".repeat(31);
        let wanted = alloc::format!(
            "Name:\tx\nCpus_allowed:\t0230\nCpus_allowed_list:\t4-5,9\nMems_allowed:\t{zeros}00000005\nMems_allowed_list:\t0,2\nend:\t1\n"
        );
        assert_eq!(to, wanted);
    }

    #[test]
    fn a_thread_is_on_its_cpu() {
        let numbers = |from: u32, to: u32| (from..=to).map(|n| alloc::format!(" {n}")).collect::<String>();
        let mut to = String::new();
        thread_stat(&mut to, &alloc::format!("7 (a) b) S{}\n", numbers(4, 52)), 123).unwrap();
        assert_eq!(to, alloc::format!("7 (a) b) S{} 123{}\n", numbers(4, 38), numbers(40, 52)));
    }

    #[test]
    fn each_cpu_has_its_times() {
        let mut to = String::new();
        stat(&mut to, "cpu  5 6\ncpu0 1 2\ncpu1 4 4\nintr 7\n", &[0, 1, 8].into_iter().collect()).unwrap();
        assert_eq!(to, "cpu  5 6\ncpu0 1 2\ncpu1 4 4\ncpu8 1 2\nintr 7\n");
    }
}
