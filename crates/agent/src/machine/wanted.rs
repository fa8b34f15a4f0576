//! Where a page goes, as the program has asked for.

use super::policy::{Policy, mode};
use crate::state::runtime::runtime;
use crate::state::thread::Thread;
use crate::sys;
use core::sync::atomic::Ordering::Relaxed;

/// The index of the node that takes the page `number` when `thread` places it in memory with the policy `within`; none
/// where nobody has said anything, so that it goes where `--policy` has it. `by_address`: where pages go round, the
/// address says whose turn it is, as in all memory of the process alone; in memory that processes share, it is the
/// node's after the one that took the thread's last page.
pub fn wanted_home(thread: &Thread, within: &Policy, number: u64, by_address: bool) -> Option<u16> {
    let own = &thread.place.policy;
    if within.mode == mode::DEFAULT && own.mode == mode::DEFAULT {
        return None;
    }
    let placement = runtime().session.placement();
    let used = placement.nodes.load(Relaxed);
    let toucher = thread.place.current_node(sys::cpu).clamp(0, used as i32) as usize;
    match within.mode {
        mode::DEFAULT if by_address => own.home_within(placement, toucher, number),
        mode::DEFAULT => own.home(placement, toucher, &thread.place.last),
        _ => within.home_within(placement, toucher, number),
    }
}
