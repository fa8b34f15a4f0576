//! Calls that change the memory map: executed here, under the lock, so that maps, translations and pages change with them.

use crate::boot::log_mapping;
use crate::call;
use crate::maps::{self, Mapping};
use crate::runtime::{Code, Runtime};
use crate::sys::{self, PAGE, raw};
use core::ops::Range;
use numalens_event::exact::log;

/// Executes the call and follows what it did. Returns the kernel's word.
pub fn execute(runtime: &Runtime, number: u32, arguments: [u64; 6]) -> u64 {
    let mut code = runtime.code.lock();
    let [address, bytes, ..] = arguments;
    let range = address..address.saturating_add(bytes).next_multiple_of(PAGE).max(address);
    // What is about to go or change must not be entered any more: before the call, for code that goes.
    let replaces = match number {
        raw::__NR_mmap => arguments[3] as u32 & raw::MAP_FIXED != 0,
        raw::__NR_munmap | raw::__NR_mremap => true,
        raw::__NR_mprotect | raw::__NR_pkey_mprotect => true,
        _ => false,
    };
    if replaces {
        drop_code(&mut code, range.clone());
    }
    // SAFETY: the program's own call with the program's own arguments.
    let result = unsafe { sys::syscall(number, arguments) };
    if sys::check(result).is_ok() {
        follow(runtime, &mut code, number, arguments, range, result);
        code.world.forget_pages();
    }
    result
}

fn drop_code(code: &mut Code, range: Range<u64>) {
    if code.world.maps.any_executable(range.clone()) {
        let Code { cache, world } = code;
        cache.invalidate(world, range);
    }
}

fn follow(runtime: &Runtime, code: &mut Code, number: u32, arguments: [u64; 6], range: Range<u64>, result: u64) {
    let memory = runtime.process();
    let maps = &mut code.world.maps;
    let [_, bytes, third, fourth, descriptor, offset] = arguments;
    match number {
        raw::__NR_mmap => {
            let flags = fourth as u32;
            let end = result + bytes.next_multiple_of(PAGE);
            if flags & raw::MAP_FIXED != 0 {
                runtime.shadow.clear(memory, result..end);
            }
            let shared = flags & raw::MAP_TYPE != raw::MAP_PRIVATE && flags & raw::MAP_ANONYMOUS == 0;
            let mapping = Mapping { start: result, end, protection: third as u32, shared };
            maps.insert(mapping);
            if flags & raw::MAP_ANONYMOUS == 0 {
                log_file(runtime, &mapping, descriptor, offset);
            }
        }
        raw::__NR_munmap => {
            gone(runtime, range.clone());
            maps.remove(range);
        }
        raw::__NR_mprotect | raw::__NR_pkey_mprotect => maps.protect(range, third as u32),
        raw::__NR_mremap => {
            let old = range;
            let new = result..result + third.next_multiple_of(PAGE);
            let kept = (old.end - old.start).min(new.end - new.start);
            let like = maps.find(old.start).copied();
            if result != old.start {
                runtime.shadow.clear(memory, new.clone());
                runtime.shadow.moved(memory, old.start..old.start + kept, new.start);
                gone(runtime, old.clone());
                if fourth as u32 & raw::MREMAP_DONTUNMAP == 0 {
                    maps.remove(old);
                }
            } else if new.end < old.end {
                gone(runtime, new.end..old.end);
                maps.remove(new.end..old.end);
            }
            if let Some(like) = like {
                maps.insert(Mapping { start: new.start, end: new.end, ..like });
            }
        }
        raw::__NR_brk => {
            let (old, new) = (code.world.heap_end.next_multiple_of(PAGE), result.next_multiple_of(PAGE));
            if code.world.heap_end != 0 && new > old {
                let protection = raw::PROT_READ | raw::PROT_WRITE;
                maps.insert(Mapping { start: old, end: new, protection, shared: false });
                memory.log(log::MAPPED, &[old, new, 0, u64::from(protection), 0], b"[heap]");
            } else if new < old {
                gone(runtime, new..old);
                maps.remove(new..old);
            }
            code.world.heap_end = result;
        }
        raw::__NR_madvise => {
            const GIVES_UP: [u32; 4] = [raw::MADV_DONTNEED, raw::MADV_FREE, raw::MADV_REMOVE, MADV_DONTNEED_LOCKED];
            if GIVES_UP.contains(&(third as u32)) {
                runtime.shadow.clear(memory, range);
            }
        }
        raw::__NR_shmat => {
            let text = maps::read();
            if let Some(line) = maps::parse(&text).find(|line| line.mapping.start == result) {
                maps.insert(line.mapping);
                log_mapping(memory, &line.mapping, line.offset, line.name);
            }
        }
        raw::__NR_shmdt => {
            if let Some(mapping) = maps.find(arguments[0]).copied() {
                gone(runtime, mapping.start..mapping.end);
                maps.remove(mapping.start..mapping.end);
            }
        }
        _ => {}
    }
}

const MADV_DONTNEED_LOCKED: u32 = 24;

fn gone(runtime: &Runtime, range: Range<u64>) {
    runtime.process().log(log::UNMAPPED, &[range.start, range.end], &[]);
    runtime.shadow.clear(runtime.process(), range);
}

/// Tells the collector of a mapped file, by the name that the kernel knows for its descriptor.
fn log_file(runtime: &Runtime, mapping: &Mapping, descriptor: u64, offset: u64) {
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
    log_mapping(runtime.process(), mapping, offset, &name[..length as usize]);
}
