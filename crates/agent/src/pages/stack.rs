//! Call stacks of first touches.
//!
//! The collector unwinds; what it needs is copied into the log here: the instruction and stack pointers, the frame pointer and the
//! lower end of the stack. A loop that touches a million pages does so from one call stack, so a stack that looks like one of before
//! is taken to be the same, and not told again:
//!
//! ```text
//!   at once    same site, same stack pointer, same rbp if that points into the stack, same first word
//!   else       same site, same stack pointer, and in the copy the same words that lead into code or into the stack, in the same places:
//!              return addresses, and frame pointers that were saved. What else there is changes from pass to pass: counters, data,
//!              and rbp where it is a register like any other.
//! ```

use crate::area::{Area, own};
use crate::call;
use crate::lock::Lock;
use crate::maps::{Mapping, Maps};
use crate::runtime::runtime;
use crate::shared::ProcessMemory;
use crate::sys;
use alloc::vec;
use core::hash::{BuildHasher, Hash, Hasher};
use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;
use hashbrown::HashMap;
use numalens_event::exact::{Extent, log};
use numalens_translator::{Cache, SiteId, area as fixed};
use rustc_hash::FxBuildHasher;

/// Bytes of a stack that are copied.
const MOST_BYTES: usize = 1024;
/// Stacks remembered before they are forgotten.
const MOST_KNOWN: usize = 1 << 12;
/// Above its pointer, a stack reaches so far at most: what points further is data.
const MOST_STACK: u64 = 8 << 20;
const RBP: u8 = 5;

/// Stacks in the log, by how they look.
static KNOWN: Lock<Known> = Lock::new(Known { of: Extent::NONE, stacks: HashMap::with_hasher(FxBuildHasher) });

struct Known {
    /// The log that they are in: a forked child has its own.
    of: Extent,
    stacks: HashMap<u64, u32, FxBuildHasher>,
}

impl Known {
    /// What a page's record says of a stack in this process's log that looks so.
    fn find(&mut self, memory: &ProcessMemory, look: u64) -> Option<u32> {
        if self.of != memory.extent || self.stacks.len() >= MOST_KNOWN {
            self.of = memory.extent;
            self.stacks.clear();
        }
        self.stacks.get(&look).copied()
    }
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
    let frame = Some(area.get(own::COUNT_FRAME)).filter(|frame| stack_from(sp).contains(frame));
    let key = FxBuildHasher.hash_one((site.0, sp, frame, top));
    if let Some(stack) = KNOWN.lock().find(memory, key) {
        return Some(stack);
    }
    let mut bytes = vec![0u8; MOST_BYTES];
    let length = copy(sp, &mut bytes);
    let (bp, likeness) = {
        let code = runtime().code.lock();
        let bp = frame_pointer(&code.cache, area);
        (bp, likeness(&code.world.maps, site, sp, bp, &bytes[..length]))
    };
    let mut known = KNOWN.lock();
    if let Some(stack) = known.find(memory, likeness) {
        known.stacks.insert(key, stack);
        return Some(stack);
    }
    drop(known);
    let ip = memory.site(site.0).address.load(Relaxed);
    let at = memory.log(log::STACK, &[ip, sp, bp, length as u64], &bytes[..length])?;
    let stack = u32::try_from(at / 8 + 1).ok()?;
    KNOWN.lock().stacks.extend([(key, stack), (likeness, stack)]);
    Some(stack)
}

/// Where frames of a stack can lie.
fn stack_from(sp: u64) -> Range<u64> {
    sp..sp.saturating_add(MOST_STACK)
}

/// What a call stack has in common with itself a pass later, and with hardly another: see above.
fn likeness(maps: &Maps, site: SiteId, sp: u64, bp: u64, bytes: &[u8]) -> u64 {
    let stack = stack_from(sp);
    let leads_back =
        |word: u64| stack.contains(&word) || word >= sys::PAGE && maps.find(word).is_some_and(Mapping::executable);
    let words = bytes.chunks_exact(8).map(|word| word.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte)));
    let mut hasher = FxBuildHasher.build_hasher();
    (site.0, sp).hash(&mut hasher);
    words.chain([bp]).enumerate().filter(|&(_, word)| leads_back(word)).for_each(|found| found.hash(&mut hasher));
    hasher.finish()
}

/// The program's rbp: generated code may have put it aside.
fn frame_pointer(cache: &Cache, area: Area) -> u64 {
    match cache.locate(area.get(fixed::COUNT_RETURN)) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn a_stack_is_like_itself_a_pass_later_and_like_no_other() {
        const CODE: u64 = 0x40_0000;
        const SP: u64 = 0x7fff_0000_1000;
        let mut maps = Maps::default();
        maps.insert(Mapping::anonymous(CODE, CODE + 0x1000, crate::sys::raw::PROT_EXEC));
        maps.insert(Mapping::anonymous(0x50_0000, 0x51_0000, crate::sys::raw::PROT_READ));
        let like = |site: u32, sp: u64, bp: u64, words: [u64; 4]| {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            likeness(&maps, SiteId(site), sp, bp, &bytes)
        };
        let one = like(1, SP, 7, [1, CODE + 0x10, 0x50_0000, SP + 0x40]);
        assert_eq!(one, like(1, SP, 0x50_0008, [2, CODE + 0x10, 0x50_1000, SP + 0x40]), "data and counters");
        let others = [
            like(2, SP, 7, [1, CODE + 0x10, 0x50_0000, SP + 0x40]),
            like(1, SP + 8, 7, [1, CODE + 0x10, 0x50_0000, SP + 0x40]),
            like(1, SP, 7, [1, CODE + 0x20, 0x50_0000, SP + 0x40]),
            like(1, SP, 7, [CODE + 0x10, 1, 0x50_0000, SP + 0x40]),
            like(1, SP, 7, [1, CODE + 0x10, 0x50_0000, SP + 0x48]),
            like(1, SP, SP + 0x20, [1, CODE + 0x10, 0x50_0000, SP + 0x40]),
        ];
        assert!(others.iter().all(|other| *other != one));
    }
}
