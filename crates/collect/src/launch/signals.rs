//! Signals to the collector while a target runs.
//!
//! Ctrl-C on a terminal reaches the whole process group: the target gets its own, so the collector only takes note.
//! A signal that somebody sends to the collector alone (`kill`) is meant for the run, and is passed on.

use super::child::Child;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// What the kernel sends where a limit of the shell is passed: on the size of files, on processor time.
const OF_LIMITS: [i32; 2] = [libc::SIGXFSZ, libc::SIGXCPU];

/// One bit for each of them that the user has programs ignore.
static LIMITS_IGNORED: AtomicU32 = AtomicU32::new(0);

/// A limit (`ulimit -f`, `ulimit -t`) is an error to report, not a reason to die and leave the target alone.
/// Call before anything is written; the target gets its own back by [`keep_limits_for_exec`].
pub fn survive_limits() {
    for signal in OF_LIMITS {
        if action(signal) == libc::SIG_IGN {
            LIMITS_IGNORED.fetch_or(1 << signal, Ordering::Relaxed);
        }
        // SAFETY: ignores a valid signal.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// In a child before its exec: what the user had. Async-signal-safe.
pub fn keep_limits_for_exec() {
    let ignored = LIMITS_IGNORED.load(Ordering::Relaxed);
    for signal in OF_LIMITS {
        if ignored >> signal & 1 == 0 {
            // SAFETY: sets a default action of a valid signal.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
    }
}

const SIGNALS: [i32; 4] = [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP];

/// One bit for each signal that came from a process.
static TO_PASS_ON: AtomicU32 = AtomicU32::new(0);
static STOP: AtomicBool = AtomicBool::new(false);

extern "C" fn note(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    STOP.store(true, Ordering::Relaxed);
    // SAFETY: with SA_SIGINFO the kernel passes a valid siginfo_t.
    let from_terminal = unsafe { (*info).si_code } > 0;
    if !from_terminal {
        TO_PASS_ON.fetch_or(1 << signal, Ordering::Relaxed);
    }
}

/// Installs the handlers. Call after the target has been forked, so that it keeps the user's. What the user has us
/// ignore (`nohup`) stays ignored.
pub fn catch() {
    let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) = note;
    for signal in SIGNALS.into_iter().filter(|&signal| action(signal) != libc::SIG_IGN) {
        // SAFETY: a zeroed sigaction is a valid one; the handler only touches atomics, so it is async-signal-safe.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }
    // A handler that does nothing still ends the wait for the program: its end is noticed at once.
    let handler: extern "C" fn(i32) = nothing;
    // SAFETY: a zeroed sigaction is a valid one; the handler does nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGCHLD, &action, std::ptr::null_mut());
    }
}

extern "C" fn nothing(_: i32) {}

/// Gives the signals their usual effect again: once the target has ended they are meant for numalens.
pub fn release() {
    for signal in SIGNALS.into_iter().filter(|&signal| action(signal) != libc::SIG_IGN) {
        // SAFETY: sets a default action of a valid signal.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

fn action(signal: i32) -> libc::sighandler_t {
    // SAFETY: a zeroed sigaction is a valid one; without a new action the call only fills in the present one.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut action);
        action.sa_sigaction
    }
}

/// Sends the child what was sent to the collector alone.
pub fn pass_on(child: &Child) {
    let pending = TO_PASS_ON.swap(0, Ordering::Relaxed);
    SIGNALS.into_iter().filter(|&signal| pending >> signal & 1 != 0).for_each(|signal| child.signal(signal));
}

/// Nobody has asked for anything: what was sent until now was the child's.
pub fn forget() {
    TO_PASS_ON.store(0, Ordering::Relaxed);
    STOP.store(false, Ordering::Relaxed);
}

/// Whether the user asked for an end (of a recording without a child, or after its end).
pub fn wanted_to_stop() -> bool {
    STOP.load(Ordering::Relaxed)
}
