//! Every access that an instruction makes, so that all of them can be counted: how many, what they do, where.
//!
//! Unlike the operands that a sample is resolved with, these include gathers, masked vectors, bit strings and, marked
//! as stack operations, what `push`, `pop`, `call` and `ret` do. Not accesses: `lea`, prefetches and other hints about
//! a cache line, `nop` with an operand.
//!
//! # What one operand does not say
//! After the manuals of Intel and AMD; an access is one at the page where it begins, whatever its size, unless another
//! line says more:
//!
//! | instruction | accesses |
//! |---|---|
//! | `movs`, `cmps`, `lods`, `scas`, `stos`, `ins`, `outs` | at rsi, at rdi, or both; with `rep`, for each element |
//! | gathers, scatters | one for each active lane, at its own index |
//! | `vmaskmov`, `maskmovdqu` (at rdi), masked vectors | one at the first active element, none without any |
//! | masked broadcasts, `vpcompress`, `vexpand` | one at the address if any element is active |
//! | instructions that look at the mask but read all (classes E4NF to E6NF) | one |
//! | `bt`, `bts`, `btr`, `btc` with a register | one at the operand that the bit number selects |
//! | `tileloadd`, `tileloaddt1`, `tilestored` | one for each row of the tile: [`crate::Tile`] |
//! | `ldtilecfg`, `sttilecfg` (64 bytes) | one |
//! | `fxsave`, `xsave` and their kin | one in each page that the image reaches into: [`crate::Image`] |
//! | `fsave` (108 bytes), `fldenv`, `cmpxchg16b`, key locker's handles and its wide forms | one each |
//! | `movdir64b`, `enqcmd`, `enqcmds` | a read at the operand, a write of 64 bytes where the register operand points |
//! | `clzero` | a write of the line at rax |
//! | `xlat` | one at rbx + al |
//! | `vp2intersect`, `v4fmaddps` | one: pairs and quads are of registers |
//! | `sgdt`, `sidt`, `lgdt` and the like (10 bytes; the latter fault) | one |
//! | `push`, `pop`, `call`, `ret`, `enter`, `leave`, `lret`, `iret` | their operand, and words of the stack, as such |
//! | `monitorx`, `umonitor`, `clflush`, `clwb`, `cldemote`, prefetches | none |
//! | APX (`push2`, `pop2`, 32 registers), `movrs`, what came after | none: the decoder does not know them (SIGILL) |

use crate::operand::{kind_of, number};
use crate::register::{RAX, RBP, RDI, RSI, RSP};
use crate::{ImageForm, Kind};
use iced_x86::{Code, Instruction, InstructionInfo, Mnemonic, OpKind, Register};

/// How the accesses of an operand follow from the registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One access at the address.
    Plain,
    /// A repeated string instruction: one access per element done.
    String,
    /// One access where the mask has any active element.
    Masked,
    /// One access per active element of a gather or scatter.
    Elements,
    /// One access per row of a tile; the index is the distance between rows.
    Tile,
    /// An image of the processor's state: one access per page that it reaches into.
    Image(ImageForm),
    /// One access near the address, chosen by a bit number in a register (`bt [m], r` and its kin).
    Bits,
}

/// `segment + base + index * scale + displacement`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Address {
    /// General register, in the order of the encoding.
    pub base: Option<u8>,
    /// General register; for [`Shape::Elements`] a vector register.
    pub index: Option<u8>,
    /// 1, 2, 4, 8.
    pub scale: u8,
    /// The whole address of a RIP-relative or absolute operand.
    pub displacement: i64,
    /// FS is added.
    pub fs: bool,
    /// GS is added.
    pub gs: bool,
    /// Computed modulo 2^32, before the segment is added.
    pub narrow: bool,
    /// The index is al alone (`xlat`).
    pub byte_index: bool,
}

impl Address {
    /// No register is needed to know it.
    pub fn is_constant(&self) -> bool {
        self.base.is_none() && self.index.is_none() && !self.fs && !self.gs
    }

    /// The general registers it is computed from, a bit each; an index in a vector register is none.
    pub fn registers(&self, shape: Shape) -> u16 {
        let index = if shape == Shape::Elements { None } else { self.index };
        [self.base, index].into_iter().flatten().fold(0, |set, register| set | 1 << register)
    }

    fn at(base: u8, displacement: i64) -> Self {
        Address { base: Some(base), scale: 1, displacement, ..Address::default() }
    }
}

/// The accesses of one operand of one instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// What one access does.
    pub kind: Kind,
    /// Bytes of one access; 0 where the instruction alone does not tell (`xsave`).
    pub size: u32,
    /// How many accesses there are, and where.
    pub shape: Shape,
    /// Relative to rsp.
    pub stack: bool,
    /// Not an operand of the instruction's text: what it pushes or pops.
    pub implied: bool,
    /// The address, where the registers before the instruction give it.
    pub address: Address,
}

/// Calls `found` with each access of `instruction`, reads first. `info` belongs to the same instruction.
pub fn accesses(instruction: &Instruction, info: &InstructionInfo, mut found: impl FnMut(Access)) {
    if hints(instruction.mnemonic()) {
        return;
    }
    let mut list: [Option<Access>; 2] = [None; 2];
    for operand in 0..instruction.op_count() {
        let Some(kind) = kind_of(info.op_access(operand)) else { continue };
        let Some(access) = explicit(instruction, operand, kind) else { continue };
        if list[0].is_none() {
            list[0] = Some(access);
        } else if access.kind == Kind::Read {
            list = [Some(access), list[0]];
        } else {
            list[1] = Some(access);
        }
    }
    // The target of a direct store stands in a register operand.
    if matches!(instruction.mnemonic(), Mnemonic::Movdir64b | Mnemonic::Enqcmd | Mnemonic::Enqcmds)
        && let Some(base) = number(instruction.op0_register())
    {
        let narrow = instruction.op0_register().is_gpr32();
        list[1] = Some(plain(Kind::Write, 64, Address { narrow, ..Address::at(base, 0) }));
    }
    if instruction.mnemonic() == Mnemonic::Clzero {
        list[0] = Some(plain(Kind::Write, 64, Address::at(RAX, 0)));
    }
    let popping = instruction.mnemonic() == Mnemonic::Pop;
    if !popping {
        list.iter().flatten().for_each(|&access| found(access));
    }
    stack_operations(instruction, &mut found);
    if popping {
        list.iter().flatten().for_each(|&access| found(access));
    }
}

fn plain(kind: Kind, size: u32, address: Address) -> Access {
    Access { kind, size, shape: Shape::Plain, stack: address.base == Some(RSP), implied: false, address }
}

/// Instructions whose index is the distance between the rows of a tile.
pub(crate) fn has_stride(mnemonic: Mnemonic) -> bool {
    matches!(mnemonic, Mnemonic::Tileloadd | Mnemonic::Tileloaddt1 | Mnemonic::Tilestored)
}

/// Instructions with a memory operand whose bytes they neither read nor write for the program.
fn hints(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(
        mnemonic,
        M::Clflush
            | M::Clflushopt
            | M::Clwb
            | M::Cldemote
            | M::Prefetch
            | M::Prefetchw
            | M::Prefetchwt1
            | M::Prefetchnta
            | M::Prefetcht0
            | M::Prefetcht1
            | M::Prefetcht2
            | M::Prefetchit0
            | M::Prefetchit1
            | M::Lea
            | M::Nop
            | M::Reservednop
    )
}

fn explicit(instruction: &Instruction, operand: u32, kind: Kind) -> Option<Access> {
    let size = instruction.memory_size().size() as u32;
    let repeated =
        instruction.is_string_instruction() && (instruction.has_rep_prefix() || instruction.has_repne_prefix());
    let (fs, gs) = match instruction.memory_segment() {
        Register::FS => (true, false),
        Register::GS => (false, true),
        _ => (false, false),
    };
    let string = |base: u8, narrow: bool, segments: bool| Access {
        kind,
        size,
        shape: if repeated { Shape::String } else { Shape::Plain },
        stack: false,
        implied: false,
        // The destination of a string instruction is in ES, which is flat, whatever the prefix.
        address: Address { narrow, fs: fs && segments, gs: gs && segments, ..Address::at(base, 0) },
    };
    Some(match instruction.op_kind(operand) {
        OpKind::MemorySegRSI => string(RSI, false, true),
        OpKind::MemorySegESI => string(RSI, true, true),
        OpKind::MemoryESRDI => string(RDI, false, false),
        OpKind::MemoryESEDI => string(RDI, true, false),
        OpKind::MemorySegRDI => Access { shape: Shape::Masked, ..string(RDI, false, true) },
        OpKind::MemorySegEDI => Access { shape: Shape::Masked, ..string(RDI, true, true) },
        OpKind::Memory => {
            let address = Address { fs, gs, ..operand_address(instruction)? };
            let stack = address.base == Some(RSP);
            Access {
                kind,
                size: element_size(instruction, size),
                shape: shape(instruction),
                stack,
                implied: false,
                address,
            }
        }
        _ => return None,
    })
}

fn element_size(instruction: &Instruction, size: u32) -> u32 {
    if instruction.is_vsib() { instruction.memory_size().element_size() as u32 } else { size }
}

fn shape(instruction: &Instruction) -> Shape {
    use Mnemonic as M;
    match instruction.mnemonic() {
        _ if instruction.is_vsib() => Shape::Elements,
        mnemonic if has_stride(mnemonic) => Shape::Tile,
        M::Fxsave | M::Fxsave64 | M::Fxrstor | M::Fxrstor64 => Shape::Image(ImageForm::Legacy),
        M::Xsave | M::Xsave64 => Shape::Image(ImageForm::Whole),
        M::Xsaveopt | M::Xsaveopt64 => Shape::Image(ImageForm::InUse),
        M::Xsavec | M::Xsavec64 => Shape::Image(ImageForm::Compact),
        M::Xrstor | M::Xrstor64 => Shape::Image(ImageForm::Restore),
        M::Bt | M::Bts | M::Btr | M::Btc if instruction.op1_kind() == OpKind::Register => Shape::Bits,
        M::Vmaskmovps | M::Vmaskmovpd | M::Vpmaskmovd | M::Vpmaskmovq => Shape::Masked,
        mnemonic if instruction.has_op_mask() && !ignores_mask(mnemonic) => Shape::Masked,
        _ => Shape::Plain,
    }
}

/// Instructions that read their whole memory operand whatever the mask: those without "memory fault suppression"
/// (exception classes E4NF, E5NF, E6NF of the manual).
fn ignores_mask(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(
        mnemonic,
        M::Valignd
            | M::Valignq
            | M::Vpalignr
            | M::Vdbpsadbw
            | M::Vmovddup
            | M::Vmovshdup
            | M::Vmovsldup
            | M::Vpacksswb
            | M::Vpackssdw
            | M::Vpackuswb
            | M::Vpackusdw
            | M::Vpmaddubsw
            | M::Vpmaddwd
            | M::Vpermb
            | M::Vpermw
            | M::Vpermd
            | M::Vpermq
            | M::Vpermps
            | M::Vpermpd
            | M::Vpermi2b
            | M::Vpermi2w
            | M::Vpermi2d
            | M::Vpermi2q
            | M::Vpermi2ps
            | M::Vpermi2pd
            | M::Vpermt2b
            | M::Vpermt2w
            | M::Vpermt2d
            | M::Vpermt2q
            | M::Vpermt2ps
            | M::Vpermt2pd
            | M::Vpermilps
            | M::Vpermilpd
            | M::Vpmultishiftqb
            | M::Vpshufb
            | M::Vpshufd
            | M::Vpshufhw
            | M::Vpshuflw
            | M::Vshufps
            | M::Vshufpd
            | M::Vshuff32x4
            | M::Vshuff64x2
            | M::Vshufi32x4
            | M::Vshufi64x2
            | M::Vpslld
            | M::Vpsllq
            | M::Vpsllw
            | M::Vpsrld
            | M::Vpsrlq
            | M::Vpsrlw
            | M::Vpsrad
            | M::Vpsraq
            | M::Vpsraw
            | M::Vpunpckhbw
            | M::Vpunpckhwd
            | M::Vpunpckhdq
            | M::Vpunpckhqdq
            | M::Vpunpcklbw
            | M::Vpunpcklwd
            | M::Vpunpckldq
            | M::Vpunpcklqdq
            | M::Vunpckhps
            | M::Vunpckhpd
            | M::Vunpcklps
            | M::Vunpcklpd
            | M::Vinsertf32x4
            | M::Vinsertf64x2
            | M::Vinsertf32x8
            | M::Vinsertf64x4
            | M::Vinserti32x4
            | M::Vinserti64x2
            | M::Vinserti32x8
            | M::Vinserti64x4
    )
}

/// The explicit memory operand; `None` for 16-bit addressing, which 64-bit mode does not have.
fn operand_address(instruction: &Instruction) -> Option<Address> {
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
        Register::AL => Some(Some(RAX)),
        _ if register.is_vector_register() => Some(Some(register.number() as u8)),
        _ => None,
    };
    let base = part(instruction.memory_base())?;
    let index = part(instruction.memory_index())?;
    let mut displacement = instruction.memory_displacement64() as i64;
    // `pop [rsp + x]` computes its address after it has popped.
    if instruction.mnemonic() == Mnemonic::Pop && base == Some(RSP) {
        displacement += i64::from(instruction.stack_pointer_increment());
    }
    let byte_index = instruction.memory_index() == Register::AL;
    let scale = instruction.memory_index_scale() as u8;
    Some(Address { base, index, scale, displacement, narrow, byte_index, ..Address::default() })
}

/// Words that a far return, or one from an interrupt, takes off the stack, and the bytes of each.
fn far_frame(instruction: &Instruction) -> (i64, i64) {
    use Code as C;
    match instruction.code() {
        C::Retfw | C::Retfw_imm16 => (2, 2),
        C::Retfd | C::Retfd_imm16 => (2, 4),
        C::Iretw => (5, 2),
        C::Iretd => (5, 4),
        C::Iretq => (5, 8),
        _ => (2, 8),
    }
}

fn stack_operations(instruction: &Instruction, found: &mut impl FnMut(Access)) {
    use Mnemonic as M;
    let mut add = |kind, size: u32, base, displacement| {
        found(Access { stack: true, implied: true, ..plain(kind, size, Address::at(base, displacement)) })
    };
    let increment = instruction.stack_pointer_increment();
    match instruction.mnemonic() {
        M::Push | M::Pushf | M::Pushfq | M::Call => {
            add(Kind::Write, increment.unsigned_abs(), RSP, i64::from(increment))
        }
        M::Pop | M::Popf | M::Popfq => add(Kind::Read, increment.unsigned_abs(), RSP, 0),
        M::Ret => add(Kind::Read, 8, RSP, 0),
        M::Retf | M::Iret | M::Iretd | M::Iretq => {
            let (words, size) = far_frame(instruction);
            (0..words).for_each(|word| add(Kind::Read, size as u32, RSP, word * size));
        }
        M::Leave => add(Kind::Read, 8, RBP, 0),
        M::Enter => {
            let levels = i64::from(instruction.immediate8_2nd() & 31);
            add(Kind::Write, 8, RSP, -8);
            for level in 1..levels {
                add(Kind::Read, 8, RBP, -8 * level);
                add(Kind::Write, 8, RSP, -8 - 8 * level);
            }
            if levels > 0 {
                add(Kind::Write, 8, RSP, -8 - 8 * levels);
            }
        }
        _ => {}
    }
}
