//! Call stacks of first touches.
//!
//! The collector unwinds; what it needs is copied into the log here: the instruction and stack pointers, the frame pointer and the
//! lower end of the stack. A loop that touches a million pages does so from one call stack, so a stack that looks like one of before
//! (same site, same pointers, same first word) is taken to be the same, and not copied again.

use crate::area::{Area, own};
use crate::call;
use crate::lock::Lock;
use crate::runtime::runtime;
use crate::shared::ProcessMemory;
use crate::sys;
use alloc::vec;
use core::hash::BuildHasher;
use core::sync::atomic::Ordering::Relaxed;
use hashbrown::HashMap;
use numalens_event::exact::{Extent, log};
use numalens_translator::{SiteId, area as fixed};
use rustc_hash::FxBuildHasher;

/// Bytes of a stack that are copied.
const MOST_BYTES: usize = 1024;
/// Stacks remembered before they are forgotten.
const MOST_KNOWN: usize = 1 << 12;
const RBP: u8 = 5;

/// Stacks in the log, by how they look.
static KNOWN: Lock<Known> = Lock::new(Known { of: Extent::NONE, stacks: HashMap::with_hasher(FxBuildHasher) });

struct Known {
    /// The log that they are in: a forked child has its own.
    of: Extent,
    stacks: HashMap<u64, u32, FxBuildHasher>,
}

/// Nobody else may use the stacks until [`release`]: around a fork.
pub fn hold() {
    KNOWN.hold();
}

/// Ends [`hold`].
///
/// # Safety
/// By the thread that held them, or in its forked child.
pub unsafe fn release() {
    // SAFETY: the caller's promise.
    unsafe { KNOWN.force_free() };
}

/// Notes the call stack of the thread of `area`, which came here to count an access of `site`. Returns what the page's record says
/// of it.
pub fn note(memory: &ProcessMemory, area: Area, site: SiteId) -> Option<u32> {
    let sp = area.get(own::COUNT_STACK);
    let top = crate::user::read_own_stack(sp).ok()?;
    let key = FxBuildHasher.hash_one((site.0, sp, area.get(own::COUNT_FRAME), top));
    {
        let mut known = KNOWN.lock();
        if known.of != memory.extent || known.stacks.len() >= MOST_KNOWN {
            known.of = memory.extent;
            known.stacks.clear();
        }
        if let Some(&stack) = known.stacks.get(&key) {
            return Some(stack);
        }
    }
    let bp = frame_pointer(area);
    let mut bytes = vec![0u8; MOST_BYTES];
    let length = copy(sp, &mut bytes);
    let ip = memory.site(site.0).address.load(Relaxed);
    let at = memory.log(log::STACK, &[ip, sp, bp, length as u64], &bytes[..length])?;
    let stack = u32::try_from(at / 8 + 1).ok()?;
    KNOWN.lock().stacks.insert(key, stack);
    Some(stack)
}

/// The program's rbp: generated code may have put it aside.
fn frame_pointer(area: Area) -> u64 {
    let code = runtime().code.lock();
    match code.cache.locate(area.get(fixed::COUNT_RETURN)) {
        Some(position) if position.spilled >> RBP & 1 != 0 => area.get(fixed::spill(RBP)),
        _ => area.get(own::COUNT_FRAME),
    }
}

/// Copies what is there of the memory from `at` on, up to the end of what is mapped.
pub fn copy(at: u64, into: &mut [u8]) -> usize {
    let local = [into.as_mut_ptr() as u64, into.len() as u64];
    // In two pieces, of which the second may lie beyond the end of the stack.
    let first = (sys::PAGE - at % sys::PAGE).min(into.len() as u64);
    let remote = [at, first, at + first, into.len() as u64 - first];
    let copied =
        // SAFETY: memory of our own to fill; the kernel checks the other.
        unsafe { call!(__NR_process_vm_readv, sys::process_id(), &raw const local, 1, &raw const remote, 2, 0) };
    copied.unwrap_or(0) as usize
}
