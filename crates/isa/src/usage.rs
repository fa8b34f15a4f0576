//! What an instruction needs and what it overwrites, for liveness.

use crate::is_request;
use iced_x86::{FlowControl, Instruction, InstructionInfo, Mnemonic, OpAccess, OpKind, RflagsBits};

/// Sets of general registers (a bit each, in the order of the encoding) and of status flags (bits of [`RflagsBits`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Usage {
    /// Registers whose value before matters: read, or written only in part, or only sometimes.
    pub reads: u16,
    /// Registers that are overwritten as a whole, whatever happens.
    pub kills: u16,
    /// Registers whose value after may be another: overwritten in whole, in part, or only sometimes.
    pub writes: u16,
    /// Status flags whose value before matters.
    pub flags_read: u8,
    /// Status flags that are overwritten, whatever happens.
    pub flags_killed: u8,
}

/// The six status flags.
pub const STATUS_FLAGS: u8 =
    (RflagsBits::OF | RflagsBits::SF | RflagsBits::ZF | RflagsBits::AF | RflagsBits::CF | RflagsBits::PF) as u8;

impl Usage {
    /// Everything may be looked at.
    pub const ALL: Usage =
        Usage { reads: u16::MAX, kills: 0, writes: u16::MAX, flags_read: STATUS_FLAGS, flags_killed: 0 };

    /// What `instruction` needs and overwrites; `info` belongs to it.
    pub fn of(instruction: &Instruction, info: &InstructionInfo) -> Usage {
        if leaves_the_program(instruction) {
            return Usage::ALL;
        }
        let (mut reads, mut kills, mut writes) = (0u16, 0u16, 0u16);
        for used in info.used_registers() {
            let register = used.register();
            if !register.is_gpr() {
                continue;
            }
            let bit = 1u16 << register.full_register().number();
            if !matches!(used.access(), OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess | OpAccess::None) {
                writes |= bit;
            }
            match used.access() {
                OpAccess::Write if register.is_gpr64() || register.is_gpr32() => kills |= bit,
                OpAccess::None => {}
                _ => reads |= bit,
            }
        }
        let flags_read = instruction.rflags_read() as u8 & STATUS_FLAGS;
        // An undefined flag may also be left as it was, except that nobody looks at AF after a logical instruction.
        let written = instruction.rflags_written() | instruction.rflags_cleared() | instruction.rflags_set();
        let undefined = instruction.rflags_undefined() & RflagsBits::AF;
        let mut flags_killed = (written | undefined) as u8 & STATUS_FLAGS;
        if repeats(instruction) {
            (reads, kills, flags_killed) = (reads | kills, 0, 0);
        }
        if shifts(instruction.mnemonic()) && !shifts_by_constant(instruction) {
            flags_killed = 0;
        }
        Usage { reads, kills, writes, flags_read, flags_killed }
    }
}

/// Instructions at which somebody else, the kernel or a handler, sees all registers and flags, and after which the
/// program need not go on.
pub fn leaves_the_program(instruction: &Instruction) -> bool {
    instruction.is_invalid()
        || matches!(instruction.flow_control(), FlowControl::Interrupt | FlowControl::Exception)
        || instruction.flow_control() == FlowControl::Return && instruction.mnemonic() != Mnemonic::Ret
        || instruction.mnemonic() == Mnemonic::Syscall
        || is_request(instruction)
}

/// Done no times when rcx is 0.
fn repeats(instruction: &Instruction) -> bool {
    instruction.is_string_instruction() && (instruction.has_rep_prefix() || instruction.has_repne_prefix())
}

fn shifts(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(mnemonic, M::Shl | M::Shr | M::Sar | M::Sal | M::Rol | M::Ror | M::Rcl | M::Rcr | M::Shld | M::Shrd)
}

/// A shift by 0 keeps all flags, and what is in cl is not known; a rotation through carry by 9, 17 or 33 is one by 0.
fn shifts_by_constant(instruction: &Instruction) -> bool {
    if matches!(instruction.mnemonic(), Mnemonic::Rcl | Mnemonic::Rcr) {
        return false;
    }
    let last = instruction.op_count() - 1;
    instruction.op_kind(last) == OpKind::Immediate8 && instruction.immediate8() & 0x1f != 0
}
