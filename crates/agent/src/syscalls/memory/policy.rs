//! Policies of memory and moves of pages, on a real machine.

use super::{Affected, Change, Done, execute};
use crate::code::Code;
use crate::machine::read_nodes;
use crate::pages;
use crate::state::thread::Thread;
use crate::sys;
use crate::syscalls::call::{Call, EFAULT, Verdict};
use crate::syscalls::own_memory::{Claim, range_of};
use core::ops::Range;

const MPOL_BIND: u64 = 2;
/// The mode without its flags, of which relative nodes would have another meaning.
const MPOL_MODE: u64 = !(1 << 15 | 1 << 13);
const MPOL_MF_MOVE: u32 = 1 << 1;
const MPOL_MF_MOVE_ALL: u32 = 1 << 2;

/// mbind.
pub struct Bind;
/// move_pages and migrate_pages.
struct Move;

impl Change for Bind {
    fn claim(&self, _code: &Code, arguments: &[u64; 6]) -> Claim {
        Claim::changes("mbind", range_of(arguments[0], arguments[1]), EFAULT)
    }

    fn affects(&self, _code: &Code, _arguments: &[u64; 6], range: &Range<u64>) -> Affected {
        Affected::Stays(range.clone())
    }

    fn follow(&self, done: &mut Done<'_>) {
        let (range, [_, _, mode, mask, bits, flags]) = (done.range.clone(), done.arguments);
        let bound = mode & MPOL_MODE == MPOL_BIND && is_one_node(mask, bits);
        done.maps().change(range.clone(), |mapping| mapping.bound = bound);
        if flags as u32 & (MPOL_MF_MOVE | MPOL_MF_MOVE_ALL) != 0 {
            pages::doubt(&done.runtime.shadow, done.runtime.process(), range, true);
        }
    }
}

impl Change for Move {
    fn claim(&self, _code: &Code, _arguments: &[u64; 6]) -> Claim {
        Claim::Nothing
    }

    fn affects(&self, _code: &Code, _arguments: &[u64; 6], _range: &Range<u64>) -> Affected {
        Affected::Stays(0..sys::USER_END)
    }

    fn follow(&self, done: &mut Done<'_>) {
        pages::doubt(&done.runtime.shadow, done.runtime.process(), 0..sys::USER_END, true);
    }
}

/// The program's move_pages, where it names nodes to go to.
pub fn move_pages(thread: &mut Thread, call: &Call) -> Option<Verdict> {
    (is_own(call.arguments[0]) && call.arguments[3] != 0).then(|| Verdict::Done(execute(thread, call, &Move)))
}

/// The program's migrate_pages.
pub fn migrate_pages(thread: &mut Thread, call: &Call) -> Option<Verdict> {
    is_own(call.arguments[0]).then(|| Verdict::Done(execute(thread, call, &Move)))
}

/// Whether a call is about this process.
fn is_own(pid: u64) -> bool {
    pid as u32 == 0 || pid as u32 == sys::process_id()
}

/// Whether a mask of the program's, of so many bits and one, names one node.
fn is_one_node(mask: u64, bits: u64) -> bool {
    read_nodes(mask, bits).is_ok_and(|nodes| nodes.only().is_some())
}
