//! Exec: the next program is entered by a helper process, before its first instruction.
//!
//! ```text
//!   thread                    go-between              helper                        program
//!     | clone ------------------> | clone -------------> |
//!     | wait for it <------------ x                      | seize the thread
//!     | wait for READY <-------------------------------- |
//!     | execve . . . . . . . . . . . . . . . . . . . . . | wait for the exec event . . . |
//!                                                        | map the agent into it ------> | goes on in the agent
//!                                                        x
//! ```
//! The helper shares the memory and is nobody's child that the program could wait for, unless that is a subreaper.
//! Where the thread is a vfork's, that memory lives on after the exec, and what the helper stands on has to be given
//! back: the kernel clears a word when it is gone ([`Desk`]). A thread that is not the first of its process gets that
//! one's id in the exec, and the helper waits for any that it watches. Whoever ends the thread before the exec is not
//! waited for: the helper has the files of the process open.

use super::call::{Call, ENOMEM, Verdict};
use crate::inject::{self, Plan};
use crate::pages::reconcile_all;
use crate::program::{self, Prospect};
use crate::state::own;
use crate::state::runtime::{Runtime, runtime};
use crate::state::thread::Thread;
use crate::static_program::{self, environment::Passed};
use crate::sys::lock::Lock;
use crate::sys::{self, Errno, PAGE, raw};
use crate::{call, entry, placement, signals};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicI32, AtomicU32};
use numalens_event::exact::{self, end, log};

const STARTING: i32 = 0;
const READY: i32 = 1;
const HELPER_STACK: u64 = 16 * PAGE;
/// How long the collector may write to the table of pages before an exec does not wait for it any more.
const PATIENCE_NS: u64 = 1_000_000_000;
/// Naps after which a helper looks whether the thread is still there that started it.
const LOOK_AFTER: u32 = 64;

/// What the helper process of an exec is told, and tells.
struct Errand {
    /// The thread that calls exec, and its process.
    tid: i32,
    process: u32,
    plan: Plan,
    /// See [`Desk`].
    stack: u64,
    in_use: u64,
    /// [`STARTING`], [`READY`], or a negative error number.
    state: AtomicI32,
    helper: AtomicU32,
    /// 1: the helper has been named as the one that may watch.
    may_watch: AtomicU32,
}

/// What an exec's helper stands on, until it is gone.
struct Desk {
    /// Two stacks: the helper's below, the go-between's above.
    stack: u64,
    /// The kernel clears it when the helper is gone.
    in_use: AtomicU32,
    /// What the program to be executed is given.
    passed: Option<Passed>,
}

/// All there are: as many as execs ever were under way at once.
#[expect(clippy::vec_box, reason = "one in use stays where it is while others are added")]
static DESKS: Lock<Vec<Box<Desk>>> = Lock::new(Vec::new());

impl Desk {
    /// One that nobody stands on; it stays valid while it is in use.
    fn take() -> Result<&'static mut Desk, Errno> {
        let mut desks = DESKS.lock();
        let free = desks.iter().position(|desk| desk.in_use.load(Acquire) == 0);
        let at = match free {
            Some(at) => at,
            None => {
                let stack = sys::map_private(2 * HELPER_STACK, raw::PROT_READ | raw::PROT_WRITE)?;
                desks.push(Box::new(Desk { stack, in_use: AtomicU32::new(0), passed: None }));
                desks.len() - 1
            }
        };
        let desk = &raw mut *desks[at];
        // SAFETY: boxed, and given up by `forget` alone, in a process that has no helpers; nobody else takes it while
        // it is in use.
        let desk = unsafe { &mut *desk };
        desk.in_use.store(1, Relaxed);
        Ok(desk)
    }
}

/// Nobody else may change the list of them until [`release`]: around a fork.
pub fn hold() {
    DESKS.hold();
}

/// Ends [`hold`].
///
/// # Safety
/// By the thread that held them, or in its forked child.
pub unsafe fn release() {
    // SAFETY: the caller's promise.
    unsafe { DESKS.force_free() };
}

/// In the child of a fork, in whose memory there are no helpers.
pub fn forget() {
    for desk in DESKS.lock().drain(..) {
        sys::unmap(desk.stack, 2 * HELPER_STACK);
    }
}

/// The program's execve.
pub fn execve(thread: &mut Thread, call: &Call) -> Option<Verdict> {
    let file = File { folder: raw::AT_FDCWD, path: call.arguments[0], flags: 0 };
    execute(thread, call, &file, 2)
}

/// The program's execveat.
pub fn execveat(thread: &mut Thread, call: &Call) -> Option<Verdict> {
    let [folder, path, _, _, flags, _] = call.arguments;
    execute(thread, call, &File { folder: folder as i32, path, flags: flags as u32 }, 3)
}

/// The file that is to be executed, as the program names it.
struct File {
    folder: i32,
    path: u64,
    flags: u32,
}

/// Executes a file; the variables for it are the argument at `variables`. None: nobody will see it, and the call is
/// made in the cache.
fn execute(thread: &mut Thread, call: &Call, file: &File, variables: usize) -> Option<Verdict> {
    let runtime = runtime();
    if thread.context.get(own::PENDING) != 0 {
        return Some(Verdict::Resume(call.ip));
    }
    if !will_be_seen(thread, file) {
        return None;
    }
    let Ok(desk) = Desk::take() else {
        return Some(Verdict::Done(ENOMEM));
    };
    let mut arguments = call.arguments;
    let variables = &mut arguments[variables];
    desk.passed = static_program::get().and_then(|program| program.environment.pass(*variables));
    if let Some(passed) = &desk.passed {
        *variables = passed.array();
    }
    let errand = Errand {
        tid: sys::thread_id() as i32,
        process: sys::process_id(),
        plan: plan(runtime, thread),
        stack: desk.stack,
        in_use: desk.in_use.as_ptr() as u64,
        state: AtomicI32::new(STARTING),
        helper: AtomicU32::new(0),
        may_watch: AtomicU32::new(0),
    };
    if let Err(Errno(error)) = send_helper(&errand) {
        if error == linux_raw_sys::errno::EPERM as i32 {
            unobserved(thread, format_args!("the kernel lets nobody watch it, as after a change of its user"));
        } else {
            unobserved(thread, format_args!("it cannot be entered (error {error})"));
        }
        if errand.helper.load(Acquire) == 0 {
            desk.in_use.store(0, Release);
        }
        return None;
    }
    leave(runtime, thread);
    // SAFETY: the program's own call; it returns only when it failed.
    let result = unsafe { Call { arguments, ..*call }.make() };
    come_back(runtime, thread);
    // SAFETY: a process of ours that waits for us; it never returns to its stack.
    let _ = unsafe { call!(__NR_kill, errand.helper.load(Relaxed), raw::SIGKILL) };
    Some(Verdict::Done(result))
}

/// Whether the agent will be in the program that a file is.
fn will_be_seen(thread: &Thread, file: &File) -> bool {
    let runtime = runtime();
    let header = runtime.session.header();
    // What the command itself executes goes on being the command.
    if header.follow.load(Relaxed) == 0 && sys::process_id() != header.command_pid.load(Relaxed) {
        if thread.borrows {
            runtime.process().log(log::LEFT_OUT, &[u64::from(thread.tid)], &[]);
        }
        super::limits::hand_over(runtime);
        return false;
    }
    // SAFETY: the program's own pointer; the kernel checks it.
    match unsafe { program::prospect(file.folder, file.path as *const u8, file.flags) } {
        Prospect::Observable => true,
        Prospect::NoProgram => false,
        Prospect::Unobservable(obstacle) => {
            unobserved(thread, format_args!("{obstacle}"));
            false
        }
    }
}

/// How the next program is entered.
fn plan(runtime: &Runtime, thread: &Thread) -> Plan {
    let header = runtime.session.header();
    Plan {
        descriptor: runtime.session.descriptor,
        image_offset: exact::IMAGE_OFFSET,
        image_bytes: header.image_bytes.load(Relaxed),
        image_entry: header.image_entry.load(Relaxed),
        vdso_syscall: header.vdso.syscall.load(Relaxed).checked_sub(1),
        parent: runtime.process().extent.0,
        caller: thread.first.0,
        or_kill: false,
    }
}

/// The program is about to be replaced: says so to the collector.
fn leave(runtime: &Runtime, thread: &mut Thread) {
    let memory = runtime.process();
    if !thread.borrows {
        reconcile_all(thread);
    }
    let (process, own_thread) = (runtime.session.entry(memory.extent), runtime.session.entry(thread.first));
    let now = sys::now_ns();
    // The collector takes a thread's end for one only while the process has not called exec.
    if !thread.borrows {
        process.end_ns.store(now, Relaxed);
        process.end.store(end::EXEC, Release);
    }
    placement::end_seats(&runtime.session, thread, end::EXEC);
    own_thread.end.store(end::EXEC, Relaxed);
    own_thread.end_ns.store(now, Release);
    // What is executed inherits the mask.
    signals::block_held(thread, true);
    if !thread.borrows {
        // The collector knows this process by its id, which the program that follows will have.
        let since = sys::now_ns();
        memory.header().withdraw_shadow(|| {
            sys::nap();
            sys::now_ns().saturating_sub(since) < PATIENCE_NS
        });
    }
}

/// The exec has failed: takes [`leave`] back.
fn come_back(runtime: &Runtime, thread: &mut Thread) {
    let memory = runtime.process();
    let (process, own_thread) = (runtime.session.entry(memory.extent), runtime.session.entry(thread.first));
    signals::block_held(thread, false);
    if !thread.borrows {
        memory.header().shadow.store(runtime.shadow.base(), Release);
    }
    placement::end_seats(&runtime.session, thread, end::NONE);
    own_thread.end_ns.store(0, Release);
    own_thread.end.store(end::NONE, Relaxed);
    if !thread.borrows {
        process.end_ns.store(0, Relaxed);
        process.end.store(end::NONE, Release);
    }
}

/// Says that what this process is about to execute will not be seen.
fn unobserved(thread: &Thread, why: core::fmt::Arguments<'_>) {
    note_unobserved(if thread.borrows { thread.tid } else { sys::process_id() }, why);
    // From here on the kernel has to enforce what the agent did.
    super::limits::hand_over(runtime());
}

fn note_unobserved(pid: u32, why: core::fmt::Arguments<'_>) {
    let mut line = sys::Line::new();
    let _ = core::fmt::Write::write_fmt(&mut line, why);
    runtime().session.header().unobserved.fetch_add(1, Relaxed);
    runtime().process().log(log::UNOBSERVED, &[u64::from(pid)], line.text());
}

/// Starts the helper: a process that shares our memory, and no child of ours. (A subreaper above us sees it as its
/// own.)
fn send_helper(errand: &Errand) -> Result<(), Errno> {
    let at = &raw const *errand as u64;
    let flags = u64::from(raw::CLONE_VM);
    let mask = signals::block_all();
    // SAFETY: its stack is the upper half; it lives on until it has started the helper, then ends.
    let between = unsafe { entry::spawn_helper(flags, errand.stack + 2 * HELPER_STACK, go_between, at, 0) };
    let result = sys::check(between).and_then(|pid| {
        let mut status = 0u32;
        // SAFETY: a word for the status; the child is ours and has no exit signal.
        unsafe { call!(__NR_wait4, pid, &raw mut status, raw::__WALL, 0) }?;
        // Where Yama is on guard, only who is named may watch. Elsewhere the call is refused, and not needed.
        let helper = errand.helper.load(Acquire);
        // SAFETY: a number.
        let _ = unsafe { call!(__NR_prctl, linux_raw_sys::prctl::PR_SET_PTRACER, helper) };
        errand.may_watch.store(1, Release);
        while errand.state.load(Acquire) == STARTING {
            sys::nap();
        }
        match errand.state.load(Acquire) {
            READY => Ok(()),
            error => Err(Errno(-error)),
        }
    });
    // SAFETY: a mask of our own.
    let _ = unsafe { call!(__NR_rt_sigprocmask, raw::SIG_SETMASK, &raw const mask, 0, 8) };
    result
}

unsafe extern "C" fn go_between(errand: u64) -> ! {
    // SAFETY: our parent waits for the helper, and the errand is on its stack.
    let errand = unsafe { &*(errand as *const Errand) };
    let flags = u64::from(raw::CLONE_VM | raw::CLONE_CHILD_CLEARTID);
    let at = &raw const *errand as u64;
    // SAFETY: the helper's stack is the lower half; the word lives as long.
    let helper = unsafe { entry::spawn_helper(flags, errand.stack + HELPER_STACK, helper, at, errand.in_use) };
    match sys::check(helper) {
        Ok(pid) => {
            errand.helper.store(pid as u32, Release);
        }
        Err(Errno(error)) => errand.state.store(-error, Release),
    }
    sys::exit(0)
}

unsafe extern "C" fn helper(errand: u64) -> ! {
    // SAFETY: valid until the exec, which waits for `state`.
    let errand = unsafe { &*(errand as *const Errand) };
    let (tid, process, plan) = (errand.tid, errand.process, errand.plan);
    let mut naps = 0u32;
    while errand.may_watch.load(Acquire) == 0 {
        sys::nap();
        naps += 1;
        // Another thread's exec or exit, or a signal, has ended it meanwhile. We hold what it had open.
        if naps.is_multiple_of(LOOK_AFTER) && !sys::is_alive(process, tid) {
            sys::exit(1)
        }
    }
    // The helper of an exec that failed just now may not be quite gone.
    const PATIENCE: u32 = 1000;
    let mut seized = inject::seize(tid);
    for _ in 0..PATIENCE {
        if seized.is_ok() {
            break;
        }
        sys::nap();
        seized = inject::seize(tid);
    }
    if let Err(Errno(error)) = seized {
        errand.state.store(-error, Release);
        sys::exit(1)
    }
    errand.state.store(READY, Release);
    match inject::enter_at_exec(tid, tid as u32 == process, &plan) {
        Ok(()) | Err(inject::InjectError::Ended(_)) => {}
        Err(error) => note_unobserved(tid as u32, format_args!("{error}")),
    }
    sys::exit(0)
}
