//! A signal has come: who has it, by where the thread was.

use super::Resume;
use super::delivery::deliver_kept;
use super::frame::{R_FLAGS, R_RIP, SigInfo, UserContext};
use super::held::{end_write, hold_back, writes_to_protected};
use super::in_cache;
use super::kept::{keep, step_on};
use super::kernel::die;
use super::numbers::{ALL_BUT_FAULTS, NO_ACCESS, SIGSEGV, SIGTRAP, STEPPED, TRAP_FLAG, is_fault};
use crate::entry;
use crate::pages::in_call;
use crate::say;
use crate::state::own;
use crate::state::runtime::runtime;
use crate::state::thread::Thread;
use numalens_isa::Register;
use numalens_translator::{
    context as fixed, settle_last_page, settle_last_page_end, take_return, take_return_end, take_return_writes,
};

/// A signal as our handler gets it.
pub(super) struct Signal<'a> {
    pub number: u32,
    pub info: &'a mut SigInfo,
    /// The end of a step that the agent has had the thread make, as a signal waits.
    pub stepped: bool,
}

impl Signal<'_> {
    /// How it came.
    pub fn code(&self) -> i32 {
        self.info[1] as i32
    }
}

/// A signal has come, to a thread that stands where `ucontext` says.
pub fn arrived(thread: &mut Thread, info: &mut SigInfo, ucontext: &mut UserContext, number: u32) -> Resume {
    let (rip, code) = (ucontext.registers[R_RIP], info[1] as i32);
    let is_in_agent = runtime().image.contains(&rip);
    if number == SIGSEGV && code == NO_ACCESS && !is_in_agent && writes_to_protected(thread, ucontext, info[2]) {
        return Resume::AsItStands;
    }
    if hold_back(thread, number, info) {
        return Resume::AsItStands;
    }
    let waiting = thread.context.get(own::PENDING) != 0;
    let is_step = number == SIGTRAP && STEPPED.contains(&code);
    if end_write(thread) && !waiting {
        ucontext.registers[R_FLAGS] &= !TRAP_FLAG;
        if is_step {
            return Resume::AsItStands;
        }
    }
    let mut signal = Signal { number, info, stepped: is_step && waiting };
    if rip == take_return_writes as *const () as u64 && !signal.stepped && is_fault(number, code) {
        return_off_unwritable_stack(thread, ucontext);
        return Resume::AsItStands;
    }
    if is_within(rip, settle_last_page, settle_last_page_end) || is_within(rip, take_return, take_return_end) {
        // On the way back to the cache: no register of the program is where it was.
        step_on(thread, &signal, ucontext);
        return Resume::AsItStands;
    }
    if !is_in_agent {
        return in_cache::arrived(thread, &mut signal, ucontext);
    }
    if number == SIGTRAP && rip == entry::deliver_trap as *const () as u64 + 1 {
        // A call that it was about to make is made again.
        in_call::end(thread, None);
        let waits_at = thread.signals.pending.at.take();
        let at = waits_at.unwrap_or_else(|| program_address(thread.context.get(own::DELIVER_AT)));
        return deliver_kept(thread, ucontext, at);
    }
    in_the_agent(thread, &signal, ucontext);
    Resume::AsItStands
}

fn is_within(rip: u64, from: unsafe extern "C" fn(), to: unsafe extern "C" fn()) -> bool {
    (from as *const () as u64..to as *const () as u64).contains(&rip)
}

/// A return off a stack that cannot be written goes by the agent.
fn return_off_unwritable_stack(thread: &Thread, ucontext: &mut UserContext) {
    ucontext.set_register(Register::Rax, thread.context.get(fixed::SETTLE_SAVED));
    ucontext.set_register(Register::Rdx, thread.context.get(fixed::SETTLE_SAVED + 8));
    ucontext.set_register(Register::Rcx, thread.context.register(Register::Rcx));
    ucontext.set_register(Register::Rsp, ucontext.register(Register::Rsp).wrapping_add(8));
    ucontext.registers[R_RIP] = entry::return_miss as *const () as u64;
}

/// The program's instruction that an address in the cache, at a boundary, stands for.
fn program_address(cached: u64) -> u64 {
    let code = runtime().code.lock();
    code.cache.locate(cached).map_or(0, |position| position.ip)
}

fn in_the_agent(thread: &mut Thread, signal: &Signal<'_>, ucontext: &mut UserContext) {
    let rip = ucontext.registers[R_RIP];
    let leaving_count = is_within(rip, entry::count_checked, entry::count_end);
    if signal.stepped {
        // Only the way back from counting goes on stepping; all else notices PENDING on its own.
        if !leaving_count {
            ucontext.registers[R_FLAGS] &= !TRAP_FLAG;
        }
        return;
    }
    if is_fault(signal.number, signal.code()) {
        let (offset, number) = (rip - runtime().image.start, signal.number);
        say!("numalens: a fault in the agent at +{offset:#x}, signal {number}, address {:#x}", signal.info[2]);
        die(number);
    }
    keep(thread, signal.number, *signal.info, ucontext.mask);
    ucontext.mask = ALL_BUT_FAULTS;
    if is_within(rip, entry::resume_checked, entry::resume_end) {
        ucontext.registers[R_RIP] = entry::resume_again as *const () as u64;
    } else if leaving_count {
        ucontext.registers[R_RIP] = entry::count_again as *const () as u64;
    }
}
