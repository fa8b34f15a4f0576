//! Filters that the program puts on its own system calls.
//!
//! Problem: a filter names what the program may ask of the kernel, and kills for anything else. The agent in the same
//! process asks for more: memory, clocks, where a page is.
//!
//! Mechanism: a filter sees the address of the instruction that makes the call. Every filter that the program installs
//! gets a head that lets calls from the agent's image pass, all but those that the agent makes in the program's name
//! ([`sys::for_program`]); the program's own are made in the code cache, and judged as ever:
//!
//! ```text
//!   load instruction_pointer, high half     not ours? --> the program's filter
//!   load instruction_pointer, low half      outside of the image, or for_program? --> the program's filter
//!   allow
//! ```
//! Filters survive an exec, so the next program's agent is mapped at the same address ([`crate::inject`]).
//! Calls that the agent answers itself (signal actions, masks) are put to the filter first, with an argument that the
//! kernel refuses. Strict mode, which knows four calls, is kept by the agent alone.

use super::call::{EFAULT, EINVAL, errno};
use super::old_numbers;
use crate::state::runtime::runtime;
use crate::sys::user;
use crate::sys::{self, Errno};
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU64};

/// `SECCOMP_MODE_STRICT`.
pub const STRICT: u64 = 1;
/// `SECCOMP_MODE_FILTER`.
pub const FILTER: u64 = 2;
/// Most instructions of a filter.
const LONGEST: u64 = 4096;
const LOAD: u64 = 0x20;
const LOAD_CONSTANT: u64 = 0x00;
const JUMP_EQUAL: u64 = 0x15;
const JUMP_AT_LEAST: u64 = 0x35;
const RETURN: u64 = 0x06;
const ALLOW: u64 = 0x7fff_0000;
const LOW_HALF: u64 = 8;
const HIGH_HALF: u64 = 12;

static FILTERED: AtomicBool = AtomicBool::new(false);
/// The thread that is in strict mode, if one is: its id.
static STRICT_THREAD: AtomicU64 = AtomicU64::new(0);

/// `struct sock_fprog`.
#[repr(C)]
struct Program {
    length: u64,
    instructions: *const u64,
}

/// One instruction: code, jumps if true and if false, constant.
const fn instruction(code: u64, if_true: u64, if_false: u64, constant: u64) -> u64 {
    code | if_true << 16 | if_false << 24 | constant << 32
}

/// The program installs the filter that `program` leads to: `make` makes the call with the address of the longer one.
/// Returns the kernel's word.
pub fn install(program: u64, make: impl FnOnce(u64) -> u64) -> u64 {
    let Ok([length, at]) = user::read::<[u64; 2]>(program) else { return EFAULT };
    let length = length & 0xffff;
    let head = head();
    if length == 0 || length + head.len() as u64 > LONGEST {
        return EINVAL;
    }
    let mut instructions: Vec<u64> = head.to_vec();
    for number in 0..length {
        match user::read::<u64>(at + number * 8) {
            Ok(word) => instructions.push(word),
            Err(Errno(error)) => return errno(error as u32),
        }
    }
    let longer = Program { length: instructions.len() as u64, instructions: instructions.as_ptr() };
    let result = make(&raw const longer as u64);
    if sys::check(result).is_ok() {
        FILTERED.store(true, Relaxed);
    }
    result
}

fn head() -> [u64; 9] {
    let image = &runtime().image;
    let (high, first, end) = (image.start >> 32, image.start & 0xffff_ffff, image.end & 0xffff_ffff);
    let theirs = sys::program_call_addresses().map(|address| address & 0xffff_ffff);
    [
        instruction(LOAD, 0, 0, HIGH_HALF),
        instruction(JUMP_EQUAL, 0, 6, high),
        instruction(LOAD, 0, 0, LOW_HALF),
        instruction(JUMP_AT_LEAST, 0, 4, first),
        instruction(JUMP_AT_LEAST, 3, 0, end),
        instruction(JUMP_EQUAL, 2, 0, theirs[0]),
        instruction(JUMP_EQUAL, 1, 0, theirs[1]),
        instruction(RETURN, 0, 0, ALLOW),
        // A filter begins with nothing loaded.
        instruction(LOAD_CONSTANT, 0, 0, 0),
    ]
}

/// Puts a call that the agent would answer itself to the program's filters, with arguments of which the kernel makes
/// nothing. `Some`: the filter has an answer of its own.
pub fn judged(number: u32, arguments: [u64; 6]) -> Option<u64> {
    if !FILTERED.load(Relaxed) {
        return None;
    }
    // SAFETY: refused by the kernel, if it gets there.
    let result = unsafe { sys::for_program(number, arguments) };
    (result != EINVAL).then_some(result)
}

/// The same for a call by `int 0x80`, of which filters mostly know no more than that it is one: a question that changes
/// nothing is put to them.
pub fn judged_by_old_rules() -> Option<u64> {
    if !FILTERED.load(Relaxed) {
        return None;
    }
    // SAFETY: no arguments.
    let result = unsafe { sys::for_program_by_old_rules(old_numbers::GETPID, [0; 6]) };
    (result != u64::from(sys::process_id())).then_some(result)
}

/// Filters of a program before this one are in force from the start.
pub fn begin() {
    let mode = sys::seccomp_mode();
    FILTERED.store(mode == FILTER, Relaxed);
}

/// The calling thread may only read, write, end and return from signals from now on.
pub fn restrict() -> u64 {
    STRICT_THREAD.store(u64::from(sys::thread_id()), Relaxed);
    0
}

/// Whether a thread is in strict mode.
pub fn is_strict(tid: u32) -> bool {
    STRICT_THREAD.load(Relaxed) == u64::from(tid)
}
