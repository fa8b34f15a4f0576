//! Waiting for a word of shared memory to change.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Wakes all that wait for the word.
pub fn wake(word: &AtomicU32) {
    // SAFETY: FUTEX_WAKE takes the address of a live 32-bit word and writes nothing.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}

/// Sleeps while the word is `expected`, until it is woken or the time is over; or until then and less.
pub fn sleep_on(word: &AtomicU32, expected: u32, timeout: Duration) {
    let limit = libc::timespec {
        tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(timeout.subsec_nanos()),
    };
    // SAFETY: FUTEX_WAIT reads a live 32-bit word and a timespec that outlives the call. Waking early is allowed.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, expected, &raw const limit) };
}
