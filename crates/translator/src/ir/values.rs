//! Which registers have known distances from each other.
//!
//! Compilers step a pointer early in a loop and then go back from it, and copy the pointer that a function is given to
//! a register that calls preserve:
//!
//! ```text
//!   mov  rbx, rdi              rbx is what rdi is
//!   mov  rax, [rdi + 8]
//!   add  rdi, 16               rdi is what it was, plus 16
//!   mov  rcx, [rbx]            8 bytes below the first access
//!   mov  rdx, [rdi - 16]       the same place
//! ```
//! So a register has a *name*, which stands for a value that is not known, and what is to be added to that. Operands of
//! equal names are at known distances, whatever their registers. A register that is written in any other manner gets a
//! name that nobody has.

use super::decode::Decoded;
use iced_x86::{Instruction, Mnemonic, OpKind, Register};
use numalens_isa::Address;

/// A register becomes what another one is, or the same, and a constant more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// The offset of the instruction that does it in the fragment.
    pub instruction: u32,
    pub register: u8,
    pub from: u8,
    pub by: i64,
}

/// A value that is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name(u32);

/// Of base and index.
pub(crate) type Names = [Option<Name>; 2];

/// What is known of the registers before an instruction.
pub(crate) struct Values {
    of: [(Name, i64); 16],
    names: u32,
}

impl Values {
    /// Nothing.
    pub fn new() -> Self {
        let mut of = [(Name(0), 0); 16];
        (0..).zip(&mut of).for_each(|(number, one)| one.0 = Name(number));
        Values { of, names: 16 }
    }

    /// The names in an address, and what is added to them.
    pub fn of(&self, address: &Address) -> (Names, i64) {
        let value = |register: Option<u8>| register.map(|register| self.of[usize::from(register & 15)]);
        let (base, index) = (value(address.base), value(address.index));
        let scaled = index.map_or(0, |(_, plus)| plus.wrapping_mul(address.scale.into()));
        ([base, index].map(|value| value.map(|(name, _)| name)), base.map_or(0, |(_, plus)| plus).wrapping_add(scaled))
    }

    /// Goes past an instruction, so far from the start of its fragment. Returns what it does to the only register whose
    /// distance stays known, if there is one.
    pub fn step_over(&mut self, one: &Decoded, instruction: u32) -> Option<Step> {
        if one.usage.writes == 0 {
            return None;
        }
        let step = step(&one.instruction).map(|step| Step { instruction, ..step });
        let value = step.map(|step| {
            let (name, plus) = self.of[usize::from(step.from & 15)];
            (usize::from(step.register & 15), (name, plus.wrapping_add(step.by)))
        });
        for register in (0..16).filter(|register| one.usage.writes >> register & 1 != 0) {
            self.of[register] = (Name(self.names), 0);
            self.names += 1;
        }
        if let Some((register, value)) = value {
            self.of[register] = value;
        }
        step
    }
}

/// What an instruction does that makes a register what another one is, or the same, and a constant more.
pub(crate) fn step(instruction: &Instruction) -> Option<Step> {
    let target = instruction.op0_register();
    if instruction.op_count() == 0 || instruction.op0_kind() != OpKind::Register || !target.is_gpr64() {
        return None;
    }
    let constant = || instruction.try_immediate(1).ok().map(|value| value as i64);
    let (from, by) = match instruction.mnemonic() {
        Mnemonic::Add => (target, constant()?),
        Mnemonic::Sub => (target, constant()?.checked_neg()?),
        Mnemonic::Inc => (target, 1),
        Mnemonic::Dec => (target, -1),
        Mnemonic::Mov if instruction.op1_kind() == OpKind::Register => (instruction.op1_register(), 0),
        Mnemonic::Lea if instruction.memory_index() == Register::None => {
            (instruction.memory_base(), instruction.memory_displacement64() as i64)
        }
        _ => return None,
    };
    from.is_gpr64().then(|| Step { instruction: 0, register: target.number() as u8, from: from.number() as u8, by })
}
