//! mremap.

use super::{Affected, Change, CodeFate, Done};
use crate::code::Code;
use crate::code::own_ranges::is_taken;
use crate::pages;
use crate::state::maps::{self, Backing, File, Mapping};
use crate::state::thread::Thread;
use crate::sys::{self, PAGE, raw};
use crate::syscalls::call::{EFAULT, ENOMEM};
use crate::syscalls::own_memory::{Claim, range_of};
use crate::syscalls::written::{self, Written};
use core::ops::Range;
use numalens_event::exact::log;

/// mremap.
pub struct Remap;

impl Change for Remap {
    fn claim(&self, code: &Code, &[address, bytes, new_bytes, flags, new, _]: &[u64; 6]) -> Claim {
        let named = range_of(address, bytes);
        match () {
            () if is_taken(code, &named) => Claim::changes("mremap", named, EFAULT),
            () if flags as u32 & raw::MREMAP_FIXED != 0 => Claim::takes("mremap", range_of(new, new_bytes), ENOMEM),
            () => Claim::Nothing,
        }
    }

    fn unprotects(&self) -> bool {
        true
    }

    fn code(&self, _arguments: &[u64; 6]) -> CodeFate {
        CodeFate::Goes
    }

    fn growth(&self, _code: &Code, &[_, bytes, new_bytes, ..]: &[u64; 6]) -> u64 {
        new_bytes.saturating_sub(bytes)
    }

    fn affects(&self, _code: &Code, _arguments: &[u64; 6], range: &Range<u64>) -> Affected {
        Affected::Goes(range.clone())
    }

    fn begins(&self, thread: &Thread) {
        thread.calls.moved_ns.set(sys::now_ns());
    }

    fn follow(&self, done: &mut Done<'_>) {
        let memory = done.runtime.process();
        let [_, _, new_bytes, flags, ..] = done.arguments;
        let (old, new) = (done.range.clone(), done.result..done.result + new_bytes.next_multiple_of(PAGE));
        let (old_start, kept) = (old.start, (old.end - old.start).min(new.end - new.start));
        let like = done.maps().find(old.start).copied();
        if like.is_some_and(|like| like.backing != Backing::Anonymous) {
            memory.log(log::REMAPPED, &[old.start, new.start, new.end, memory.next_site()], &[]);
        }
        if new.start != old.start {
            pages::clear(&done.runtime.shadow, memory, new.clone());
            pages::moved(&done.runtime.shadow, memory, old.start..old.start + kept, new.start);
            if flags as u32 & raw::MREMAP_DONTUNMAP == 0 {
                done.remove(old);
            } else {
                pages::clear(&done.runtime.shadow, memory, old);
            }
        } else if new.end < old.end {
            done.remove(new.end..old.end);
        }
        if let Some(like) = like {
            let file = like.file.moved((new.start / PAGE).wrapping_sub(old_start / PAGE));
            let mapping = Mapping { start: new.start, end: new.end, file, code: File::NONE, ..like };
            done.maps().insert(mapping);
            if like.backing == Backing::Anonymous {
                maps::log(memory, &mapping, 0, b"");
            }
        }
    }

    fn brought_in(&self, &[_, bytes, new_bytes, ..]: &[u64; 6], result: u64, _heap_end: u64) -> Option<Written> {
        // What is locked stays locked as it grows.
        let grows = new_bytes > bytes && written::has_locked();
        grows.then(|| written::brought_in(result.saturating_add(bytes), new_bytes - bytes)).flatten()
    }
}
