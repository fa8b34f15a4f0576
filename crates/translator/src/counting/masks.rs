//! Masks of vector instructions, and how many elements they are for.

use super::strategy::AccessAt;
use crate::emit::{Code, Emitter, address};
use iced_x86::{Instruction, Mnemonic, OpKind, Register};
use numalens_isa::Access;

/// Loads the address of the operand and its mask into two registers, others than those of `avoid`.
pub(crate) fn address_and_mask(out: &mut Emitter<'_>, of: &AccessAt<'_>, avoid: u16) -> [u8; 2] {
    let &AccessAt { instruction, access, live, .. } = of;
    let avoid = avoid | access.address.registers(access.shape);
    let r1 = out.scratch.pick(&mut out.hot, live.registers, avoid);
    let r2 = out.scratch.pick(&mut out.hot, live.registers, avoid | 1 << r1);
    out.map_spilled();
    put_address_and_mask(&mut out.hot, instruction, access, [r1, r2]);
    [r1, r2]
}

/// The address of an operand into `r1`, its mask into `r2`.
pub(crate) fn put_address_and_mask(code: &mut Code, instruction: &Instruction, access: &Access, [r1, r2]: [u8; 2]) {
    address(code, r1, r2, &access.address, access.shape);
    if instruction.has_op_mask() {
        let k = instruction.op_mask().number() as u8;
        // kmovq r2, k
        code.raw(&[0xc4, u8::from(r2 < 8) << 7 | 0x61, 0xfb, 0x93, 0xc0 | (r2 & 7) << 3 | k]);
    } else {
        let mask = mask_register(instruction);
        vector_mask(code, r2, mask, instruction);
    }
}

pub(crate) fn is_byte_mask(instruction: &Instruction) -> bool {
    matches!(instruction.mnemonic(), Mnemonic::Maskmovq | Mnemonic::Maskmovdqu | Mnemonic::Vmaskmovdqu)
}

/// The vector register whose elements' sign bits are the mask of an instruction without an opmask.
fn mask_register(instruction: &Instruction) -> Register {
    if is_byte_mask(instruction) {
        // The first operand is the memory at rdi.
        return instruction.op2_register();
    }
    if instruction.is_vsib() { instruction.op2_register() } else { instruction.op1_register() }
}

/// Sign bits of the elements of a vector register into a general register.
fn vector_mask(code: &mut Code, to: u8, mask: Register, instruction: &Instruction) {
    let number = mask.number() as u8;
    let wide = mask.is_ymm();
    let legacy = matches!(instruction.mnemonic(), Mnemonic::Maskmovq | Mnemonic::Maskmovdqu);
    if legacy {
        // pmovmskb r32, xmm or mm
        if mask.is_xmm() {
            code.raw(&[0x66]);
        }
        code.registers(false, &[0x0f, 0xd7], to, number);
        return;
    }
    let (opcode, prefix) = if is_byte_mask(instruction) {
        (0xd7, 1)
    } else if instruction.memory_size().element_size() == 8 {
        (0x50, 1)
    } else {
        (0x50, 0)
    };
    // vpmovmskb, vmovmskpd, vmovmskps r32, ymm
    let second = u8::from(to < 8) << 7 | 0x40 | u8::from(number < 8) << 5 | 1;
    code.raw(&[0xc4, second, 0x78 | u8::from(wide) << 2 | prefix, opcode, 0xc0 | (to & 7) << 3 | number & 7]);
}

/// Elements that the mask of an instruction has a bit for.
pub(crate) fn lanes(instruction: &Instruction) -> u8 {
    let memory = instruction.memory_size();
    let element = memory.element_size().max(1);
    let vector = |operand: u32| {
        (instruction.op_kind(operand) == OpKind::Register && instruction.op_register(operand).is_vector_register())
            .then(|| instruction.op_register(operand).size())
    };
    let lanes = if is_byte_mask(instruction) {
        instruction.op1_register().size()
    } else if instruction.is_vsib() {
        let data = vector(0).or_else(|| vector(1)).unwrap_or(64);
        let index_size = if instruction.is_vsib64() { 8 } else { 4 };
        (data / element).min(instruction.memory_index().size() / index_size)
    } else if one_place(instruction) {
        vector(0).or_else(|| vector(1)).unwrap_or(64) / element
    } else {
        memory.size() / element
    };
    lanes.clamp(1, 64) as u8
}

/// Where any lane being active means one access at the address: a broadcast reads its one element for every lane, and
/// compressed elements lie together.
pub(crate) fn one_place(instruction: &Instruction) -> bool {
    use Mnemonic as M;
    instruction.is_broadcast()
        || matches!(
            instruction.mnemonic(),
            M::Vcompresspd
                | M::Vcompressps
                | M::Vpcompressb
                | M::Vpcompressw
                | M::Vpcompressd
                | M::Vpcompressq
                | M::Vexpandpd
                | M::Vexpandps
                | M::Vpexpandb
                | M::Vpexpandw
                | M::Vpexpandd
                | M::Vpexpandq
                | M::Vbroadcastss
                | M::Vbroadcastsd
                | M::Vbroadcastf32x2
                | M::Vbroadcastf32x4
                | M::Vbroadcastf32x8
                | M::Vbroadcastf64x2
                | M::Vbroadcastf64x4
                | M::Vbroadcasti32x2
                | M::Vbroadcasti32x4
                | M::Vbroadcasti32x8
                | M::Vbroadcasti64x2
                | M::Vbroadcasti64x4
                | M::Vpbroadcastb
                | M::Vpbroadcastw
                | M::Vpbroadcastd
                | M::Vpbroadcastq
        )
}
