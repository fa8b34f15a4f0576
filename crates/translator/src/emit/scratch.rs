//! Registers for counting code: which ones it may use, and where the program's values are meanwhile.
//!
//! A register that is dead is free. Else one is *spilled*: stored in its slot in the context when it is first needed,
//! and loaded again only before the program's next use of it, so that several instructions share one store and one
//! load.

use super::code::{Code, Memory};
use crate::abi::registers::RSP;
use crate::context;
use alloc::vec::Vec;

/// Registers in order of preference: those that functions need not keep first, and rbp last. Where a function is about
/// to return it is dead, and still what call stacks are unwound by.
const PREFERENCE: [u8; 15] = [11, 10, 9, 8, 7, 6, 2, 1, 0, 3, 12, 13, 14, 15, 5];

#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// Registers whose value stands in their slot.
    pub spilled: u16,
    /// Registers that each instruction of the fragment uses in any way.
    pub uses: Vec<u16>,
    /// The instruction that counting code is made for.
    pub current: usize,
}

impl Scratch {
    /// A register outside `avoid` that may be overwritten; `live`: registers whose value is still needed.
    pub fn pick(&mut self, code: &mut Code, live: u16, avoid: u16) -> u8 {
        let avoid = avoid | 1 << RSP;
        let free = (self.spilled | !live) & !avoid;
        if let Some(&register) = PREFERENCE.iter().find(|&&register| free >> register & 1 == 1) {
            return register;
        }
        let next_use = |register: u8| {
            self.uses[self.current.min(self.uses.len())..].iter().position(|uses| uses >> register & 1 == 1)
        };
        let mut best = (0, PREFERENCE[0]);
        for &register in PREFERENCE.iter().filter(|&&register| avoid >> register & 1 == 0) {
            let distance = next_use(register).unwrap_or(usize::MAX - 1) + 1;
            if distance > best.0 {
                best = (distance, register);
            }
        }
        self.spill(code, best.1);
        best.1
    }

    /// Makes one certain register free.
    pub fn take(&mut self, code: &mut Code, register: u8, live: u16) {
        if (self.spilled | !live) >> register & 1 == 0 {
            self.spill(code, register);
        }
    }

    fn spill(&mut self, code: &mut Code, register: u8) {
        code.store(register, Memory::context(context::spill(register)));
        self.spilled |= 1 << register;
    }

    /// Loads those of `registers` that are spilled.
    #[inline]
    pub fn restore(&mut self, code: &mut Code, registers: u16) {
        if self.spilled & registers != 0 {
            self.load(code, self.spilled & registers);
        }
    }

    /// All of `registers`, which are spilled.
    #[inline(never)]
    fn load(&mut self, code: &mut Code, registers: u16) {
        let mut left = registers;
        while left != 0 {
            let register = left.trailing_zeros() as u8;
            code.load(register, Memory::context(context::spill(register)));
            left &= left - 1;
        }
        self.spilled &= !registers;
    }
}
