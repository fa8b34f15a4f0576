//! Iterations of a loop that are derived from a register.
//!
//! Problem: where a loop streams through memory, the processor is waiting for stores, and the increment of a counter is
//! one more in each iteration: a seventh of the time of `a[i] = b[i] + s * c[i]`.
//!
//! Mechanism: the induction variable of a loop ([`super::hoisted`], `iv` below) grows by the same in each iteration, a
//! power of two, so how often that was says how many iterations there were. Whoever enters the loop notes a *bias*, and
//! what there is to count is counted when the loop is left, and whenever its page limit is reached:
//!
//! ```text
//!   entry:  bias = ((executions + 1) << shift) - iv
//!   loop:   cmp  iv, gs:[page limit]
//!           jge  look                  executions = (iv + bias) >> shift, this one included
//!           ...
//!           jb   loop
//!           executions = (iv - step + bias) >> shift
//! ```
//! The jump back may be made to leave for good, when the fragment is invalidated: its stub counts as well, and is never
//! left out.
//!
//! A thread that is stopped by a signal within the loop gets its iterations from its registers first
//! ([`crate::Position::derived`]). Whoever reads the counters while it runs finds those of a moment ago,
//! [`MOST_UNCOUNTED`] at most, and so does whoever reads them when it was killed.

use crate::abi::registers::{RAX, RSP};
use crate::emit::{Code, Emitter, Memory};
use crate::ir::mark::State;
use crate::{DerivedCount, context};

/// Most iterations that their counter does not know of.
pub(crate) const MOST_UNCOUNTED: u64 = 4096;

/// Counts the iterations by the value of the induction variable in `register`, which is lost. Flags are dead.
pub(crate) fn count_iterations(code: &mut Code, derived: &DerivedCount, register: u8) {
    code.memory(true, &[0x03], register, Memory::context(derived.bias)); // add
    if derived.shift != 0 {
        code.shift_right(register, derived.shift);
    }
    code.store(register, Memory::context(derived.executions));
}

/// What the induction variable had before this iteration, from what it has behind it.
fn before_step(derived: &DerivedCount) -> i32 {
    -(1 << derived.shift)
}

/// Notes the bias, at the entry of the loop. Flags are dead; `live` are the registers that are needed.
pub(crate) fn note_bias(out: &mut Emitter<'_>, derived: &DerivedCount, live: u16) {
    let avoid = 1u16 << derived.register | 1 << RSP;
    let order = (0..16u8).filter(|register| avoid >> register & 1 == 0);
    let r1 = order.min_by_key(|register| live >> register & 1).unwrap_or(RAX);
    let borrowed = live & 1 << r1;
    if borrowed != 0 {
        out.hot.store(r1, Memory::context(context::spill(r1)));
        out.scratch.spilled |= borrowed;
        out.map_hot(State::Before);
    }
    out.hot.load(r1, Memory::context(derived.executions));
    out.hot.increment_register(r1);
    if derived.shift != 0 {
        out.hot.registers(true, &[0xc1], 4, r1); // shl
        out.hot.raw(&[derived.shift]);
    }
    out.hot.registers(true, &[0x2b], r1, derived.register); // sub
    out.hot.store(r1, Memory::context(derived.bias));
    if borrowed != 0 {
        out.hot.load(r1, Memory::context(context::spill(r1)));
        out.scratch.spilled &= !borrowed;
        out.map_hot(State::Before);
    }
}

/// Counts the iterations behind the loop. The flags are left alone.
pub(crate) fn count_behind_loop(out: &mut Emitter<'_>, derived: &DerivedCount, live: u16) {
    let r1 = out.scratch.pick(&mut out.hot, live, 1 << derived.register);
    out.map_spilled();
    out.hot.load(r1, Memory::context(derived.bias));
    let induction = Some(derived.register);
    out.hot.lea(r1, Memory::Flat { base: Some(r1), index: induction, scale: 1, displacement: before_step(derived) });
    if derived.shift != 0 {
        out.hot.rotate_right(r1, r1, derived.shift);
    }
    out.hot.store(r1, Memory::context(derived.executions));
    out.map_hot(State::Before);
}

/// Counts the iterations in the stub of the jump back. rax is saved, and flags are dead, as they are at the start of
/// the loop.
pub(crate) fn count_at_jump_back(code: &mut Code, derived: &DerivedCount) {
    code.lea(RAX, Memory::base(derived.register, before_step(derived)));
    count_iterations(code, derived, RAX);
}
