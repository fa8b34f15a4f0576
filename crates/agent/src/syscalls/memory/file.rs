//! The files that mappings show.

use crate::call;
use crate::state::maps::{self, File};
use crate::state::runtime::runtime;
use crate::state::session_file::ProcessMemory;
use crate::sys::raw;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

/// What a descriptor shows when it is mapped at the page `at`, from its page `first` on.
pub fn of_descriptor(memory: &ProcessMemory, descriptor: u64, at: u64, first: u64) -> File {
    // SAFETY: structures of numbers.
    let (mut stat, mut system): (raw::stat, raw::statfs64) = unsafe { (core::mem::zeroed(), core::mem::zeroed()) };
    // SAFETY: the kernel's structure, our own.
    if unsafe { call!(__NR_fstat, descriptor, &raw mut stat) }.is_err() {
        return File::NONE;
    }
    // Each mapping of /dev/zero is memory of its own.
    if stat.st_mode & raw::S_IFMT == raw::S_IFCHR && stat.st_rdev == DEV_ZERO {
        return File::new(unique_key(memory), at, first).memory(true);
    }
    // SAFETY: as above.
    let asked = unsafe { call!(__NR_fstatfs, descriptor, &raw mut system) };
    let is_memory = asked.is_ok() && system.f_type as u32 == raw::TMPFS_MAGIC;
    File::new(maps::file_key((stat.st_dev, stat.st_ino)), at, first).memory(is_memory)
}

/// The device number of /dev/zero.
const DEV_ZERO: u64 = 1 << 8 | 5;

/// A key for shared memory without a name, which only those have that this process forks.
pub fn unique_key(memory: &ProcessMemory) -> u64 {
    static MADE: AtomicU64 = AtomicU64::new(0);
    // Other recordings may see it, too.
    let collector = runtime().session.header().collector_pid.load(Relaxed);
    maps::file_key((u64::MAX - u64::from(memory.extent.0), collector, MADE.fetch_add(1, Relaxed)))
}

/// The name by which the kernel knows the file of a descriptor.
pub fn name(descriptor: u64) -> Vec<u8> {
    const MOST: usize = 4096;
    let mut path = [0u8; 32];
    let prefix = b"/proc/self/fd/";
    path[..prefix.len()].copy_from_slice(prefix);
    let mut digits = [0u8; 10];
    let mut left = descriptor as u32;
    let mut used = 0;
    loop {
        digits[used] = b'0' + (left % 10) as u8;
        left /= 10;
        used += 1;
        if left == 0 {
            break;
        }
    }
    for (to, from) in path[prefix.len()..].iter_mut().zip(digits[..used].iter().rev()) {
        *to = *from;
    }
    let mut name = alloc::vec![0u8; MOST];
    // SAFETY: a NUL-terminated path and a buffer, both our own.
    let length = unsafe { call!(__NR_readlinkat, raw::AT_FDCWD, path.as_ptr(), name.as_mut_ptr(), MOST) }.unwrap_or(0);
    name.truncate(length as usize);
    name
}
