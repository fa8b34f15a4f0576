//! Calls that change the memory map: executed here, under the lock, so that maps, translations and pages change with
//! them. Each is a [`Change`]; the [`super::table`] says of which call.

pub mod advice;
pub mod area;
mod file;
pub mod heap;
pub mod lock;
pub mod policy;
pub mod remap;
pub mod segment;

use super::call::{Call, ENOMEM, LEAST_CODE, Verdict};
use super::limits;
use super::own_memory::{self, Claim, Judgement};
use super::written::Written;
use crate::code::Code;
use crate::machine::published_policies;
use crate::pages;
use crate::state::maps::Maps;
use crate::state::runtime::{Runtime, runtime};
use crate::state::thread::Thread;
use crate::sys::{self, PAGE};
use core::ops::Range;
use numalens_event::exact::log;

/// How a call changes the memory map. Arguments are those of `syscall`.
pub trait Change: Sync {
    /// What it would do to memory of the agent's, if some of it is where the call leads.
    fn claim(&self, code: &Code, arguments: &[u64; 6]) -> Claim;

    /// Whether it takes write protection off by itself, and nobody has to before.
    fn unprotects(&self) -> bool {
        false
    }

    /// What becomes of code in the range that it names.
    fn code(&self, _arguments: &[u64; 6]) -> CodeFate {
        CodeFate::Stays
    }

    /// By how many bytes the program grows.
    fn growth(&self, _code: &Code, _arguments: &[u64; 6]) -> u64 {
        0
    }

    /// The kernel's word where the program may not grow any more.
    fn at_the_limit(&self, _code: &Code) -> u64 {
        ENOMEM
    }

    /// The arguments with which it is made.
    fn made_with(&self, _code: &Code, arguments: [u64; 6]) -> [u64; 6] {
        arguments
    }

    /// The pages whose homes it may end or change: asked for while they are there.
    fn affects(&self, code: &Code, arguments: &[u64; 6], range: &Range<u64>) -> Affected;

    /// The thread is about to make it.
    fn begins(&self, _thread: &Thread) {}

    /// Follows what it did.
    fn follow(&self, done: &mut Done<'_>);

    /// What it has brought in; `heap_end`: where the heap ended before.
    fn brought_in(&self, _arguments: &[u64; 6], _result: u64, _heap_end: u64) -> Option<Written> {
        None
    }
}

/// What becomes of code in the range of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum CodeFate {
    /// It stays.
    Stays,
    /// It stays, but may be written to by the call.
    IsWritten,
    /// It goes or changes.
    Goes,
}

/// Pages whose homes a call may end or change.
pub enum Affected {
    /// None.
    Nothing,
    /// These go, maybe before anybody has accessed them.
    Goes(Range<u64>),
    /// These stay.
    Stays(Range<u64>),
}

/// A call that was made.
pub struct Done<'a> {
    runtime: &'a Runtime,
    code: &'a mut Code,
    arguments: [u64; 6],
    /// What its first two arguments name, in whole pages.
    range: Range<u64>,
    result: u64,
}

impl Done<'_> {
    fn maps(&mut self) -> &mut Maps {
        &mut self.code.env.maps
    }

    /// A range is unmapped.
    fn remove(&mut self, range: Range<u64>) {
        gone(self.runtime, range.clone());
        self.maps().remove(range);
    }
}

/// Executes the call and follows what it did. Returns the kernel's word.
pub fn execute(thread: &Thread, call: &Call, change: &dyn Change) -> u64 {
    let runtime = runtime();
    let mut code = runtime.code.lock();
    let claim = change.claim(&code, &call.arguments);
    match own_memory::judge(&mut code, thread, claim) {
        Judgement::Pass => execute_one(thread, &mut code, call, change),
        Judgement::Refuse(error) => error,
        Judgement::Pieces(pieces, done) => {
            for piece in pieces {
                let mut call = *call;
                (call.arguments[0], call.arguments[1]) = (piece.start, piece.end - piece.start);
                let result = execute_one(thread, &mut code, &call, change);
                // A hole in it says no more than the one that stays.
                if sys::check(result).is_err() && result != ENOMEM {
                    return result;
                }
            }
            done
        }
    }
}

fn execute_one(thread: &Thread, code: &mut Code, call: &Call, change: &dyn Change) -> u64 {
    let runtime = runtime();
    let [address, bytes, ..] = call.arguments;
    let range = address..address.saturating_add(bytes).next_multiple_of(PAGE).max(address);
    // What is about to go or change must not be entered any more: before the call, for code that goes.
    let fate = change.code(&call.arguments);
    if fate != CodeFate::Stays {
        code.unprotect(&range);
    }
    if fate == CodeFate::Goes {
        drop_code(code, range.clone());
    }
    let growth = change.growth(code, &call.arguments);
    if growth > 0 && limits::exceeded(runtime, || code.env.maps.bytes(), growth) {
        return change.at_the_limit(code);
    }
    let arguments = change.made_with(code, call.arguments);
    // What goes or moves is asked for while it is there.
    let (memory, maps) = (runtime.process(), &code.env.maps);
    match change.affects(code, &arguments, &range) {
        Affected::Goes(pages) => pages::reconcile(&runtime.shadow, memory, thread, maps, pages),
        Affected::Stays(pages) => pages::find_homes(&runtime.shadow, memory, pages),
        Affected::Nothing => {}
    }
    change.begins(thread);
    // SAFETY: the program's own call with the program's own arguments.
    let result = unsafe { Call { arguments, ..*call }.make_by_its_gate() };
    if sys::check(result).is_ok() {
        change.follow(&mut Done { runtime, code, arguments, range, result });
        published_policies::publish(runtime, &code.env.maps);
        code.env.forget_pages();
    }
    result
}

/// The program writes by a system call to where it may have code: in `/proc/self/mem` addresses are offsets.
pub fn written_at(address: u64, bytes: u64) {
    let mut code = runtime().code.lock();
    let range = address..address.saturating_add(bytes);
    code.unprotect(&range);
    drop_code(&mut code, range);
}

/// The program's pwrite64.
pub fn by_pwrite(_: &mut Thread, call: &Call) -> Option<Verdict> {
    let [_, _, bytes, at, ..] = call.arguments;
    if at >= LEAST_CODE {
        written_at(at, bytes);
    }
    None
}

fn drop_code(code: &mut Code, range: Range<u64>) {
    if code.env.maps.any_executable(range.clone()) {
        let Code { cache, env, .. } = code;
        cache.invalidate(env, range);
    }
}

fn gone(runtime: &Runtime, range: Range<u64>) {
    if range.is_empty() {
        return;
    }
    let memory = runtime.process();
    pages::clear(&runtime.shadow, memory, range.clone());
    // After the ends of its pages.
    memory.log(log::UNMAPPED, &[range.start, range.end, memory.next_site()], &[]);
}
