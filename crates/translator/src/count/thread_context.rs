//! Access to the context of a thread, which is in the owner's hands.

use crate::context;

/// Access to a thread context.
#[derive(Clone, Copy)]
pub(crate) struct ThreadContext(*mut u8);

impl ThreadContext {
    pub fn new(context: *mut u8) -> Self {
        ThreadContext(context)
    }

    pub fn load(self, offset: u32) -> u64 {
        // SAFETY: the callers of this module promise a thread context with its tables; all offsets are below its end
        // and multiples of 8.
        unsafe { self.0.add(offset as usize).cast::<u64>().read() }
    }

    pub fn argument(self, number: u32) -> u64 {
        self.load(context::COUNT_ARGUMENTS + 8 * number)
    }

    /// A part of a table, which may lie below the context.
    pub fn at<T>(self, offset: i64) -> *mut T {
        // SAFETY: as for `load`; offsets are multiples of the size.
        unsafe { self.0.offset(offset as isize).cast() }
    }

    pub fn add(self, offset: u64, count: u64) {
        // SAFETY: as for `load`.
        let before = unsafe { self.at::<u64>(offset as i64).read_volatile() };
        self.set(offset, before.wrapping_add(count));
    }

    pub fn set(self, offset: u64, count: u64) {
        // SAFETY: as for `load`; only the thread itself writes its counters. A reader in another process or thread sees
        // either value, since the store is one aligned instruction.
        unsafe { self.at::<u64>(offset as i64).write_volatile(count) };
    }
}
