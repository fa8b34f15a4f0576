//! The program's system calls: what the agent must know of, do itself, or keep from the kernel.
//!
//! Most pass: they are executed in the code cache, where an interruption maps to the program's own address. What
//! changes memory is executed here, so that the agent's picture of it changes with it; none of those block. Which call
//! is whose, the [`table`] says.

mod affinity;
pub mod call;
mod control;
mod descriptors;
mod exec;
mod fork;
pub mod kernel_functions;
mod limits;
mod memory;
mod old;
mod old_numbers;
pub mod own_memory;
pub mod seccomp;
pub mod table;
pub mod tasks;
pub mod written;

use crate::code::smc;
use crate::interposer;
use crate::pages::{self, in_call};
use crate::signals;
use crate::state::runtime::{is_virtual, runtime};
use crate::state::thread::Thread;
use crate::sys;
use call::{Call, Gate, Verdict};
use numalens_isa::convention::system_call;
use table::Handler;
use written::Written;

/// Looks at the system call at `ip` before it is executed.
pub fn examine(thread: &mut Thread, ip: u64, next: u64) -> Verdict {
    let number = thread.context.register(system_call::NUMBER) as u32;
    let arguments = call::arguments(thread);
    let row = table::row(number);
    if row.library && interposer::contains(ip) {
        // SAFETY: the library's own call, of those that change nothing of the program's.
        return Verdict::Done(unsafe { sys::syscall(number, arguments) });
    }
    if !row.strict && seccomp::is_strict(thread.tid) {
        signals::kill_process();
    }
    examine_call(thread, &Call { ip, next, number, arguments, gate: Gate::Syscall })
}

/// Looks at the call by `int 0x80` at `ip` before it is executed.
pub fn examine_old(thread: &mut Thread, ip: u64, next: u64) -> Verdict {
    old::examine(thread, ip, next)
}

fn examine_call(thread: &mut Thread, call: &Call) -> Verdict {
    let row = table::row(call.number);
    if !matches!(row.handler, Handler::Memory(change) if change.unprotects()) {
        smc::make_way(&call.arguments, |each| row.writes.each_piece(call.arguments, each));
    }
    if is_virtual()
        && let Some(answer) = row.machine
        && let Some(result) = answer(thread, call)
    {
        return Verdict::Done(result);
    }
    if let Some(arguments) = row.probe
        && let Some(result) = seccomp::judged(call.number, arguments)
    {
        return Verdict::Done(result);
    }
    let verdict = match row.handler {
        Handler::Nobody => None,
        Handler::Function(handle) => handle(thread, call),
        Handler::Memory(change) => Some(Verdict::Done(change_memory(thread, call, change))),
    };
    verdict.unwrap_or_else(|| {
        if let Some(written) = row.writes.of(call.arguments) {
            is_about_to_write(thread, call, written);
        }
        Verdict::Execute
    })
}

/// The kernel writes memory in a call that is executed in the cache.
fn is_about_to_write(thread: &mut Thread, call: &Call, written: Written) {
    match call.gate {
        Gate::Syscall => in_call::begin(thread, call.ip, written),
        // Nobody looks behind it: what it places is nobody's.
        Gate::Old(_) => written.ranges.all().iter().for_each(|range| {
            pages::written_by_kernel(&runtime().shadow, range.start, range.end - range.start);
        }),
    }
}

/// A call that changes the memory map, and may bring pages in.
fn change_memory(thread: &mut Thread, call: &Call, change: &dyn memory::Change) -> u64 {
    let before = table::row(call.number).writes.of(call.arguments);
    in_call::around(thread, call.ip, before, |thread| {
        let heap_end = runtime().code.lock().env.heap_end;
        let result = memory::execute(thread, call, change);
        let brought = sys::check(result).is_ok().then(|| change.brought_in(&call.arguments, result, heap_end));
        (result, brought.flatten())
    })
}
