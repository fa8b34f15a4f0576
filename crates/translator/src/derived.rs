//! Iterations of a loop that are derived from a register.
//!
//! Problem: where a loop streams through memory, the processor is waiting for stores, and the increment of a counter is
//! one more in each iteration: a seventh of the time of `a[i] = b[i] + s * c[i]`.
//!
//! Mechanism: the induction variable of a loop ([`crate::hoisted`], `iv` below) grows by the same in each iteration, a
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

use crate::count::ThreadContext;
use crate::emit::{Code, Memory, RAX, RSP};
use crate::fragment::State;
use crate::translate::Builder;
use crate::{Env, context};

/// Most iterations that their counter does not know of.
pub(crate) const MOST_UNCOUNTED: u64 = 4096;

/// How the iterations of a loop follow from its induction variable: `(variable - grown + bias) >> shift`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DerivedCount {
    /// The induction variable.
    pub(crate) register: u8,
    /// What an iteration adds to it, as a power of two.
    pub(crate) shift: u8,
    /// How much of that the present iteration has added already.
    pub(crate) grown: i64,
    /// Offsets from GS: of the bias, of the execution counter.
    pub(crate) bias: u32,
    pub(crate) executions: u32,
}

impl DerivedCount {
    /// Counts the iterations by the value of the induction variable in `register`, which is lost. Flags are dead.
    pub(crate) fn count(&self, code: &mut Code, register: u8) {
        code.memory(true, &[0x03], register, Memory::context(self.bias)); // add
        if self.shift != 0 {
            code.shift_right(register, self.shift);
        }
        code.store(register, Memory::context(self.executions));
    }

    /// What the induction variable had before this iteration, from what it has behind it.
    fn before_step(&self) -> i32 {
        -(1 << self.shift)
    }
}

impl<E: Env> Builder<'_, E> {
    /// Notes the bias, at the entry of the loop. Flags are dead; `live` are the registers that are needed.
    pub(crate) fn begin_derived(&mut self, derived: DerivedCount, live: u16) {
        let avoid = 1u16 << derived.register | 1 << RSP;
        let order = (0..16u8).filter(|register| avoid >> register & 1 == 0);
        let r1 = order.min_by_key(|register| live >> register & 1).unwrap_or(RAX);
        let borrowed = live & 1 << r1;
        if borrowed != 0 {
            self.hot.store(r1, Memory::context(context::spill(r1)));
            self.scratch.spilled |= borrowed;
            self.map_hot(State::Before);
        }
        self.hot.load(r1, Memory::context(derived.executions));
        self.hot.increment_register(r1);
        if derived.shift != 0 {
            self.hot.registers(true, &[0xc1], 4, r1); // shl
            self.hot.raw(&[derived.shift]);
        }
        self.hot.registers(true, &[0x2b], r1, derived.register); // sub
        self.hot.store(r1, Memory::context(derived.bias));
        if borrowed != 0 {
            self.hot.load(r1, Memory::context(context::spill(r1)));
            self.scratch.spilled &= !borrowed;
            self.map_hot(State::Before);
        }
        // It ends where the loop does.
        self.derived = Some((derived, u32::MAX));
    }

    /// Before instruction `number`: counts the iterations, if that follows the loop. The flags are left alone.
    pub(crate) fn end_derived(&mut self, number: usize, live: u16) {
        let ended = self.plan.induction.as_ref().is_some_and(|induction| induction.back + 1 == number);
        let Some((derived, _)) = self.derived.filter(|_| ended) else { return };
        let r1 = self.scratch.pick(&mut self.hot, live, 1 << derived.register);
        self.map_spilled();
        self.hot.load(r1, Memory::context(derived.bias));
        let induction = Some(derived.register);
        self.hot
            .lea(r1, Memory::Flat { base: Some(r1), index: induction, scale: 1, displacement: derived.before_step() });
        if derived.shift != 0 {
            self.hot.rotate_right(r1, r1, derived.shift);
        }
        self.hot.store(r1, Memory::context(derived.executions));
        self.derived = Some((derived, self.hot.offset()));
        self.map_hot(State::Before);
    }

    /// Counts the iterations in the stub of the jump back. rax is saved, and flags are dead, as they are at the start
    /// of the loop.
    pub(crate) fn end_derived_for_good(&mut self) {
        if let Some((derived, _)) = self.derived {
            self.cold.lea(RAX, Memory::base(derived.register, derived.before_step()));
            derived.count(&mut self.cold, RAX);
        }
    }
}

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
