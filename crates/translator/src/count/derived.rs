//! Iterations that follow from a register ([`DerivedCount`]), counted for a thread that was stopped.

use super::thread_context::ThreadContext;
use crate::DerivedCount;

/// Counts the iterations of a loop in which a thread was stopped with these registers, before anything of the present
/// one is taken back: a [`crate::Position`]'s.
///
/// # Safety
/// As for [`crate::count::settle`], for the thread that was stopped.
pub unsafe fn settle_derived(context: *mut u8, derived: &DerivedCount, registers: &[u64; 16]) {
    let context = ThreadContext::new(context);
    let induction = registers[usize::from(derived.register & 15)].wrapping_add_signed(derived.grown.wrapping_neg());
    let executions = induction.wrapping_add(context.load(derived.bias)) >> derived.shift;
    context.set(derived.executions.into(), executions);
}
