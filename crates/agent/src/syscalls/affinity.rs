//! Where a thread may run and where its pages go, on a real machine.

use super::call::{Call, Verdict};
use crate::placement;
use crate::state::thread::Thread;
use crate::sys::{self, raw};

/// The program's sched_setaffinity and set_mempolicy.
pub fn bind(thread: &mut Thread, call: &Call) -> Option<Verdict> {
    // SAFETY: the program's own call with the program's own arguments; it does not block.
    let result = unsafe { call.make() };
    let target = if call.number == raw::__NR_sched_setaffinity { call.arguments[0] as u32 } else { 0 };
    if sys::check(result).is_err() {
        return Some(Verdict::Done(result));
    }
    if target == 0 || target == thread.tid {
        placement::changed(thread);
    } else {
        placement::notify(target);
    }
    Some(Verdict::Done(result))
}
