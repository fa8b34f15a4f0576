//! Code that may change without anybody being told: a fragment of it compares its bytes whenever it is entered.

use super::exits::Exits;
use crate::abi::registers::RCX;
use crate::emit::{Emitter, Memory};
use crate::ir::exit::ExitKind;
use crate::ir::mark::State;
use crate::{Error, context};

/// Compares the program's code with what is translated here, and has it translated afresh where it differs. The
/// flags are left alone even if they are dead here: the new code may look at them.
pub(super) fn compare_code(out: &mut Emitter<'_>, exits: &mut Exits, bytes: &[u8]) -> Result<(), Error> {
    const VALUE: u8 = 11;
    out.scratch.take(&mut out.hot, VALUE, u16::MAX);
    out.scratch.take(&mut out.hot, RCX, u16::MAX);
    out.map_spilled();
    let stale = out.cold.here();
    let mut at = 0;
    while at < bytes.len() {
        let (size, opcode): (usize, &[u8]) = match bytes.len() - at {
            8.. => (8, &[0x4c, 0x8b, 0x1d]),       // mov r11, [rip + ..]
            4.. => (4, &[0x44, 0x8b, 0x1d]),       // mov r11d, [rip + ..]
            2.. => (2, &[0x44, 0x0f, 0xb7, 0x1d]), // movzx r11d, word [rip + ..]
            _ => (1, &[0x44, 0x0f, 0xb6, 0x1d]),   // movzx r11d, byte [rip + ..]
        };
        let field = out.hot.relative(opcode);
        out.resolve_hot(field, out.start + at as u64)?;
        let mut expected = [0u8; 8];
        expected[..size].copy_from_slice(&bytes[at..at + size]);
        out.hot.constant(RCX, u64::from_le_bytes(expected).wrapping_neg());
        out.hot.lea(RCX, Memory::Flat { base: Some(RCX), index: Some(VALUE), scale: 1, displacement: 0 });
        out.hot.raw(&[0xe3, 5]); // jrcxz past the next
        let field = out.hot.relative(&[0xe9]);
        out.resolve_hot(field, stale)?;
        at += size;
    }
    out.map_cold(State::Before);
    for register in [VALUE, RCX] {
        out.cold.load(register, Memory::context(context::spill(register)));
    }
    exits.stub(out, ExitKind::Stale, out.start)
}
