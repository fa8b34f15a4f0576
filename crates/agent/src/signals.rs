//! Signals: the program's handlers see what they would see natively, at a boundary between two of its instructions.
//!
//! Problem: a signal interrupts translated code anywhere: between the counting of an access and the access, with
//! program registers in spill slots, or in the agent itself. The handler must get a frame with the program's own
//! registers and instruction pointer, on the stack where the kernel would have put it, and may change it, return from
//! it, or never return.
//!
//! Mechanism: the kernel knows one handler only, ours, on a stack of the agent's
//! ([`crate::thread_context::SIGNAL_STACK`]). It looks at where the thread was:
//!
//! ```text
//!   at a boundary, or before anything was counted     deliver now
//!   between counting and executing                    keep the signal, set the trap flag, step to the next boundary
//!   in a repeated string instruction                  count what is done, then deliver: it restarts with the rest
//!   at a fault of the program's own access            take back what was counted for it, then deliver
//!   in the agent                                      keep the signal, set PENDING; see crate::entry
//! ```
//! *Deliver* copies the kernel's frame, vector state included, to where the program expects it, with the program's
//! registers put in, and changes the kernel's own frame so that returning from our handler begins the program's.
//! Signals are blocked while one is kept, except those that faults raise. rt_sigreturn is a copy of the program's frame
//! again, with the instruction pointer translated, executed by the agent.

mod calls;
mod delivery;
mod frame;
mod held;
mod taken_back;

pub use calls::{action, alternate_stack, mask, pending};
pub use delivery::sigreturn;
use delivery::{deliver, deliver_kept};
use frame::{R_FLAGS, R_RIP, SIGINFO_WORDS, SigInfo, UserContext};
pub use held::block_held;
use held::{HELD, HELD_BITS, end_write, hold_back, writes_to_protected};
use taken_back::{abandon, correct, take_back};

use crate::entry;
use crate::lock::Lock;
use crate::pages::{AccessHandler, in_call};
use crate::runtime::{Code, runtime};
use crate::sys::{self, raw};
use crate::thread::{AlternateStack, Thread};
use crate::thread_context::{SIGNAL_STACK, SIGNAL_STACK_BYTES, ThreadContext, own};
use crate::{call, say};
use alloc::sync::Arc;
use core::sync::atomic::Ordering::Release;
use numalens_translator::count;
use numalens_translator::{
    State, context as fixed, settle_derived, settle_last_page, settle_last_page_end, take_return, take_return_end,
    take_return_writes,
};

/// Signals, from 1.
const SIGNALS: usize = 64;
const SIGTRAP: u32 = raw::SIGTRAP;
const SIGSEGV: u32 = raw::SIGSEGV;
const SIGBUS: u32 = raw::SIGBUS;
const SIGFPE: u32 = raw::SIGFPE;
const SIGILL: u32 = raw::SIGILL;
const SIGSYS: u32 = raw::SIGSYS;
/// Blocked while a signal is kept: all but what faults, steps and kills raise.
const ALL_BUT_FAULTS: u64 = !(bit(SIGTRAP) | bit(SIGSEGV) | bit(SIGBUS) | bit(SIGFPE) | bit(SIGILL) | bit(SIGSYS));
const TRAP_FLAG: u64 = 0x100;
/// Cleared for a handler: direction, trap, resume.
const CLEARED_FLAGS: u64 = 0x400 | TRAP_FLAG | 0x1_0000;
/// `TRAP_TRACE`, a single step; and `TRAP_BRKPT`, as which kernels in virtual machines tell one now and then, whose
/// host has not said in DR6 that it was a step. (Breakpoints are [`SI_KERNEL`].)
const STEPPED: [i32; 2] = [2, 1];
const SI_KERNEL: i32 = 0x80;
/// `SEGV_ACCERR`.
const NO_ACCESS: i32 = 2;
/// `BUS_ADRALN`.
const MISALIGNED: i32 = 1;
/// The code of the SIGSYS of a seccomp filter.
const SYS_SECCOMP: i32 = 1;
const SA_RESTORER: u64 = 0x0400_0000;
const SA_NODEFER: u64 = raw::SA_NODEFER as u64;
const SA_RESETHAND: u64 = raw::SA_RESETHAND as u64;
const SA_ONSTACK: u64 = raw::SA_ONSTACK as u64;
/// What the kernel must know of the program's flags.
const PASSED_ON: u64 = (raw::SA_NOCLDSTOP | raw::SA_NOCLDWAIT | raw::SA_RESTART) as u64;
const OURS: u64 = raw::SA_SIGINFO as u64 | SA_ONSTACK | SA_RESTORER;
const RED_ZONE: u64 = 128;

const fn bit(signal: u32) -> u64 {
    1 << (signal - 1)
}

/// The kernel's `sigaction`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Action {
    /// 0 default, 1 ignore, else the handler.
    pub handler: u64,
    /// `SA_*`.
    pub flags: u64,
    /// Where the handler returns to.
    pub restorer: u64,
    /// Blocked while it runs.
    pub mask: u64,
}

// SAFETY: integers.
unsafe impl crate::user::Plain for Action {}

/// What the program wants done for each signal.
pub struct Actions {
    table: Lock<[Action; SIGNALS + 1]>,
}

impl Actions {
    /// What the program inherited: signals are ignored or not.
    #[expect(clippy::new_without_default, reason = "it asks the kernel")]
    pub fn new() -> Self {
        let mut table = [Action::default(); SIGNALS + 1];
        for (signal, action) in table.iter_mut().enumerate().skip(1) {
            // SAFETY: a structure of our own for the answer.
            let _ = unsafe { call!(__NR_rt_sigaction, signal, 0, &raw mut *action, 8) };
        }
        Actions { table: Lock::new(table) }
    }

    /// A copy, for a process that borrows the memory.
    pub fn copy(&self) -> Self {
        Actions { table: Lock::new(*self.table.lock()) }
    }

    fn get(&self, signal: u32) -> Action {
        self.table.lock().get(signal as usize).copied().unwrap_or_default()
    }
}

/// A signal that waits.
#[derive(Clone, Copy)]
struct Kept {
    signal: u32,
    info: SigInfo,
}

/// Signals of a thread that wait to be delivered.
#[derive(Default)]
pub struct Pending {
    /// Which of [`HELD`] the program has blocked, as bits.
    blocked: u64,
    /// Those of them that wait until the program unblocks them.
    held: [Option<Kept>; HELD.len()],
    /// Sealed pages that the thread is about to write to, in one step.
    writes_to: [Option<u64>; 2],
    kept: [Option<Kept>; 4],
    /// The mask that was in force when the first one came.
    mask: u64,
    /// Where the thread stands in the program, if that does not follow from the cache.
    at: Option<u64>,
}

impl Pending {
    /// What a new task begins with.
    pub fn inherited(&self) -> Self {
        Pending { blocked: self.blocked, ..Pending::default() }
    }

    /// The mask that the program would have, if signals wait and the kernel's is not the program's.
    pub fn mask(&mut self) -> Option<&mut u64> {
        self.kept[0].is_some().then_some(&mut self.mask)
    }
}

/// Prepares the calling thread: its signal stack, and the handlers of single steps and of writes to write-protected
/// pages.
pub fn begin_thread(thread: &mut Thread) {
    set_alternate_stack(thread.context);
    for signal in HELD {
        install(signal, &thread.actions.get(signal));
    }
    let (held, mut was) = (HELD_BITS, 0u64);
    // SAFETY: masks of our own.
    let _ = unsafe { call!(__NR_rt_sigprocmask, raw::SIG_UNBLOCK, &raw const held, &raw mut was, 8) };
    thread.pending.blocked = was & HELD_BITS;
}

fn agents_stack(context: ThreadContext) -> AlternateStack {
    AlternateStack { base: context.0 + SIGNAL_STACK, flags: 0, padding: 0, bytes: SIGNAL_STACK_BYTES }
}

/// Makes the kernel use the agent's signal stack in this thread.
pub fn set_alternate_stack(context: ThreadContext) {
    let stack = agents_stack(context);
    // SAFETY: the stack belongs to this thread's context.
    let _ = unsafe { call!(__NR_sigaltstack, &raw const stack, 0) };
}

/// Tells the kernel what is to be done for a signal: itself, or call us.
fn install(signal: u32, wanted: &Action) -> u64 {
    let kernel = if wanted.handler > 1 || HELD.contains(&signal) {
        let handler = entry::signal_entry as *const () as u64;
        let restorer = entry::signal_return as *const () as u64;
        Action { handler, flags: wanted.flags & PASSED_ON | OURS, restorer, mask: u64::MAX }
    } else {
        *wanted
    };
    // SAFETY: the structure is the kernel's; the handler is ours.
    unsafe { sys::syscall(raw::__NR_rt_sigaction, [u64::from(signal), &raw const kernel as u64, 0, 8, 0, 0]) }
}

/// Blocks all signals of the calling thread and returns the mask that was.
pub fn block_all() -> u64 {
    let (everything, mut was) = (ALL_BUT_FAULTS, 0u64);
    // SAFETY: masks of our own.
    let _ = unsafe { call!(__NR_rt_sigprocmask, raw::SIG_SETMASK, &raw const everything, &raw mut was, 8) };
    was
}

/// Sets the mask of the calling thread, or the one it will have when what waits is delivered.
pub fn set_mask(thread: &mut Thread, mask: u64) {
    if let Some(kept) = thread.pending.mask() {
        *kept = mask;
        return;
    }
    // SAFETY: a mask of our own.
    let _ = unsafe { call!(__NR_rt_sigprocmask, raw::SIG_SETMASK, &raw const mask, 0, 8) };
}

/// The program's instruction at `ip` has accessed `at`, where it must not; of a jump to where no code is, it is the
/// code. Returns where to go on.
pub fn bad_access(thread: &mut Thread, ip: u64, at: u64) -> u64 {
    let was = block_all();
    let mapped = runtime().code.lock().env.maps.find(at).is_some();
    let mut info: SigInfo = [0; SIGINFO_WORDS];
    // No address at all: the processor does not say which.
    let is_canonical = (at as i64) << 16 >> 16 == at as i64;
    let code: u64 = match (is_canonical, mapped) {
        (false, _) => SI_KERNEL as u64,
        (true, true) => 2,
        (true, false) => 1,
    };
    info[0] = u64::from(SIGSEGV);
    info[1] = code;
    info[2] = if is_canonical { at } else { 0 };
    keep(thread, SIGSEGV, info, was);
    thread.pending.at = Some(ip);
    entry::deliver_trap as *const () as u64
}

/// Called while the way out of the agent is closed by a waiting signal: returns where it goes instead of `next`.
///
/// # Safety
/// For the assembly of [`crate::entry`] only: `context` is this thread's, and the thread is in the agent.
pub unsafe extern "C" fn on_pending(context: ThreadContext, next: u64) -> u64 {
    context.set(own::DELIVER_AT, next);
    entry::deliver_trap as *const () as u64
}

fn keep(thread: &mut Thread, signal: u32, info: SigInfo, mask: u64) {
    let kept = Kept { signal, info };
    if thread.pending.kept[0].is_none() {
        thread.pending.mask = mask;
    }
    match thread.pending.kept.iter_mut().find(|place| place.is_none()) {
        Some(place) => *place = Some(kept),
        None => requeue(thread, &kept),
    }
    thread.context.set(own::PENDING, 1);
}

/// Gives a signal back to the kernel: it comes again when the mask lets it.
fn requeue(thread: &Thread, kept: &Kept) {
    let (pid, tid) = (sys::process_id(), thread.tid);
    // SAFETY: a siginfo of our own.
    let _ = unsafe { call!(__NR_rt_tgsigqueueinfo, pid, tid, kept.signal, &raw const kept.info) };
}

/// The handler of all signals.
///
/// # Safety
/// For the assembly of [`crate::entry`] only: `context` is this thread's, and the thread is in the agent.
pub unsafe extern "C" fn on_signal(
    context: ThreadContext,
    info: *mut SigInfo,
    ucontext: *mut UserContext,
    _frame: u64,
    signal: u32,
) {
    // SAFETY: the kernel's frame of this signal on this thread's stack; the thread is stopped in code that holds no
    // reference to its `Thread` across instructions that matter, see below.
    let (thread, info, ucontext) = unsafe { (Thread::of(context), &mut *info, &mut *ucontext) };
    let rip = ucontext.registers[R_RIP];
    let code = info[1] as i32;
    if signal == SIGSEGV
        && code == NO_ACCESS
        && !runtime().image.contains(&rip)
        && writes_to_protected(thread, ucontext, info[2])
    {
        return;
    }
    if hold_back(thread, signal, info) {
        return;
    }
    let waiting = context.get(own::PENDING) != 0;
    if end_write(thread) && !waiting {
        ucontext.registers[R_FLAGS] &= !TRAP_FLAG;
        if signal == SIGTRAP && STEPPED.contains(&code) {
            return;
        }
    }
    let stepped = signal == SIGTRAP && waiting && STEPPED.contains(&code);
    if rip == take_return_writes as *const () as u64 && !stepped && is_fault(signal, code) {
        // A return off a stack that cannot be written.
        for (register, at) in [(0, fixed::SETTLE_SAVED), (2, fixed::SETTLE_SAVED + 8), (1, fixed::register(1))] {
            ucontext.set_register(register, context.get(at));
        }
        ucontext.set_register(4, ucontext.register(4).wrapping_add(8));
        ucontext.registers[R_RIP] = entry::return_miss as *const () as u64;
        return;
    }
    let within = |from: unsafe extern "C" fn(), to: unsafe extern "C" fn()| {
        (from as *const () as u64..to as *const () as u64).contains(&rip)
    };
    if within(settle_last_page, settle_last_page_end) || within(take_return, take_return_end) {
        // On the way back to the cache: no register of the program is where it was.
        step_on(thread, info, ucontext, signal, stepped);
        return;
    }
    if runtime().image.contains(&rip) {
        if signal == SIGTRAP && rip == entry::deliver_trap as *const () as u64 + 1 {
            // A call that it was about to make is made again.
            in_call::end(thread, None);
            let at = thread.pending.at.take().unwrap_or_else(|| program_address(context.get(own::DELIVER_AT)));
            deliver_kept(thread, ucontext, at);
        } else {
            in_the_agent(thread, info, ucontext, signal, stepped);
        }
        return;
    }
    let fault = !stepped && is_fault(signal, code);
    let mut code_space = runtime().code.lock();
    let Code { cache, env, .. } = &mut *code_space;
    // A breakpoint of the program's is reported behind the instruction.
    let breakpoint = signal == SIGTRAP && code == SI_KERNEL && !stepped;
    let Some(position) = cache.locate(if breakpoint { rip - 1 } else { rip }) else {
        let mapped = env.arenas.contain(rip);
        drop(code_space);
        say!("numalens: signal {signal} at {rip:#x}, which is not translated code (in the cache: {mapped})");
        die(signal);
    };
    if signal == SIGBUS && code == MISALIGNED && position.state == State::Before && compares_code(ucontext, position.ip)
    {
        return;
    }
    let go_on = matches!(position.state, State::Counting | State::Counted | State::Leaving);
    if !fault && go_on {
        drop(code_space);
        step_on(thread, info, ucontext, signal, stepped);
        return;
    }
    let mut ip = position.ip + u64::from(breakpoint);
    for number in 0..16 {
        if position.spilled >> number & 1 != 0 {
            ucontext.set_register(number, context.get(fixed::spill(number as u8)));
        }
        if position.saved >> number & 1 != 0 {
            ucontext.set_register(number, context.get(fixed::register(number as u8)));
        }
    }
    if let Some(derived) = position.derived {
        let registers = core::array::from_fn(|number| ucontext.register(number));
        // SAFETY: the context of this thread, which is stopped in the loop.
        unsafe { settle_derived(context.0 as *mut u8, &derived, &registers) };
    }
    let (unmade, unexecuted) = (position.unmade(), position.unexecuted);
    let result = (position.state == State::AfterSyscall).then(|| ucontext.register(0));
    match position.state {
        State::AfterSyscall => ucontext.set_register(1, ip),
        State::Counted | State::Counting if fault && !breakpoint => {
            let sites = position.counted.iter().map(|site| site.0).collect();
            drop(code_space);
            take_back(thread, ucontext, sites);
            code_space = runtime().code.lock();
        }
        State::String => {
            let [rcx, rsi, rdi] = [1, 6, 7].map(|number| ucontext.register(number));
            let mut fs = 0u64;
            const ARCH_GET_FS: u32 = 0x1003;
            // SAFETY: a word for the answer.
            let _ = unsafe { call!(__NR_arch_prctl, ARCH_GET_FS, &raw mut fs) };
            drop(code_space);
            // SAFETY: the context of this thread, stopped in the string instruction that the context describes.
            unsafe {
                count::finish_string(
                    context.0 as *mut u8,
                    &runtime().config,
                    &mut AccessHandler::new(thread, true),
                    rcx,
                    rsi,
                    rdi,
                    fs,
                );
            }
            code_space = runtime().code.lock();
        }
        _ => {}
    }
    drop(code_space);
    in_call::end(thread, result);
    if !breakpoint {
        abandon(thread, ucontext, &unmade);
        correct(thread, &unexecuted);
        runtime().session.entry(thread.extent).taken_back.fetch_add(1, Release);
    }
    if stepped {
        ucontext.registers[R_FLAGS] &= !TRAP_FLAG;
        deliver_kept(thread, ucontext, ip);
        return;
    }
    if signal == SIGSYS && code == SYS_SECCOMP {
        // Behind the call, as the program knows it.
        info[2] = ip;
    }
    if fault && matches!(signal, SIGILL | SIGFPE) || breakpoint {
        info[2] = position_address(info[2], rip, &mut ip, breakpoint);
    }
    let kept = Kept { signal, info: *info };
    let mask = ucontext.mask;
    deliver(thread, ucontext, ip, &kept, mask);
}

/// Keeps a signal until the thread is where it can be delivered, one instruction after the other.
fn step_on(thread: &mut Thread, info: &SigInfo, ucontext: &mut UserContext, signal: u32, stepped: bool) {
    if !stepped {
        keep(thread, signal, *info, ucontext.mask);
    }
    ucontext.registers[R_FLAGS] |= TRAP_FLAG;
    ucontext.mask = ALL_BUT_FAULTS;
}

/// Programs that probe the processor set the flag for alignment checks, and a fragment whose code may change begins by
/// comparing that code, eight bytes at a time from any address. If that is what faulted, does the load in its place.
fn compares_code(ucontext: &mut UserContext, fragment: u64) -> bool {
    const FARTHEST: u64 = 1 << 12;
    const R11: usize = 11;
    let rip = ucontext.registers[R_RIP];
    // SAFETY: an instruction that was just executed, in an arena of ours.
    let code = unsafe { (rip as *const [u8; 8]).read() };
    let (length, bytes) = match code {
        [0x4c, 0x8b, 0x1d, ..] => (7, 8),
        [0x44, 0x8b, 0x1d, ..] => (7, 4),
        [0x44, 0x0f, 0xb7, 0x1d, ..] => (8, 2),
        _ => return false,
    };
    let [.., a, b, c, d] = code[..length] else { return false };
    let at = (rip + length as u64).wrapping_add_signed(i32::from_le_bytes([a, b, c, d]).into());
    if at.wrapping_sub(fragment) >= FARTHEST {
        return false;
    }
    let mut value = [0u8; 8];
    for (number, byte) in value.iter_mut().enumerate().take(bytes) {
        // SAFETY: the fragment's own code, which the instruction was about to read.
        *byte = unsafe { ((at + number as u64) as *const u8).read() };
    }
    ucontext.set_register(R11, u64::from_le_bytes(value));
    ucontext.registers[R_RIP] = rip + length as u64;
    true
}

/// What a siginfo that names the faulting instruction must say.
fn position_address(named: u64, rip: u64, ip: &mut u64, breakpoint: bool) -> u64 {
    if breakpoint || named != rip { named } else { *ip }
}

fn is_fault(signal: u32, code: i32) -> bool {
    code > 0 && matches!(signal, SIGSEGV | SIGBUS | SIGFPE | SIGILL | SIGTRAP)
}

/// The program's instruction that an address in the cache, at a boundary, stands for.
fn program_address(cached: u64) -> u64 {
    let code = runtime().code.lock();
    code.cache.locate(cached).map_or(0, |position| position.ip)
}

fn in_the_agent(thread: &mut Thread, info: &SigInfo, ucontext: &mut UserContext, signal: u32, stepped: bool) {
    let rip = ucontext.registers[R_RIP];
    let within = |from: unsafe extern "C" fn(), to: unsafe extern "C" fn()| {
        (from as *const () as u64..to as *const () as u64).contains(&rip)
    };
    let leaving_count = within(entry::count_checked, entry::count_end);
    if stepped {
        // Only the way back from counting goes on stepping; all else notices PENDING on its own.
        if !leaving_count {
            ucontext.registers[R_FLAGS] &= !TRAP_FLAG;
        }
        return;
    }
    if is_fault(signal, info[1] as i32) {
        let offset = rip - runtime().image.start;
        say!("numalens: a fault in the agent at +{offset:#x}, signal {signal}, address {:#x}", info[2]);
        die(signal);
    }
    keep(thread, signal, *info, ucontext.mask);
    ucontext.mask = ALL_BUT_FAULTS;
    if within(entry::resume_checked, entry::resume_end) {
        ucontext.registers[R_RIP] = entry::resume_again as *const () as u64;
    } else if leaving_count {
        ucontext.registers[R_RIP] = entry::count_again as *const () as u64;
    }
}

/// Ends the process by a signal, as if nobody had handled it.
fn die(signal: u32) -> ! {
    let default = Action::default();
    let unblocked = bit(signal);
    // SAFETY: structures of our own; the process ends here.
    unsafe {
        let _ = call!(__NR_rt_sigaction, signal, &raw const default, 0, 8);
        let _ = call!(__NR_tgkill, sys::process_id(), sys::thread_id(), signal);
        let _ = call!(__NR_rt_sigprocmask, raw::SIG_UNBLOCK, &raw const unblocked, 0, 8);
    }
    sys::exit_group(128 + signal as i32)
}

/// Ends the process by SIGKILL.
pub fn kill_process() -> ! {
    die(raw::SIGKILL)
}

/// Begins a new thread's life with signals: on the thread itself, all blocked until now.
pub fn open(thread: &mut Thread) {
    set_alternate_stack(thread.context);
    let mask = thread.first_mask;
    set_mask(thread, mask);
}

/// What a child of a fork must forget: signals of its parent. The mask stays.
pub fn forget(thread: &mut Thread) {
    thread.pending = thread.pending.inherited();
    thread.context.set(own::PENDING, 0);
}

/// The kernel has taken all handlers from the calling task, as at an exec: so does the program's table, and the agent
/// has its own again.
pub fn clear_handlers(thread: &Thread) {
    for action in thread.actions.table.lock().iter_mut().filter(|action| action.handler > 1) {
        *action = Action::default();
    }
    for signal in HELD {
        install(signal, &thread.actions.get(signal));
    }
}

/// Actions for a task that shares them, or has a copy.
pub fn inherit(actions: &Arc<Actions>, shared: bool) -> Arc<Actions> {
    if shared { actions.clone() } else { Arc::new(actions.copy()) }
}
