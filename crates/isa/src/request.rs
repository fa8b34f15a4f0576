//! The instruction by which a program speaks to the exact engine (`include/numalens.h`): one that does nothing at all
//! for the processor, and that no compiler emits.

use iced_x86::{Code, Instruction, Register};

/// The displacement that makes it one: "numa", little endian. Compilers fill gaps with the same instruction and small
/// displacements.
pub const REQUEST: u32 = 0x616d_756e;

/// Whether `instruction` is `nopl REQUEST(%rax,%rax,1)`, in eight bytes.
pub fn is_request(instruction: &Instruction) -> bool {
    instruction.code() == Code::Nop_rm32
        && instruction.len() == 8
        && instruction.memory_base() == Register::RAX
        && instruction.memory_index() == Register::RAX
        && instruction.memory_displacement64() == u64::from(REQUEST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

    #[test]
    fn only_the_one_instruction_is_one() {
        let is = |bytes: &[u8]| is_request(&Decoder::new(64, bytes, DecoderOptions::NONE).decode());
        assert!(is(b"\x0f\x1f\x84\x00numa"));
        // What compilers fill gaps with, another displacement, operand size, base, instruction.
        assert!(!is(b"\x0f\x1f\x84\x00\0\0\0\0"));
        assert!(!is(b"\x0f\x1f\x84\x00numb"));
        assert!(!is(b"\x66\x0f\x1f\x84\x00numa"));
        assert!(!is(b"\x0f\x1f\x84\x03numa"));
        assert!(!is(b"\x48\x8b\x84\x00numa"));
    }
}
