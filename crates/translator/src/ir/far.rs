//! What changes more than rip: far jumps, calls and returns, returns from interrupts. And what has no translation at
//! all.
//!
//! User code of Linux runs in one of two code segments, of 64 bits (0x33) and of 32 bits (0x23). A far return or an
//! `iret` to the first is an ordinary return that takes more off the stack: the owner of the cache does it
//! ([`crate::Leave::Returns`]). One to the second leaves what can be translated. Instructions of the kernel (`swapgs`,
//! `sysret`, `rsm`) are none of these: they fault, natively as in the cache.

use iced_x86::{Code, Instruction, Mnemonic, OpKind, Register};

/// Why an instruction cannot be translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Obstacle {
    /// GS, which is the observer's.
    Gs,
    /// A far jump or call, whose segment stands in memory.
    FarJump,
    /// Its 16-bit operand cuts rip to 64 KiB.
    ShortPointer,
    /// The kernel goes on in 32-bit code behind it (`sysenter`).
    Sysenter,
}

impl Obstacle {
    pub(crate) const ALL: [Obstacle; 4] = [Obstacle::Gs, Obstacle::FarJump, Obstacle::ShortPointer, Obstacle::Sysenter];

    /// What keeps an instruction from being translated, if anything does.
    pub(crate) fn of(instruction: &Instruction) -> Option<Obstacle> {
        use Mnemonic as M;
        match instruction.mnemonic() {
            _ if instruction.is_invalid() => None,
            M::Sysenter => Some(Obstacle::Sysenter),
            _ if uses_gs(instruction) => Some(Obstacle::Gs),
            _ if cuts_rip(instruction) => Some(Obstacle::ShortPointer),
            _ if instruction.is_call_far()
                || instruction.is_call_far_indirect()
                || instruction.is_jmp_far()
                || instruction.is_jmp_far_indirect() =>
            {
                Some(Obstacle::FarJump)
            }
            _ => None,
        }
    }
}

impl core::fmt::Display for Obstacle {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Obstacle::Gs => "it uses GS, where the observer keeps what it knows of the thread",
            Obstacle::FarJump => "it is a far jump or call, which may go on in 32-bit code",
            Obstacle::ShortPointer => "it goes on at an address of 16 bits",
            Obstacle::Sysenter => "it goes on in 32-bit code",
        })
    }
}

fn uses_gs(instruction: &Instruction) -> bool {
    use Mnemonic as M;
    let has_memory = (0..instruction.op_count()).any(|operand| {
        matches!(
            instruction.op_kind(operand),
            OpKind::Memory | OpKind::MemorySegRSI | OpKind::MemorySegESI | OpKind::MemorySegRDI | OpKind::MemorySegEDI
        )
    });
    let is_relative = has_memory
        && instruction.memory_segment() == Register::GS
        && !matches!(instruction.mnemonic(), M::Lea | M::Nop | M::Reservednop);
    let loads = instruction.op_count() > 0
        && instruction.op0_kind() == OpKind::Register
        && instruction.op0_register() == Register::GS;
    is_relative
        || loads && matches!(instruction.mnemonic(), M::Mov | M::Pop)
        || matches!(instruction.mnemonic(), M::Rdgsbase | M::Wrgsbase | M::Lgs)
}

fn cuts_rip(instruction: &Instruction) -> bool {
    use Code as C;
    matches!(
        instruction.code(),
        C::Call_rm16
            | C::Jmp_rm16
            | C::Call_rel16
            | C::Jmp_rel16
            | C::Jmp_rel8_16
            | C::Retnw
            | C::Retnw_imm16
            | C::Retfw
            | C::Retfw_imm16
            | C::Iretw
    )
}

/// Whether an instruction is the kernel's: in a program it faults, whatever stands around it.
pub(crate) fn is_privileged(instruction: &Instruction) -> bool {
    use Mnemonic as M;
    matches!(instruction.mnemonic(), M::Swapgs | M::Sysexit | M::Sysexitq | M::Sysret | M::Sysretq | M::Uiret | M::Rsm)
}

/// Whether an instruction is a system call by 32-bit rules: `int 0x80`.
pub(crate) fn is_old_call(instruction: &Instruction) -> bool {
    instruction.mnemonic() == Mnemonic::Int && instruction.immediate8() == 0x80
}

/// A return that takes the code segment off the stack as well: `lret`, and `iret`, which takes flags, stack pointer and
/// stack segment too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FarReturn {
    /// Bytes of each word on the stack: 4 or 8.
    pub bytes: u8,
    /// It is an `iret`.
    pub interrupt: bool,
    /// What an `lret` drops behind.
    pub drops: u16,
}

/// Where a [`FarReturn`] goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FarTarget {
    /// The instruction.
    pub ip: u64,
    /// The selector of its segment.
    pub code_segment: u16,
    /// The stack pointer.
    pub stack: u64,
    /// Flags and the selector of the stack's segment, after an `iret`.
    pub interrupt: Option<(u64, u16)>,
}

/// What a program may change of its flags: all but IF, IOPL and what virtual machines of another age have.
const CHANGEABLE_FLAGS: u64 = 0x24_4dd5;

impl FarReturn {
    pub(crate) fn of(instruction: &Instruction) -> Option<FarReturn> {
        use Code as C;
        let lret = |bytes, drops| Some(FarReturn { bytes, interrupt: false, drops });
        let iret = |bytes| Some(FarReturn { bytes, interrupt: true, drops: 0 });
        match instruction.code() {
            C::Retfd => lret(4, 0),
            C::Retfq => lret(8, 0),
            C::Retfd_imm16 => lret(4, instruction.immediate16()),
            C::Retfq_imm16 => lret(8, instruction.immediate16()),
            C::Iretd => iret(4),
            C::Iretq => iret(8),
            _ => None,
        }
    }

    /// Words that it takes off the stack.
    pub fn words(&self) -> usize {
        if self.interrupt { 5 } else { 2 }
    }

    /// Where it goes, with the stack pointer at `stack`, the bytes there, and these flags.
    pub fn target(&self, stack: u64, bytes: &[u8], flags: u64) -> Option<FarTarget> {
        let size = usize::from(self.bytes);
        let word = |number: usize| {
            let bytes = bytes.get(number * size..(number + 1) * size)?;
            Some(bytes.iter().rev().fold(0u64, |word, &byte| word << 8 | u64::from(byte)))
        };
        let interrupt = match self.interrupt {
            true => Some((flags & !CHANGEABLE_FLAGS | word(2)? & CHANGEABLE_FLAGS, word(4)? as u16)),
            false => None,
        };
        let behind = stack.wrapping_add((2 * size) as u64 + u64::from(self.drops));
        let stack = if self.interrupt { word(3)? } else { behind };
        Some(FarTarget { ip: word(0)?, code_segment: word(1)? as u16, stack, interrupt })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

    fn decode(bytes: &[u8]) -> Instruction {
        Decoder::new(64, bytes, DecoderOptions::NONE).decode()
    }

    #[test]
    fn obstacles_are_reported_with_their_true_reason() {
        let of = |bytes: &[u8]| Obstacle::of(&decode(bytes));
        assert_eq!(of(b"\x65\x48\x8b\x04\x25\0\0\0\0"), Some(Obstacle::Gs), "mov rax, gs:[0]");
        assert_eq!(of(b"\xf3\x48\x0f\xae\xc8"), Some(Obstacle::Gs), "rdgsbase rax");
        assert_eq!(of(b"\xff\x28"), Some(Obstacle::FarJump), "jmp far [rax]");
        assert_eq!(of(b"\x66\xcb"), Some(Obstacle::ShortPointer), "lret of 16 bits");
        assert_eq!(of(b"\x66\xcf"), Some(Obstacle::ShortPointer), "iret of 16 bits");
        assert_eq!(of(b"\x0f\x34"), Some(Obstacle::Sysenter));
        for translated in [&b"\xcd\x80"[..], b"\xcb", b"\x48\xcb", b"\x48\xcf", b"\xcf", b"\x0f\x01\xf8", b"\x0f\x07"] {
            assert_eq!(of(translated), None, "{translated:x?}");
        }
    }

    #[test]
    fn far_returns_go_where_the_stack_says() {
        let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<alloc::vec::Vec<u8>>();
        let lretq = FarReturn::of(&decode(b"\x48\xca\x10\x00")).expect("lretq 16");
        let target = lretq.target(0x1000, &words(&[0x5555, 0x33]), 0x246);
        assert_eq!(target, Some(FarTarget { ip: 0x5555, code_segment: 0x33, stack: 0x1020, interrupt: None }));
        let iretq = FarReturn::of(&decode(b"\x48\xcf")).expect("iretq");
        // IF stays, AC comes.
        let target = iretq.target(0x1000, &words(&[0x5555, 0x33, 0x4_0001, 0x7ffc, 0x2b]), 0x246);
        let interrupt = Some((0x4_0203, 0x2b));
        assert_eq!(target, Some(FarTarget { ip: 0x5555, code_segment: 0x33, stack: 0x7ffc, interrupt }));
        let lret = FarReturn::of(&decode(b"\xcb")).expect("lret");
        let target = lret.target(0x1000, &words(&[0x23_0000_5555]), 0);
        assert_eq!(target, Some(FarTarget { ip: 0x5555, code_segment: 0x23, stack: 0x1008, interrupt: None }));
        assert_eq!(iretq.target(0x1000, &[0; 39], 0), None, "too short");
    }
}
