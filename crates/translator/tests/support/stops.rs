//! Stops code under test after every instruction, or at a fault, and notes what a signal handler could see.

use super::{Machine, Registers, switch};
use libc::{REG_EFL, REG_RIP};
use numalens_translator::{Position, context};
use std::sync::Once;

/// What a handler sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    pub rip: u64,
    pub general: [u64; 16],
    /// `context::SPILL` and `context::REGISTERS`.
    pub spill: [u64; 16],
    pub saved: [u64; 16],
}

/// The order of the encoding, in terms of `mcontext`.
const ORDER: [i32; 16] = [
    libc::REG_RAX,
    libc::REG_RCX,
    libc::REG_RDX,
    libc::REG_RBX,
    libc::REG_RSP,
    libc::REG_RBP,
    libc::REG_RSI,
    libc::REG_RDI,
    libc::REG_R8,
    libc::REG_R9,
    libc::REG_R10,
    libc::REG_R11,
    libc::REG_R12,
    libc::REG_R13,
    libc::REG_R14,
    libc::REG_R15,
];

/// Stops that a trace can hold: a handler cannot grow it.
pub const CAPACITY: usize = 1 << 16;

fn machine() -> &'static mut Machine {
    let context: *mut u8;
    // SAFETY: the handlers run only while code under test does, with GS at the context.
    unsafe { std::arch::asm!("mov {}, gs:[0]", out(reg) context, options(nostack, readonly)) };
    super::machine_of(context)
}

/// What a handler does at a stop, besides noting it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// The run ends there.
    Finish,
    /// What was translated is given up.
    GiveUp,
}

/// Returns what is to be done.
fn note(ucontext: &libc::ucontext_t) -> Option<Act> {
    let machine = machine();
    let registers = &ucontext.uc_mcontext.gregs;
    let slots = |offset: u32| std::array::from_fn(|number| machine.context.get(offset as usize + 8 * number));
    let stop = Stop {
        rip: registers[REG_RIP as usize] as u64,
        general: ORDER.map(|register| registers[register as usize] as u64),
        spill: slots(context::SPILL),
        saved: slots(context::REGISTERS),
    };
    let within = |start: u64, size: usize| (start..start + size as u64).contains(&stop.rip);
    let arena = &machine.env.arena;
    if within(machine.program.address(), super::PROGRAM) || within(arena.address(), super::ARENA) {
        assert!(machine.trace.len() < CAPACITY, "the trace is full");
        machine.trace.push(stop);
        let (number, act) = machine.at_stop?;
        return (machine.trace.len() == number).then_some(act);
    }
    None
}

fn finish(ucontext: &mut libc::ucontext_t) {
    ucontext.uc_mcontext.gregs[REG_RIP as usize] = switch::finish as *const () as i64;
    ucontext.uc_mcontext.gregs[REG_EFL as usize] = 2;
}

extern "C" fn on_step(_: i32, _: *mut libc::siginfo_t, ucontext: *mut libc::c_void) {
    // SAFETY: the kernel's third argument under SA_SIGINFO.
    let ucontext: &mut libc::ucontext_t = unsafe { &mut *ucontext.cast() };
    match note(ucontext) {
        Some(Act::Finish) => finish(ucontext),
        Some(Act::GiveUp) => machine().give_up_translations(),
        None => {}
    }
}

extern "C" fn on_fault(_: i32, _: *mut libc::siginfo_t, ucontext: *mut libc::c_void) {
    // SAFETY: the kernel's third argument under SA_SIGINFO.
    let ucontext: &mut libc::ucontext_t = unsafe { &mut *ucontext.cast() };
    note(ucontext);
    finish(ucontext);
}

/// Installs the handlers, and a stack for them in this thread, as rsp may be anything.
pub fn prepare() {
    static HANDLERS: Once = Once::new();
    const STACK: usize = 1 << 16;
    let stack = Box::leak(vec![0u8; STACK].into_boxed_slice());
    let stack = libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: STACK };
    // SAFETY: the stack is never freed.
    assert_eq!(unsafe { libc::sigaltstack(&stack, std::ptr::null_mut()) }, 0);
    HANDLERS.call_once(|| {
        let handlers =
            [(libc::SIGTRAP, on_step as *const () as usize), (libc::SIGSEGV, on_fault as *const () as usize)];
        for (signal, handler) in handlers {
            // SAFETY: a zeroed action is valid; the handlers touch only memory that is mapped and the machine that
            // runs.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = handler;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
                assert_eq!(libc::sigaction(signal, &action, std::ptr::null_mut()), 0);
            }
        }
    });
}

/// Set in the flags: trap after each instruction.
pub const TRAP_FLAG: u64 = 0x100;

/// The program's registers at a stop from which they can be had.
pub fn restored(stop: &Stop, position: &Position) -> [u64; 16] {
    std::array::from_fn(|register| match 1u16 << register {
        bit if position.spilled & bit != 0 => stop.spill[register],
        bit if position.saved & bit != 0 => stop.saved[register],
        _ => stop.general[register],
    })
}

/// Runs translated code into a fault, behind which the thread does not go on.
pub fn run_to_its_fault(machine: &mut Machine, start: &Registers) {
    machine.trace.reserve(CAPACITY);
    machine.run_translated(start);
    let stop = machine.trace.pop().expect("a fault");
    let position = machine.cache.locate(stop.rip).expect("it is in the cache");
    let at = restored(&stop, &position);
    machine.give_up_at(stop.rip, &at);
}
