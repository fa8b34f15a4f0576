//! Where the program itself wants its threads on a virtual machine.
//!
//! The program does not see that machine: its calls go to the host, and get the host's answers. What they ask for still says where a thread
//! belongs, if it *fits*: CPU n of the call is CPU n of the virtual machine.
//!
//! ```text
//!   all named CPUs that the virtual machine has are on one node    the thread is bound to it
//!   they are on several                                            it is unpinned
//!   at least all CPUs that the command was started with            as --placement has it, like a thread that asks for nothing
//!   none that the virtual machine has, or the call fails           nothing changes
//! ```
//! A call that fails with EINVAL because the host has none of these CPUs fits all the same: programs with fixed CPU numbers mean a larger
//! machine. Threads and forked children inherit, as they do from the kernel; a program that is executed begins anew.

use crate::lock::Lock;
use crate::runtime::runtime;
use crate::shared::Session;
use crate::sys;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use numalens_event::exact::{self, Extent};

/// Where a thread is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish {
    /// Nobody said.
    None,
    /// Where `--placement` puts it.
    Placement,
    /// Bound to no node.
    Unpinned,
    /// On the node of this index.
    Node(u8),
}

/// Wishes for threads that have not begun: their creator may bind them first.
static EARLY: Lock<Vec<(u32, Wish)>> = Lock::new(Vec::new());
/// Threads of other processes are never met.
const MOST_EARLY: usize = 64;

impl Wish {
    /// What a call of sched_setaffinity wants, of which the kernel said `result`.
    pub fn of(result: u64, [_, bytes, mask, ..]: [u64; 6]) -> Wish {
        const EINVAL: u64 = (linux_raw_sys::errno::EINVAL as i64).wrapping_neg() as u64;
        if sys::check(result).is_err() && result != EINVAL {
            return Wish::None;
        }
        let placement = runtime().session.placement();
        let words = (bytes / 8).min((exact::MOST_CPUS / 64) as u64);
        let (mut wish, mut has_all) = (Wish::None, true);
        for (number, first) in placement.first_cpus.iter().enumerate() {
            let at = mask + 8 * number as u64;
            let named = if (number as u64) < words { crate::user::read::<u64>(at).unwrap_or(0) } else { 0 };
            has_all &= first.load(Relaxed) & !named == 0;
            for bit in (0..64).filter(|bit| named >> bit & 1 != 0) {
                let node = placement.node_of_cpu[64 * number + bit].load(Relaxed);
                wish = match wish {
                    _ if node == exact::NO_NODE => wish,
                    Wish::None => Wish::Node(node),
                    Wish::Node(known) if known == node => wish,
                    _ => Wish::Unpinned,
                };
            }
        }
        if has_all && result != EINVAL { Wish::Placement } else { wish }
    }

    /// For a word.
    pub fn pack(self) -> u64 {
        match self {
            Wish::None => 0,
            Wish::Placement => 1,
            Wish::Unpinned => 2,
            Wish::Node(node) => 3 + u64::from(node),
        }
    }

    /// The inverse of [`Wish::pack`].
    pub fn unpack(word: u64) -> Wish {
        match word {
            0 => Wish::None,
            1 => Wish::Placement,
            2 => Wish::Unpinned,
            node => Wish::Node((node - 3) as u8),
        }
    }

    /// The index of the node that the thread of this index gets; negative: none.
    pub fn node(self, session: &Session, index: u32) -> i32 {
        match self {
            Wish::None | Wish::Placement => session.node_of_thread(index),
            Wish::Unpinned => -1,
            Wish::Node(node) => i32::from(node),
        }
    }

    /// A new thread, whose creator has this wish, gets `extent`.
    pub fn inherit(self, session: &Session, extent: Extent) {
        if matches!(self, Wish::Unpinned | Wish::Node(_)) {
            let entry = session.entry(extent);
            entry.node.store(self.node(session, entry.index.load(Relaxed)), Relaxed);
        }
    }
}

/// Keeps a wish for a thread that is not known yet.
pub fn keep(tid: u32, wish: Wish) {
    let mut early = EARLY.lock();
    early.retain(|(known, _)| *known != tid);
    if early.len() < MOST_EARLY {
        early.push((tid, wish));
    }
}

/// The wish that was kept for a thread which begins.
pub fn take(tid: u32) -> Option<Wish> {
    let mut early = EARLY.lock();
    let at = early.iter().position(|(known, _)| *known == tid)?;
    Some(early.swap_remove(at).1)
}

/// Nobody else may use the wishes until [`release`]: around a fork.
pub fn hold() {
    EARLY.hold();
}

/// Ends [`hold`].
///
/// # Safety
/// By the thread that held them, or in its forked child.
pub unsafe fn release() {
    // SAFETY: the caller's promise.
    unsafe { EARLY.force_free() };
}
