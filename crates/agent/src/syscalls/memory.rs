//! Calls that change the memory map: executed here, under the lock, so that maps, translations and pages change with
//! them.

use super::own_memory::{self, Judgement};
use super::{EINVAL, Gate, limits};
use crate::boot::log_mapping;
use crate::call;
use crate::interposer;
use crate::machine::published_policies;
use crate::maps::{self, Backing, File, Huge, Mapping, Maps};
use crate::runtime::{Code, Runtime, runtime};
use crate::session_file::ProcessMemory;
use crate::sys::{self, PAGE, raw};
use crate::thread::Thread;
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use numalens_event::exact::log;

/// Executes the call and follows what it did. Returns the kernel's word.
pub fn execute(thread: &Thread, number: u32, arguments: [u64; 6], gate: Gate) -> u64 {
    let runtime = runtime();
    let mut code = runtime.code.lock();
    match own_memory::judge(&mut code, thread, number, &arguments) {
        Judgement::Pass => execute_one(thread, &mut code, number, arguments, gate),
        Judgement::Refuse(error) => error,
        Judgement::Pieces(pieces, done) => {
            let rest = arguments;
            for piece in pieces {
                let mut arguments = rest;
                (arguments[0], arguments[1]) = (piece.start, piece.end - piece.start);
                let result = execute_one(thread, &mut code, number, arguments, gate);
                // A hole in it says no more than the one that stays.
                if sys::check(result).is_err() && result != ENOMEM {
                    return result;
                }
            }
            done
        }
    }
}

fn execute_one(thread: &Thread, code: &mut Code, number: u32, arguments: [u64; 6], gate: Gate) -> u64 {
    let runtime = runtime();
    let [address, bytes, ..] = arguments;
    let range = address..address.saturating_add(bytes).next_multiple_of(PAGE).max(address);
    // What is about to go or change must not be entered any more: before the call, for code that goes.
    let replaces = match number {
        raw::__NR_mmap => arguments[3] as u32 & raw::MAP_FIXED != 0,
        raw::__NR_munmap | raw::__NR_mremap => true,
        raw::__NR_mprotect | raw::__NR_pkey_mprotect => true,
        _ => false,
    };
    if replaces || number == raw::__NR_madvise {
        code.unprotect(&range);
    }
    if replaces {
        drop_code(code, range.clone());
    }
    let more = match number {
        raw::__NR_mmap if !replaces => bytes,
        raw::__NR_mremap => arguments[2].saturating_sub(bytes),
        raw::__NR_brk => address.saturating_sub(code.env.heap_end),
        _ => 0,
    };
    if more > 0 && limits::exceeded(runtime, || code.env.maps.bytes(), more) {
        return if number == raw::__NR_brk { code.env.heap_end } else { ENOMEM };
    }
    let mut arguments = arguments;
    if number == raw::__NR_mmap && code.env.lock_new {
        arguments[3] |= u64::from(raw::MAP_LOCKED);
    }
    // What goes or moves is asked for while it is there.
    let (memory, maps) = (runtime.process(), &code.env.maps);
    match affected(code, number, arguments, range.clone()) {
        Some((goes, true)) => runtime.shadow.reconcile(memory, thread, maps, goes),
        Some((stays, false)) => runtime.shadow.resolve(memory, stays),
        None => {}
    }
    if number == raw::__NR_mremap {
        thread.moved_ns.set(sys::now_ns());
    }
    // SAFETY: the program's own call with the program's own arguments.
    let result = unsafe { gate.make(number, arguments) };
    if sys::check(result).is_ok() {
        follow(runtime, code, number, arguments, range, result);
        published_policies::publish(runtime, &code.env.maps);
        code.env.forget_pages();
    }
    result
}

/// mlockall and munlockall: for the program's mappings only. The agent's tables are reservations.
pub fn lock_all(runtime: &Runtime, number: u32, flags: u64) -> u64 {
    let mut code = runtime.code.lock();
    let flags = flags as u32;
    if number == raw::__NR_mlockall && (flags == 0 || flags & !(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) != 0) {
        return EINVAL;
    }
    code.env.lock_new = number == raw::__NR_mlockall && flags & MCL_FUTURE != 0;
    if number == raw::__NR_mlockall && flags & MCL_CURRENT == 0 {
        return 0;
    }
    let on_fault = u64::from(flags & MCL_ONFAULT != 0);
    for mapping in code.env.maps.iter() {
        let (at, bytes) = (mapping.start, mapping.end - mapping.start);
        let result = match number {
            // SAFETY: the program's own wish for the program's own mappings.
            raw::__NR_mlockall => unsafe { sys::for_program(raw::__NR_mlock2, [at, bytes, on_fault, 0, 0, 0]) },
            // SAFETY: as above.
            _ => unsafe { sys::for_program(raw::__NR_munlock, [at, bytes, 0, 0, 0, 0]) },
        };
        // Mappings without access cannot be filled: mlockall locks them all the same.
        if result != ENOMEM && sys::check(result).is_err() {
            return result;
        }
    }
    0
}

/// Whether what is mapped is locked at once, as mlockall has asked for.
pub fn locks_new(runtime: &Runtime) -> bool {
    runtime.code.lock().env.lock_new
}

const MCL_CURRENT: u32 = 1;
const MCL_FUTURE: u32 = 2;
const MCL_ONFAULT: u32 = 4;
const ENOMEM: u64 = (linux_raw_sys::errno::ENOMEM as i64).wrapping_neg() as u64;

/// The pages whose homes a call may end or change, and whether pages may go that nobody has accessed.
fn affected(code: &Code, number: u32, arguments: [u64; 6], range: Range<u64>) -> Option<(Range<u64>, bool)> {
    let heap_end = code.env.heap_end;
    match number {
        raw::__NR_mmap if arguments[3] as u32 & raw::MAP_FIXED == 0 => None,
        raw::__NR_mprotect | raw::__NR_pkey_mprotect => None,
        raw::__NR_brk if arguments[0] == 0 || arguments[0] >= heap_end => None,
        raw::__NR_brk => Some((arguments[0]..heap_end.next_multiple_of(PAGE), true)),
        raw::__NR_move_pages | raw::__NR_migrate_pages => Some((0..sys::USER_END, false)),
        raw::__NR_shmdt => {
            let pieces = attached(&code.env.maps, arguments[0]);
            Some((pieces.first()?.start..pieces.last()?.end, true))
        }
        // Where it comes to lie is known afterwards; what is there now goes with `SHM_REMAP` only.
        raw::__NR_shmat => None,
        raw::__NR_madvise => {
            let gives_up = matches!(
                arguments[2] as u32,
                raw::MADV_DONTNEED | raw::MADV_REMOVE | raw::MADV_FREE | MADV_DONTNEED_LOCKED
            );
            Some((range, gives_up))
        }
        raw::__NR_mbind => Some((range, false)),
        _ => Some((range, true)),
    }
}

/// The program writes by a system call to where it may have code: in `/proc/self/mem` addresses are offsets.
pub fn written_at(address: u64, bytes: u64) {
    let mut code = runtime().code.lock();
    let range = address..address.saturating_add(bytes);
    code.unprotect(&range);
    drop_code(&mut code, range);
}

fn drop_code(code: &mut Code, range: Range<u64>) {
    if code.env.maps.any_executable(range.clone()) {
        let Code { cache, env, .. } = code;
        cache.invalidate(env, range);
    }
}

fn follow(runtime: &Runtime, code: &mut Code, number: u32, arguments: [u64; 6], range: Range<u64>, result: u64) {
    let memory = runtime.process();
    let maps = &mut code.env.maps;
    let [_, bytes, third, fourth, descriptor, offset] = arguments;
    match number {
        raw::__NR_mmap => {
            let flags = fourth as u32;
            let end = result + bytes.next_multiple_of(PAGE);
            if flags & raw::MAP_FIXED != 0 {
                runtime.shadow.clear(memory, result..end);
            }
            let anonymous = flags & raw::MAP_ANONYMOUS != 0;
            let backing = match flags & raw::MAP_TYPE {
                raw::MAP_PRIVATE if anonymous => Backing::Anonymous,
                raw::MAP_PRIVATE => Backing::PrivateFile,
                _ => Backing::Shared,
            };
            let shared = backing == Backing::Shared && !anonymous;
            let file = match backing {
                Backing::Shared if anonymous => File::new(unique_key(memory), result / PAGE, 0).memory(true),
                Backing::Shared => file_of(memory, descriptor, result / PAGE, offset / PAGE),
                Backing::Anonymous | Backing::PrivateFile => File::NONE,
            };
            let mapping = Mapping { shared, backing, file, ..Mapping::anonymous(result, end, third as u32) };
            let name = if anonymous { Vec::new() } else { file_name(descriptor) };
            if flags & raw::MAP_FIXED == 0 {
                interposer::mapped(result..end, &name);
            }
            if interposer::contains(result) && !mapping.executable() {
                maps.remove(result..end);
                return;
            }
            if mapping.file.is_memory {
                published_policies::begin();
            }
            maps.insert(mapping);
            log_mapping(memory, &mapping, offset, &name);
        }
        raw::__NR_munmap => {
            gone(runtime, range.clone());
            maps.remove(range);
        }
        raw::__NR_mprotect | raw::__NR_pkey_mprotect => maps.protect(range, third as u32),
        raw::__NR_mremap => {
            let old = range;
            let new = result..result + third.next_multiple_of(PAGE);
            let (old_start, kept) = (old.start, (old.end - old.start).min(new.end - new.start));
            let like = maps.find(old.start).copied();
            if like.is_some_and(|like| like.backing != Backing::Anonymous) {
                memory.log(log::REMAPPED, &[old.start, new.start, new.end, memory.next_site()], &[]);
            }
            if result != old.start {
                runtime.shadow.clear(memory, new.clone());
                runtime.shadow.moved(memory, old.start..old.start + kept, new.start);
                if fourth as u32 & raw::MREMAP_DONTUNMAP == 0 {
                    gone(runtime, old.clone());
                    maps.remove(old);
                } else {
                    runtime.shadow.clear(memory, old);
                }
            } else if new.end < old.end {
                gone(runtime, new.end..old.end);
                maps.remove(new.end..old.end);
            }
            if let Some(like) = like {
                let file = like.file.moved((new.start / PAGE).wrapping_sub(old_start / PAGE));
                let mapping = Mapping { start: new.start, end: new.end, file, ..like };
                maps.insert(mapping);
                if like.backing == Backing::Anonymous {
                    log_mapping(memory, &mapping, 0, b"");
                }
            }
        }
        raw::__NR_brk => {
            let (old, new) = (code.env.heap_end.next_multiple_of(PAGE), result.next_multiple_of(PAGE));
            if code.env.heap_end != 0 && new > old {
                let protection = raw::PROT_READ | raw::PROT_WRITE;
                maps.insert(Mapping::anonymous(old, new, protection));
                log_mapping(memory, &Mapping::anonymous(old, new, protection), 0, b"[heap]");
            } else if new < old {
                gone(runtime, new..old);
                maps.remove(new..old);
            }
            code.env.heap_end = result;
        }
        raw::__NR_madvise => match third as u32 {
            raw::MADV_DONTNEED | raw::MADV_REMOVE | MADV_DONTNEED_LOCKED => runtime.shadow.clear(memory, range),
            raw::MADV_FREE => runtime.shadow.doubt(memory, range, false),
            raw::MADV_HUGEPAGE => maps.change(range, |mapping| mapping.huge = Huge::Wanted),
            raw::MADV_NOHUGEPAGE => maps.change(range, |mapping| mapping.huge = Huge::Unwanted),
            _ => {}
        },
        raw::__NR_mbind => {
            let bound = third & MPOL_MODE == MPOL_BIND && is_one_node(fourth, arguments[4]);
            maps.change(range.clone(), |mapping| mapping.bound = bound);
            if arguments[5] as u32 & (MPOL_MF_MOVE | MPOL_MF_MOVE_ALL) != 0 {
                runtime.shadow.doubt(memory, range, true);
            }
        }
        raw::__NR_move_pages | raw::__NR_migrate_pages => runtime.shadow.doubt(memory, 0..sys::USER_END, true),
        raw::__NR_shmat => {
            let text = maps::read();
            if let Some(line) = maps::parse(&text).find(|line| line.mapping.start == result) {
                if third as u32 & SHM_REMAP != 0 {
                    runtime.shadow.clear(memory, line.mapping.start..line.mapping.end);
                }
                published_policies::begin();
                maps.insert(line.mapping);
                log_mapping(memory, &line.mapping, line.offset, line.name);
            }
        }
        raw::__NR_shmdt => {
            for piece in attached(maps, arguments[0]) {
                gone(runtime, piece.clone());
                maps.remove(piece);
            }
        }
        _ => {}
    }
}

const MADV_DONTNEED_LOCKED: u32 = 24;
const SHM_REMAP: u32 = 0o40000;
const MPOL_BIND: u64 = 2;
/// The mode without its flags, of which relative nodes would have another meaning.
const MPOL_MODE: u64 = !(1 << 15 | 1 << 13);
const MPOL_MF_MOVE: u32 = 1 << 1;
const MPOL_MF_MOVE_ALL: u32 = 1 << 2;

/// Whether a mask of the program's, of so many bits and one, names one node.
fn is_one_node(mask: u64, bits: u64) -> bool {
    crate::machine::read_nodes(mask, bits).is_ok_and(|nodes| nodes.only().is_some())
}

fn gone(runtime: &Runtime, range: Range<u64>) {
    if range.is_empty() {
        return;
    }
    let memory = runtime.process();
    runtime.shadow.clear(memory, range.clone());
    // After the ends of its pages.
    memory.log(log::UNMAPPED, &[range.start, range.end, memory.next_site()], &[]);
}

/// What is left of shared memory that was attached at an address: parts may have been given other rights, or been
/// unmapped.
fn attached(maps: &Maps, address: u64) -> Vec<Range<u64>> {
    let from_there = |mapping: &&Mapping| mapping.start >= address && mapping.file.begins_at(address / PAGE);
    let Some(first) = maps.iter().find(from_there) else { return Vec::new() };
    let same = maps.iter().filter(from_there).filter(|mapping| mapping.file.key == first.file.key);
    same.map(|mapping| mapping.start..mapping.end).collect()
}

/// What a descriptor shows when it is mapped at the page `at`, from its page `first` on.
fn file_of(memory: &ProcessMemory, descriptor: u64, at: u64, first: u64) -> File {
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
fn unique_key(memory: &ProcessMemory) -> u64 {
    static MADE: AtomicU64 = AtomicU64::new(0);
    // Other recordings may see it, too.
    let collector = runtime().session.header().collector_pid.load(Relaxed);
    maps::file_key((u64::MAX - u64::from(memory.extent.0), collector, MADE.fetch_add(1, Relaxed)))
}

/// The name by which the kernel knows the file of a descriptor.
fn file_name(descriptor: u64) -> Vec<u8> {
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
