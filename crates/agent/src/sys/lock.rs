//! A lock for the few things that the threads of a program share inside the agent.
//!
//! Nobody is ever interrupted by the program's own handlers while it holds the lock: signals that arrive in the agent
//! are put off ([`crate::signals`]). So a lock is held for microseconds, and waiting means sleeping on a futex after a
//! short spin.

use crate::call;
use crate::sys::{FUTEX_WAIT, FUTEX_WAKE};
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, Ordering};

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Held, and someone sleeps.
const WAITED_FOR: u32 = 2;
const SPINS: u32 = 100;
const FUTEX_PRIVATE: u32 = 128;

/// A value that one thread at a time may use.
pub struct Lock<T> {
    word: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the word admits one thread at a time to the value.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    /// A free lock.
    pub const fn new(value: T) -> Self {
        Lock { word: AtomicU32::new(FREE), value: UnsafeCell::new(value) }
    }

    /// Waits for the value.
    pub fn lock(&self) -> Guard<'_, T> {
        for _ in 0..SPINS {
            if self.word.compare_exchange_weak(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return Guard { lock: self };
            }
            core::hint::spin_loop();
        }
        while self.word.swap(WAITED_FOR, Ordering::Acquire) != FREE {
            // SAFETY: the word lives as long as the lock.
            let _ = unsafe { call!(__NR_futex, self.word.as_ptr(), FUTEX_WAIT | FUTEX_PRIVATE, WAITED_FOR, 0, 0, 0) };
        }
        Guard { lock: self }
    }

    /// The value if nobody has it.
    pub fn try_lock(&self) -> Option<Guard<'_, T>> {
        let won = self.word.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok();
        won.then(|| Guard { lock: self })
    }

    /// Takes the lock and never gives it back, except by [`Lock::force_free`]: around a fork, so that the child finds
    /// everything whole.
    pub fn hold(&self) {
        core::mem::forget(self.lock());
    }

    /// The value, for the thread that took the lock by [`Lock::hold`].
    ///
    /// # Safety
    /// The caller holds it so, and has no other reference to the value.
    #[expect(clippy::mut_from_ref, reason = "the lock admits one thread")]
    pub unsafe fn held(&self) -> &mut T {
        // SAFETY: the caller's promise.
        unsafe { &mut *self.value.get() }
    }

    /// Frees a lock taken by [`Lock::hold`].
    ///
    /// # Safety
    /// The caller holds it by `hold`, or is the only thread of a child whose parent did.
    pub unsafe fn force_free(&self) {
        if self.word.swap(FREE, Ordering::Release) == WAITED_FOR {
            self.wake();
        }
    }

    fn wake(&self) {
        // SAFETY: the word lives as long as the lock.
        let _ = unsafe { call!(__NR_futex, self.word.as_ptr(), FUTEX_WAKE | FUTEX_PRIVATE, 1, 0, 0, 0) };
    }
}

/// The right to use the value.
pub struct Guard<'a, T> {
    lock: &'a Lock<T>,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: a guard exists once at a time.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: a guard exists once at a time.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        if self.lock.word.swap(FREE, Ordering::Release) == WAITED_FOR {
            self.lock.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::sync::Arc;

    #[test]
    fn threads_take_turns() {
        let sum = Arc::new(Lock::new(0u64));
        let threads: std::vec::Vec<_> = (0..4)
            .map(|_| {
                let sum = sum.clone();
                std::thread::spawn(move || (0..10_000).for_each(|_| *sum.lock() += 1))
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(*sum.lock(), 40_000);
    }
}
