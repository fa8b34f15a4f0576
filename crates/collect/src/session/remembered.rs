//! Call stacks that were unwound before.
//!
//! Unwinding starts from three registers, and reads words of the stack that lead it on; where all of these are as they
//! were, it ends as it did. So a stack is remembered with what it followed from ([`Basis`]), and found again by
//! comparing that: nothing is taken for another because it looks alike.

use crate::unwind::{Basis, frame_pointer};
use numalens_profile::ids::StackId;
use rustc_hash::FxHashMap;

/// Where a thread was when it was sampled.
pub struct Caller<'a> {
    pub ip: u64,
    pub sp: u64,
    pub bp: u64,
    /// All general registers, in the order of the encoding, where they are known.
    pub registers: Option<&'a [u64; 16]>,
}

/// Remembered words, before they are forgotten.
const MOST_WORDS: usize = 1 << 20;
/// Stacks of one place that are compared with.
const MOST_ALIKE: usize = 16;

/// Stacks of a process, as long as no code comes or goes.
#[derive(Default)]
pub struct RememberedStacks {
    /// By instruction, stack and frame pointer; what was found last stands first.
    by_place: FxHashMap<(u64, u64, Option<u64>), Vec<Remembered>>,
    words: usize,
}

struct Remembered {
    basis: Basis,
    /// All general registers, where they were known.
    registers: Option<Box<[u64; 16]>>,
    /// The kernel's chain, where it completed the stack.
    chain: Option<Box<[u64]>>,
    stack: Option<StackId>,
}

/// Where unwinding starts.
fn place(caller: &Caller<'_>, bytes: &[u8]) -> (u64, u64, Option<u64>) {
    (caller.ip, caller.sp, frame_pointer(caller.sp, bytes, caller.bp))
}

impl RememberedStacks {
    /// What is known no longer holds.
    pub fn clear(&mut self) {
        self.by_place.clear();
        self.words = 0;
    }

    /// The stack of `caller`, of which `bytes` were copied and the kernel has found `chain`, if it was unwound before.
    pub fn find(&mut self, caller: &Caller<'_>, bytes: &[u8], chain: &[u64]) -> Option<Option<StackId>> {
        let alike = self.by_place.get_mut(&place(caller, bytes))?;
        let at = alike.iter().position(|known| {
            let same_registers = known.registers.as_deref() == caller.registers;
            known.basis.holds(caller.sp, bytes, same_registers)
                && known.registers.is_some() == caller.registers.is_some()
                && known.chain.as_deref().is_none_or(|known| known == chain)
        })?;
        alike.swap(0, at);
        Some(alike[0].stack)
    }

    /// Remembers the stack of `caller`, which followed from `basis`, and from the kernel's chain if that `completed`
    /// it.
    pub fn insert(
        &mut self,
        caller: &Caller<'_>,
        bytes: &[u8],
        basis: Basis,
        completed: Option<&[u64]>,
        stack: Option<StackId>,
    ) {
        if self.words >= MOST_WORDS {
            self.clear();
        }
        self.words += basis.words() + completed.map_or(0, <[u64]>::len) + 16;
        let registers = caller.registers.copied().map(Box::new);
        let alike = self.by_place.entry(place(caller, bytes)).or_default();
        if alike.len() >= MOST_ALIKE {
            alike.pop();
        }
        alike.insert(0, Remembered { basis, registers, chain: completed.map(Into::into), stack });
    }
}
