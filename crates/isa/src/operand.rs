//! Memory operands: from an instruction to the address, given registers.

use crate::access::has_stride;
use crate::register::{RBP, RDI, RSI, RSP};
use crate::step::State;
use crate::{Kind, Registers};
use iced_x86::{Instruction, InstructionInfo, OpAccess, OpKind, Register};

/// A segment whose base is not zero in 64-bit mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Segment {
    Flat,
    Fs,
    Gs,
}

/// One memory operand: `segment + base + index * scale + displacement`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operand {
    pub base: Option<u8>,
    pub index: Option<u8>,
    pub scale: u8,
    /// Holds the whole address of a RIP-relative operand.
    pub displacement: u64,
    pub segment: Segment,
    /// The address is computed modulo 2^32.
    pub narrow: bool,
    pub size: u32,
    pub kind: Kind,
    /// An operand of a string instruction: its base register moves by `size`.
    pub string: bool,
    /// Relative to rsp, or to a proven frame pointer.
    pub stack: bool,
}

impl Operand {
    /// The address, or `None` when a register that it needs is unknown.
    pub fn address(&self, state: &State, registers: &Registers) -> Option<u64> {
        let mut address = self.displacement;
        if let Some(base) = self.base {
            address = address.wrapping_add(state.get(base)?);
        }
        if let Some(index) = self.index {
            address = address.wrapping_add(state.get(index)?.wrapping_mul(u64::from(self.scale)));
        }
        if self.narrow {
            address &= 0xffff_ffff;
        }
        Some(address.wrapping_add(self.segment_base(registers)?))
    }

    fn segment_base(&self, registers: &Registers) -> Option<u64> {
        match self.segment {
            Segment::Flat => Some(0),
            Segment::Fs => registers.fs_base,
            Segment::Gs => registers.gs_base,
        }
    }
}

/// The accesses of one instruction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Operands {
    /// At most two operands of an instruction are in memory; the read of a string copy comes first.
    pub list: [Option<Operand>; 2],
    /// The addresses stand in a vector register: an access that cannot be resolved.
    pub vector: bool,
}

impl Operands {
    /// The instruction accesses memory other than by pushing and popping.
    pub fn any(&self) -> bool {
        self.vector || self.list[0].is_some()
    }

    /// The accesses of `instruction`; `frame_pointer` when rbp is known to be one.
    pub fn of(instruction: &Instruction, info: &InstructionInfo, frame_pointer: bool) -> Self {
        let mut operands = Operands::default();
        for number in 0..instruction.op_count() {
            let Some(kind) = kind_of(info.op_access(number)) else { continue };
            let size = instruction.memory_size().size() as u32;
            let string = |base| Operand {
                base: Some(base),
                index: None,
                scale: 1,
                displacement: 0,
                // The destination of a string instruction is in ES, which is flat, whatever the prefix.
                segment: if base == RDI { Segment::Flat } else { segment_of(instruction) },
                narrow: false,
                size,
                kind,
                string: true,
                stack: false,
            };
            let operand = match instruction.op_kind(number) {
                OpKind::Memory if instruction.is_vsib() => {
                    operands.vector = true;
                    continue;
                }
                OpKind::Memory => match explicit(instruction, size, kind, frame_pointer) {
                    Some(operand) => operand,
                    None => continue,
                },
                OpKind::MemorySegRSI => string(RSI),
                OpKind::MemoryESRDI => string(RDI),
                OpKind::MemorySegESI => Operand { narrow: true, ..string(RSI) },
                OpKind::MemoryESEDI => Operand { narrow: true, ..string(RDI) },
                // maskmovq: no string instruction, the register stays.
                OpKind::MemorySegRDI => Operand { string: false, segment: segment_of(instruction), ..string(RDI) },
                _ => continue,
            };
            if operands.list[0].is_none() {
                operands.list[0] = Some(operand);
            } else if operand.kind == Kind::Read {
                operands.list = [Some(operand), operands.list[0]];
            } else {
                operands.list[1] = Some(operand);
            }
        }
        operands
    }
}

/// What an access does; `None` when there is none (`lea`, prefetches).
pub(crate) fn kind_of(access: OpAccess) -> Option<Kind> {
    match access {
        OpAccess::Read | OpAccess::CondRead => Some(Kind::Read),
        OpAccess::Write | OpAccess::CondWrite => Some(Kind::Write),
        OpAccess::ReadWrite | OpAccess::ReadCondWrite => Some(Kind::ReadWrite),
        OpAccess::None | OpAccess::NoMemAccess => None,
    }
}

/// The number of a general register in the order of the encoding.
pub(crate) fn number(register: Register) -> Option<u8> {
    register.is_gpr().then(|| register.full_register().number() as u8)
}

fn segment_of(instruction: &Instruction) -> Segment {
    match instruction.memory_segment() {
        Register::FS => Segment::Fs,
        Register::GS => Segment::Gs,
        _ => Segment::Flat,
    }
}

/// The explicit memory operand; `None` for forms that are not modelled (`xlat`, whose index is a byte register).
fn explicit(instruction: &Instruction, size: u32, kind: Kind, frame_pointer: bool) -> Option<Operand> {
    let mut narrow = false;
    let mut part = |register: Register| match register {
        Register::None | Register::RIP => Some(None),
        Register::EIP => {
            narrow = true;
            Some(None)
        }
        _ if register.is_gpr64() => Some(number(register)),
        _ if register.is_gpr32() => {
            narrow = true;
            Some(number(register))
        }
        _ => None,
    };
    let base = part(instruction.memory_base())?;
    // Of a tile, its first row.
    let index = if has_stride(instruction.mnemonic()) { None } else { part(instruction.memory_index())? };
    let stack = base == Some(RSP) || (frame_pointer && base == Some(RBP));
    Some(Operand {
        base,
        index,
        scale: instruction.memory_index_scale() as u8,
        displacement: instruction.memory_displacement64(),
        segment: segment_of(instruction),
        narrow,
        size,
        kind,
        string: false,
        stack,
    })
}
