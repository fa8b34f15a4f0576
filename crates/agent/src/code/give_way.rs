//! What of the agent's can move makes way where the program wants to map something: the table of pages, and code.
//!
//! Translated code has the place of the table in it ([`numalens_translator::Shadow::At`]), as that costs an instruction
//! less for each access that is looked up. So the table begins where a displacement of 32 bits reaches it, below 2 GiB,
//! and that is where programs that lay out memory themselves want theirs (shadow memory of sanitizers, heaps of
//! emulators at fixed addresses). Then the table goes to where the agent's other memory is, all code is evicted, and
//! what is translated from then on loads the table's place:
//!
//! ```text
//!   mmap(0x4040000000, MAP_FIXED)   the collector is told that there is no table, and waited for if it writes there
//!                                   the entries are copied, the old table is unmapped
//!                                   all translations and arenas are given back
//!                                   the program's call is made
//! ```
//! A thread that is inside of translated code would go on with the old place. So this is done while there is one
//! thread, the one that makes the call; with several, the call is refused ([`crate::syscalls`]). Programs that are
//! known to want the place have the table elsewhere from the beginning
//! ([`crate::static_program::executable::lays_out_memory`]).

use super::{Code, own_ranges};
use crate::entry;
use crate::state::runtime::runtime;
use crate::state::thread::Thread;
use crate::sys;
use core::ops::Range;
use core::sync::atomic::Ordering::{Relaxed, Release};
use numalens_translator::{Shadow, context as fixed};

/// How long the collector may write to the table before the call is refused.
const PATIENCE_NS: u64 = 2_000_000_000;

/// Makes way in a range. Whether nothing of the agent's is there any more.
pub fn give_way(code: &mut Code, thread: &Thread, range: &Range<u64>) -> bool {
    let runtime = runtime();
    if runtime.live.load(Relaxed) > 1 || own_ranges::is_taken_for_good(code, range) {
        return false;
    }
    let table = runtime.shadow.range();
    let moves = table.start < range.end && range.start < table.end;
    if moves && !move_table(thread) {
        return false;
    }
    let shadow = if moves { Shadow::FromContext } else { code.cache.config().shadow };
    let Code { cache, env, .. } = code;
    if moves {
        env.persisted.disable();
    }
    cache.restart(env, shadow);
    thread.context.empty_lookup(entry::lookup_miss as *const () as u64, entry::return_miss as *const () as u64);
    env.arenas.give_up();
    !own_ranges::is_taken(code, range)
}

fn move_table(thread: &Thread) -> bool {
    let runtime = runtime();
    let header = runtime.process().header();
    let since = sys::now_ns();
    let patient = || {
        sys::nap();
        sys::now_ns().saturating_sub(since) < PATIENCE_NS
    };
    let moved = header.withdraw_shadow(patient) && runtime.shadow.move_away();
    header.shadow.store(runtime.shadow.base(), Release);
    thread.context.set(fixed::SHADOW_BASE, runtime.shadow.base() / 8);
    moved
}
