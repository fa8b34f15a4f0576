//! When the memory of translations that were evicted can be used again.
//!
//! Programs that make code all their lives (compilers at run time, interpreters of queries) leave translations behind
//! that nobody executes any more. [`super::arenas`] closes segments that are full of them, and the oldest ones when
//! there is too much code: nothing leads into them any more, and no table of a thread names them. But threads may be
//! inside still. Nobody is interrupted to find out; the threads say themselves, whenever they come by the agent, where
//! they go on and in which epoch:
//!
//! ```text
//!   thread 1  --+-------------+------ ...      + goes on at an address that was found just now
//!   thread 2  ---+===============              = in a system call that it makes in the cache
//!                      ^ segment closed, epoch 7
//! ```
//! Thread 1 has gone on since at an address outside of the segment: from there nothing leads into it. Thread 2 has not,
//! but stands in a system call, and it is known where; if that is outside, it is outside for good as well. A segment is
//! left when one of the two holds for each thread. But calls within it may have put where they return to into the table
//! of their thread, so it is unlinked from those once more, and its memory is used again when all threads have left it
//! a second time.
//!
//! A thread that goes round in linked code may not come by for hours. When some segments wait for such threads, all
//! jumps between blocks are unlinked once, and what these threads have in their tables is unlinked: then their next
//! jump brings them by, and links itself again.

use super::Code;
use super::arenas::Epoch;
use crate::entry;
use crate::state::own;
use crate::state::runtime::runtime;
use crate::state::thread_context::ThreadContext;
use numalens_translator::{Unlinked, context as fixed};

/// Times that threads come by between two looks at who is inside.
const EVERY: u32 = 64;
/// Segments that are closed before threads that do not come by are made to.
const WAITING: u32 = 4;

impl Code {
    /// Gives up what is worth it, and empties what all threads have left.
    pub fn reclaim(&mut self) {
        let Code { cache, env, .. } = self;
        while let Some(range) = env.arenas.take_worst() {
            unlink(&cache.close(env, range), &runtime().threads.lock());
        }
        if !env.arenas.has_closed() {
            return;
        }
        self.until_look = self.until_look.checked_sub(1).unwrap_or(EVERY);
        if self.until_look == 0 {
            let threads = runtime().threads.lock();
            let left = |since: Epoch, holds: &dyn Fn(u64) -> bool| {
                threads.iter().all(|&(_, context)| has_left(context, since, holds))
            };
            for range in env.arenas.empty(left, |range| cache.evict(range)) {
                unlink(&cache.close(env, range), &threads);
            }
            if let Some(since) = env.arenas.waits_for_threads(WAITING) {
                cache.unlink(env);
                for &(_, context) in threads.iter().filter(|&&(_, context)| !has_come_by(context, since)) {
                    context
                        .empty_lookup(entry::lookup_miss as *const () as u64, entry::return_miss as *const () as u64);
                }
            }
        }
    }

    /// The thread of `context`, the caller, goes on at this address of the cache, which was found under the same lock.
    pub fn goes_on(&self, context: ThreadContext, address: u64) {
        context.set(fixed::CALLING, 0);
        context.set(own::GOES_ON, address);
        context.set(own::EPOCH, self.env.arenas.epoch().0);
    }
}

/// Takes what led into a closed segment out of the tables of all threads.
fn unlink(unlinked: &[Unlinked], threads: &[(u32, ThreadContext)]) {
    for (_, context) in threads {
        for one in unlinked {
            let miss = if one.is_return { entry::return_miss } else { entry::lookup_miss };
            context.unlink_lookup(one.entry, one.code, miss as *const () as u64);
        }
    }
}

/// Whether a thread is outside of what was closed at `since` and holds what `holds` says.
fn has_left(context: ThreadContext, since: Epoch, holds: &dyn Fn(u64) -> bool) -> bool {
    (has_come_by(context, since) || context.get(fixed::CALLING) != 0) && !holds(context.get(own::GOES_ON))
}

fn has_come_by(context: ThreadContext, since: Epoch) -> bool {
    context.get(own::EPOCH) >= since.0
}
