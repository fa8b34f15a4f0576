//! What is known of a thread's signals, and of the handlers of a process.

use super::frame::SigInfo;
use crate::call;
use crate::sys::lock::Lock;
use crate::sys::raw;
use crate::sys::user::Plain;
use alloc::sync::Arc;

/// Signals, from 1.
pub(super) const SIGNALS: usize = 64;
/// Steps and write protection ([`crate::code::smc`]) need them: the kernel never blocks them.
pub(super) const HELD: [u32; 2] = [raw::SIGTRAP, raw::SIGSEGV];

/// A `stack_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AlternateStack {
    /// Lowest address.
    pub base: u64,
    /// `SS_*`.
    pub flags: i32,
    /// Fills a word.
    pub padding: u32,
    /// Bytes.
    pub bytes: u64,
}

/// `SS_DISABLE`.
pub const DISABLED: i32 = 2;
/// `SS_ONSTACK`.
pub const ON_STACK: i32 = 1;
/// `SS_AUTODISARM`.
pub const DISARM: i32 = 1 << 31;

impl AlternateStack {
    /// None.
    pub const NONE: Self = AlternateStack { base: 0, flags: DISABLED, padding: 0, bytes: 0 };

    /// Whether a stack pointer is on it.
    pub fn holds(&self, stack: u64) -> bool {
        self.flags & DISABLED == 0 && self.flags & DISARM == 0 && stack > self.base && stack - self.base <= self.bytes
    }
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
unsafe impl Plain for Action {}
// SAFETY: integers.
unsafe impl Plain for AlternateStack {}

/// What the program wants done for each signal.
pub struct Actions {
    pub(super) table: Lock<[Action; SIGNALS + 1]>,
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

    /// Nobody changes them until [`Actions::release`].
    pub fn hold(&self) {
        self.table.hold();
    }

    /// Ends [`Actions::hold`].
    ///
    /// # Safety
    /// By the thread that held them, or in its forked child.
    pub unsafe fn release(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.table.force_free() };
    }

    pub(super) fn get(&self, signal: u32) -> Action {
        self.table.lock().get(signal as usize).copied().unwrap_or_default()
    }
}

/// A signal that waits.
#[derive(Clone, Copy)]
pub(super) struct Kept {
    pub(super) signal: u32,
    pub(super) info: SigInfo,
}

/// Signals of a thread that wait to be delivered.
#[derive(Default)]
pub struct Pending {
    /// Which of [`HELD`] the program has blocked, as bits.
    pub(super) blocked: u64,
    /// Those of them that wait until the program unblocks them.
    pub(super) held: [Option<Kept>; HELD.len()],
    /// Write-protected pages that the thread is about to write to, in one step.
    pub(super) writes_to: [Option<u64>; 2],
    pub(super) kept: [Option<Kept>; 4],
    /// The mask that was in force when the first one came.
    pub(super) mask: u64,
    /// Where the thread stands in the program, if that does not follow from the cache.
    pub(super) at: Option<u64>,
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

/// All that is known of a thread's signals.
pub struct ThreadSignals {
    /// What they do: shared by the threads of a process, not by a child that borrows the memory (vfork).
    pub actions: Arc<Actions>,
    /// The program's alternate signal stack, as the program knows it.
    pub alternate: AlternateStack,
    /// Those that wait to be delivered.
    pub pending: Pending,
    /// The mask that a new thread begins with, once its context is in use.
    pub first_mask: u64,
    /// The thread begins without handlers (`CLONE_CLEAR_SIGHAND`).
    pub clears_handlers: bool,
}

impl ThreadSignals {
    /// Those of a thread of which nothing waits.
    pub fn new(actions: Arc<Actions>) -> Self {
        ThreadSignals {
            actions,
            alternate: AlternateStack::NONE,
            pending: Pending::default(),
            first_mask: 0,
            clears_handlers: false,
        }
    }
}
