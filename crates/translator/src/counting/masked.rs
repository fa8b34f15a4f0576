//! Accesses under a mask: one at the first element that is active, or one if any is.

use super::masks::{address_and_mask, is_byte_mask, lanes, one_place};
use super::strategy::{AccessAt, CountStrategy};
use crate::abi::registers::RAX;
use crate::abi::what::{Operation, What};
use crate::emit::{Emitter, Memory, call_out, load_entry, reads_and_writes};
use crate::ir::mark::State;
use crate::{Config, Error, Shape, Way};
use numalens_isa::PAGE_BITS;

/// What the access does.
fn describe(of: &AccessAt<'_>) -> What {
    let instruction = of.instruction;
    let operation = if one_place(instruction) { Operation::AnyActive } else { Operation::FirstActive };
    let memory = instruction.memory_size();
    let size = if is_byte_mask(instruction) { 1 } else { memory.element_size().clamp(1, 64) as u8 };
    What { operation, size: size.next_power_of_two(), lanes: lanes(instruction), ..What::one(of.access.kind) }
}

/// In place: at the first active element (C libraries copy few bytes so), or of the one element that all are read from,
/// if any is (encoders of video). Where flags are live, a fault for an address that nobody can map has those of the
/// look-up.
pub(crate) struct MaskedInPlace;

impl CountStrategy<AccessAt<'_>> for MaskedInPlace {
    const WAY: Way = Way::Elements;

    fn suits(config: &Config, of: &AccessAt<'_>) -> bool {
        let is_simple = |what: What| what.operation == Operation::AnyActive || what.size <= 8;
        let is_masked = of.access.shape == Shape::Masked && !of.access.address.narrow;
        is_masked && config.each.is_none() && is_simple(describe(of))
    }

    fn write(out: &mut Emitter<'_>, of: &AccessAt<'_>) -> Result<(), Error> {
        let &AccessAt { access, site, live, .. } = of;
        let what = describe(of);
        let keeps_flags = live.flags != 0;
        let avoid = u16::from(keeps_flags) << RAX;
        let [r1, r2] = address_and_mask(out, of, avoid);
        let avoid = avoid | access.address.registers(access.shape) | 1 << r1 | 1 << r2;
        let r3 = out.scratch.pick(&mut out.hot, live.registers, avoid);
        if keeps_flags {
            out.scratch.take(&mut out.hot, RAX, live.registers);
            out.map_hot(State::Counting);
            out.hot.flags_to_rax();
        } else {
            out.map_spilled();
        }
        // tzcnt r3, r2: 64 if there is none.
        out.hot.raw(&[0xf3]);
        out.hot.registers(true, &[0x0f, 0xbc], r3, r2);
        out.hot.compare(r3, i32::from(what.lanes));
        let none = out.hot.relative(&[0x0f, 0x83]);
        if what.operation == Operation::FirstActive {
            out.hot.lea(r3, Memory::Flat { base: Some(r1), index: Some(r3), scale: what.size, displacement: 0 });
        } else {
            out.hot.move64(r3, r1);
        }
        out.hot.shift_right(r3, PAGE_BITS);
        load_entry(&mut out.hot, out.config.shadow, r3);
        let cold = out.count_entry(r3, reads_and_writes(access.kind), out.site_offset(site)?);
        let back = out.hot.here();
        if keeps_flags {
            out.hot.flags_from_rax();
        }
        out.resolve_hot(none, back)?;
        out.resolve_hot(cold, out.cold.here())?;
        out.map_cold(State::Counting);
        call_out(&mut out.cold, &what, &[site], &[(0, r1), (1, r2)], r1);
        out.return_to(r1, back)
    }
}

/// The others, out of line.
pub(crate) struct MaskedApart;

impl CountStrategy<AccessAt<'_>> for MaskedApart {
    const WAY: Way = Way::Apart;

    fn suits(_: &Config, of: &AccessAt<'_>) -> bool {
        of.access.shape == Shape::Masked
    }

    fn write(out: &mut Emitter<'_>, of: &AccessAt<'_>) -> Result<(), Error> {
        let registers = address_and_mask(out, of, 0);
        out.call_out_inline(&describe(of), of.site, &registers, registers[0])
    }
}
