//! Policies of shared memory, which are the memory's and not a mapping's: whoever maps it has them (`mm/shmem.c`). They
//! stand beside the table of pages that processes have in common ([`numalens_event::exact::Commons`]).
//!
//! A mapping keeps what was said of it by this process, as in Linux. Only where the table has no more room is that what
//! counts.

use super::policy::Policy;
use crate::state::maps::Mapping;
use crate::state::runtime::{Runtime, is_virtual, runtime};
use crate::sys::PAGE;
use core::ops::Range;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use numalens_event::exact::log;

/// Whether it has been reported that there is no more room.
static TOLD: AtomicBool = AtomicBool::new(false);

/// The policy of the memory at the page `page` (by its address) of a mapping.
pub fn of_page(mapping: &Mapping, page: u64) -> Policy {
    let shared = || runtime().session.commons().policy(mapping.file.key, mapping.file.page(page));
    let own = mapping.file.is_memory.then(shared).flatten();
    own.map_or(mapping.policy, Policy::from_shared)
}

/// A mapping with the policy that is in force at one of its pages.
pub fn in_force(mapping: Mapping, page: u64) -> Mapping {
    if !mapping.file.is_memory || !is_virtual() {
        return mapping;
    }
    let policy = of_page(&mapping, page);
    Mapping { policy, bound: policy.binds_to_one(), ..mapping }
}

/// The memory of a range of a mapping, if it has policies of its own, has this one from now on.
pub fn set(runtime: &Runtime, mapping: &Mapping, range: Range<u64>, policy: Policy) {
    if !mapping.file.is_memory {
        return;
    }
    let first = mapping.file.page(range.start / PAGE);
    let pages = first..first + (range.end - range.start) / PAGE;
    let fits = runtime.session.commons().set_policy(mapping.file.key, pages, policy.to_words());
    if !fits && !TOLD.swap(true, Relaxed) {
        let text = b"policies were set for more pieces of shared memory than are kept (65,536 pieces, 1,024 policies): further ones hold in the mapping of the process that set them, other processes do not see them";
        runtime.process().log(log::NOTE, &[], text);
    }
}
