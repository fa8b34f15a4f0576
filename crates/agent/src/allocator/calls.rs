//! What is known of a thread's calls of the program's own allocator.

use super::choice::Choice;
use super::functions::Function;
use super::regions::Regions;

/// Addresses of [`Calls::watched`].
const RECENT: usize = 32;

/// What is known of a thread's calls.
#[derive(Default)]
pub struct Calls {
    /// The outermost of those under way.
    pub(super) underway: Option<Underway>,
    /// Which blocks are published.
    pub(super) choice: Choice,
    pub(super) regions: Regions,
    /// Some of the addresses that calls return to and that are watched already.
    pub(super) watched: [u64; RECENT],
}

/// A call that has not returned yet.
pub(super) struct Underway {
    /// Where the return address lies, and what it is.
    pub(super) sp: u64,
    pub(super) back: u64,
    pub(super) function: Function,
    pub(super) arguments: [u64; 6],
    pub(super) begun_ns: u64,
    /// Of a block that changes its size: what is known of it.
    pub(super) old: Option<Old>,
}

/// What is known of a block that has been forgotten.
pub(super) struct Old {
    /// When it was forgotten.
    pub(super) time_ns: u64,
    pub(super) bytes: u64,
    pub(super) mapping: u64,
}

impl Calls {
    /// Whether a return to `back` is not known to be watched already; from now on it is.
    pub(super) fn is_new_return(&mut self, back: u64) -> bool {
        let recent = &mut self.watched[(back as usize ^ back as usize >> 6) % RECENT];
        core::mem::replace(recent, back) != back
    }
}
