//! brk.

use super::{Affected, Change, Done};
use crate::code::Code;
use crate::code::own_ranges::is_taken_for_good;
use crate::state::maps::{self, Mapping};
use crate::sys::{PAGE, raw};
use crate::syscalls::memory::lock::locks_new;
use crate::syscalls::own_memory::{Claim, range_of};
use crate::syscalls::written::{self, Written};
use core::ops::Range;

/// brk.
pub struct Brk;

impl Change for Brk {
    fn claim(&self, code: &Code, &[end, ..]: &[u64; 6]) -> Claim {
        let heap_end = code.env.heap_end;
        if heap_end == 0 || end <= heap_end {
            return Claim::Nothing;
        }
        let grown = range_of(heap_end, end - heap_end);
        // So far no heap can grow: libraries and the stack are in between.
        if is_taken_for_good(code, &grown) {
            return Claim::Nothing;
        }
        // It returns where the heap ends.
        Claim::takes("brk", grown, heap_end)
    }

    fn growth(&self, code: &Code, &[end, ..]: &[u64; 6]) -> u64 {
        end.saturating_sub(code.env.heap_end)
    }

    fn at_the_limit(&self, code: &Code) -> u64 {
        code.env.heap_end
    }

    fn affects(&self, code: &Code, &[end, ..]: &[u64; 6], _range: &Range<u64>) -> Affected {
        let heap_end = code.env.heap_end;
        let shrinks = end != 0 && end < heap_end;
        if shrinks { Affected::Goes(end..heap_end.next_multiple_of(PAGE)) } else { Affected::Nothing }
    }

    fn follow(&self, done: &mut Done<'_>) {
        let heap_end = done.code.env.heap_end;
        let (old, new) = (heap_end.next_multiple_of(PAGE), done.result.next_multiple_of(PAGE));
        if heap_end != 0 && new > old {
            let mapping = Mapping::anonymous(old, new, raw::PROT_READ | raw::PROT_WRITE);
            done.maps().insert(mapping);
            maps::log(done.runtime.process(), &mapping, 0, b"[heap]");
        } else if new < old {
            done.remove(new..old);
        }
        done.code.env.heap_end = done.result;
    }

    fn brought_in(&self, _arguments: &[u64; 6], result: u64, heap_end: u64) -> Option<Written> {
        let grows = locks_new() && heap_end != 0 && result > heap_end;
        grows.then(|| written::brought_in(heap_end, result - heap_end)).flatten()
    }
}
