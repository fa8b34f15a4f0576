//! Page faults: the sampled instruction is the one that faulted, and the address is known.

use crate::boundaries::Code64;
use crate::operand::{Operand, Operands, kind_of};
use crate::step::State;
use crate::{Found, Kind, RecoveredAccess, Registers};
use iced_x86::{InstructionInfo, InstructionInfoFactory, Register};

/// Bytes that an operand of unknown size (`xsave`, `fxsave`) may cover.
const UNSIZED: u64 = 16 * 1024;

/// What the instruction at `regs.ip` does at `fault_address`, which one of its operands must cover.
///
/// Unlike [`crate::recover`] this counts the stack operands of `push`, `pop`, `call` and `ret` as well, flagged as
/// stack: the stack grows by faults. An instruction that reads and writes there gives [`Kind::ReadWrite`], even by two
/// operands. Gathers and scatters are believed to touch the address, since theirs cannot be computed. `None` when no
/// operand covers the address, as when fetching the instruction itself faulted.
pub fn access_at(code: &[u8], code_start: u64, regs: &Registers, fault_address: u64) -> Option<RecoveredAccess> {
    let instruction = Code64::new(code, code_start).instruction(regs.ip)?;
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(&instruction);
    let operands = Operands::of(&instruction, info, false);
    let state = State::of(regs);

    let mut found: Option<RecoveredAccess> = None;
    let mut add = |kind: Kind, size: u32, stack: bool| {
        let kind = match &found {
            Some(before) if before.kind != kind => Kind::ReadWrite,
            _ => kind,
        };
        let (ip, address) = (regs.ip, fault_address);
        found = Some(RecoveredAccess { ip, address, size, kind, found: Found::At, distance: 0, stack, also: None });
    };
    for operand in operands.list.iter().flatten() {
        if covers(operand, &state, regs, instruction.has_rep_prefix() || instruction.has_repne_prefix(), fault_address)
        {
            add(operand.kind, operand.size, operand.stack);
        }
    }
    if operands.vector
        && let Some(kind) = vector_kind(info)
    {
        add(kind, instruction.memory_size().size() as u32, false);
    }
    if instruction.is_stack_instruction() {
        for memory in info
            .used_memory()
            .iter()
            .filter(|memory| memory.base() == Register::RSP && memory.index() == Register::None)
        {
            let address = regs.general(crate::Register::Rsp).wrapping_add(memory.displacement());
            let size = memory.memory_size().size() as u32;
            if let Some(kind) = kind_of(memory.access())
                && fault_address.wrapping_sub(address) < u64::from(size.max(1))
            {
                add(kind, size, true);
            }
        }
    }
    found
}

fn covers(operand: &Operand, state: &State, regs: &Registers, repeated: bool, fault_address: u64) -> bool {
    let Some(address) = operand.address(state, regs) else { return false };
    let offset = fault_address.wrapping_sub(address);
    let size = if operand.size == 0 { UNSIZED } else { u64::from(operand.size) };
    if operand.string && repeated {
        // Either direction: the flag is not among the sampled registers.
        let length = regs.general(crate::Register::Rcx).saturating_mul(size).max(size);
        return offset < length || offset.wrapping_neg() < length;
    }
    offset < size
}

fn vector_kind(info: &InstructionInfo) -> Option<Kind> {
    info.used_memory().iter().find_map(|memory| kind_of(memory.access()))
}
