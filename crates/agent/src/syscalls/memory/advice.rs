//! madvise.

use super::{Affected, Change, CodeFate, Done};
use crate::code::Code;
use crate::pages;
use crate::state::maps::Huge;
use crate::sys::raw;
use crate::syscalls::call::ENOMEM;
use crate::syscalls::own_memory::{Claim, range_of};
use core::ops::Range;

const MADV_DONTNEED_LOCKED: u32 = 24;

/// madvise.
pub struct Advise;

impl Change for Advise {
    fn claim(&self, _code: &Code, arguments: &[u64; 6]) -> Claim {
        Claim::Goes { range: range_of(arguments[0], arguments[1]), done: ENOMEM }
    }

    fn unprotects(&self) -> bool {
        true
    }

    fn code(&self, _arguments: &[u64; 6]) -> CodeFate {
        CodeFate::IsWritten
    }

    fn affects(&self, _code: &Code, &[_, _, advice, ..]: &[u64; 6], range: &Range<u64>) -> Affected {
        match advice as u32 {
            raw::MADV_DONTNEED | raw::MADV_REMOVE | raw::MADV_FREE | MADV_DONTNEED_LOCKED => {
                Affected::Goes(range.clone())
            }
            _ => Affected::Stays(range.clone()),
        }
    }

    fn follow(&self, done: &mut Done<'_>) {
        let (memory, range) = (done.runtime.process(), done.range.clone());
        match done.arguments[2] as u32 {
            raw::MADV_DONTNEED | raw::MADV_REMOVE | MADV_DONTNEED_LOCKED => {
                pages::clear(&done.runtime.shadow, memory, range)
            }
            raw::MADV_FREE => pages::doubt(&done.runtime.shadow, memory, range, false),
            raw::MADV_HUGEPAGE => done.maps().change(range, |mapping| mapping.huge = Huge::Wanted),
            raw::MADV_NOHUGEPAGE => done.maps().change(range, |mapping| mapping.huge = Huge::Unwanted),
            _ => {}
        }
    }
}
