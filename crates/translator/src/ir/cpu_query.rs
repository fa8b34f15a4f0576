//! Instructions by which a program asks which CPU it is on and what CPUs there are, where the processor is not the
//! host's.
//!
//! `rdpid` and `rdtscp` are not among them: they are asked often, and a word of the thread's context answers them in
//! place.

use crate::Config;
use iced_x86::{Instruction, Mnemonic, OpKind};
use numalens_isa::Register;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuQuery {
    /// `cpuid`: the leaf in eax, its part in ecx.
    Cpuid,
    /// `lsl`: the limit of the segment of a selector. Linux keeps CPU and node in one.
    Limit {
        /// The register that the limit goes to, if there is such a segment.
        to: Register,
        /// The bytes of it that change: 2, or all 8.
        bytes: u8,
        /// The register with the selector.
        selector: Register,
    },
}

impl CpuQuery {
    /// What an instruction asks. A selector in memory is left to the host: nobody has CPU and node in mind then.
    pub(crate) fn of(config: &Config, instruction: &Instruction) -> Option<Self> {
        if !config.own_processor {
            return None;
        }
        let is_register = |operand| instruction.op_kind(operand) == OpKind::Register;
        match instruction.mnemonic() {
            Mnemonic::Cpuid => Some(CpuQuery::Cpuid),
            Mnemonic::Lsl if is_register(0) && is_register(1) => Some(CpuQuery::Limit {
                to: Register::of_number(instruction.op0_register().number() as u8),
                bytes: if instruction.op0_register().size() == 2 { 2 } else { 8 },
                selector: Register::of_number(instruction.op1_register().number() as u8),
            }),
            _ => None,
        }
    }
}
