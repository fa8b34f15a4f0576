//! Where the checks of groups ([`super::last_page`], [`super::megamorphic`], [`super::hoisted`]) go that find another
//! page: stubs in the cold half, and beside each what [`crate::settle_last_page`] must know of its group.

use super::strategy::GroupAt;
use crate::abi::registers::RAX;
use crate::abi::what::kind_bits;
use crate::emit::{Emitter, Field, Memory, count_in_page, in_row, load_entry, operand};
use crate::ir::mark::State;
use crate::ir::plan::Group;
use crate::{Error, LastPage, context};
use numalens_isa::{Kind, PAGE, PAGE_BITS};

/// Where a group goes whose page is another: counts immediately if it is megamorphic, settles otherwise.
pub(crate) fn other_page_stub(out: &mut Emitter<'_>, of: &GroupAt<'_>, r1: u8, back: u64) -> Result<(), Error> {
    let &GroupAt { group, place, .. } = of;
    let class = Memory::context(place.record + LastPage::CLASS);
    out.map_cold(State::Counting);
    out.cold.compare_context(false, place.record + LastPage::CLASS, 0);
    let by_page = out.cold.relative(&[0x0f, 0x84]);
    operand(&mut out.cold, r1, group);
    let across = (group.span > 0).then(|| {
        // Across the end of the page is where bits 12 and up change by adding the span.
        out.cold.registers(false, &[0x81], 4, r1); // and r1d, 0xfff
        out.cold.imm32(PAGE as u32 - 1);
        out.cold.compare(r1, PAGE as i32 - 1 - group.span as i32);
        let across = out.cold.relative(&[0x0f, 0x87]);
        operand(&mut out.cold, r1, group);
        across
    });
    out.cold.shift_right(r1, PAGE_BITS);
    load_entry(&mut out.cold, out.config.shadow, r1);
    out.cold.increment_register(r1);
    out.cold.memory(false, &[0x3b], r1, class); // cmp r1d, gs:[class]
    let other = out.cold.relative(&[0x0f, 0x85]);
    count_page_cold(out, r1, group);
    let field = out.cold.relative(&[0xe9]);
    out.resolve_cold(field, back)?;

    let here = out.cold.here();
    out.resolve_cold(other, here)?;
    other_class(out, of, r1, [Some(by_page), across], back)
}

/// What follows where a megamorphic group has met another class than that of its record, with the entry of its
/// page, plus 1, in `r1`. `settle`: jumps that go on where the record is settled.
pub(crate) fn other_class(
    out: &mut Emitter<'_>,
    of: &GroupAt<'_>,
    r1: u8,
    settle: [Option<Field>; 2],
    back: u64,
) -> Result<(), Error> {
    let &GroupAt { group, place, .. } = of;
    out.map_cold(State::Counting);
    let unknown = match group.writes {
        0 => {
            out.cold.registers(false, &[0x83], 7, r1); // cmp r1d, 1
            out.cold.raw(&[1]);
            out.cold.relative(&[0x0f, 0x84]) // jz
        }
        _ => {
            out.cold.compare_half(r1, out.config.read_only() + 1);
            out.cold.relative(&[0x0f, 0x86]) // jbe
        }
    };
    out.cold.compare_context(false, place.record + LastPage::CLASS, 0xff);
    let by_class = out.cold.relative(&[0x0f, 0x85]);
    out.cold.increment(in_row(r1, place.row - 1));
    count_page_cold(out, r1, group);
    let field = out.cold.relative(&[0xe9]);
    out.resolve_cold(field, back)?;
    let here = out.cold.here();
    for field in settle.into_iter().flatten().chain([unknown, by_class]) {
        out.resolve_cold(field, here)?;
    }
    settle_from(out, of, r1, back)
}

/// Has the last page of a group settled, from the cold half.
pub(crate) fn settle_from(out: &mut Emitter<'_>, of: &GroupAt<'_>, r1: u8, back: u64) -> Result<(), Error> {
    let field = call_for_group(out, of.group, r1, context::SETTLE);
    describe_group(out, of, [Some(field), None, None], back)
}

/// Calls a routine for a group, from the cold half; `r1` is lost. Where the address of its descriptor is to be
/// filled in.
pub(crate) fn call_for_group(out: &mut Emitter<'_>, group: &Group, r1: u8, routine: u32) -> Field {
    operand(&mut out.cold, r1, group);
    out.call_with_operand(r1, routine)
}

fn count_page_cold(out: &mut Emitter<'_>, word: u8, group: &Group) {
    count_in_page(&mut out.cold, out.config, word, (group.reads, group.writes));
}

pub(crate) fn constant_page_stub(out: &mut Emitter<'_>, of: &GroupAt<'_>, back: u64) -> Result<(), Error> {
    let group = of.group;
    out.map_cold(State::Counting);
    let save = Memory::context(context::SETTLE_SAVED);
    out.cold.store(RAX, save);
    out.cold.constant(RAX, group.address.displacement as u64);
    out.cold.store(RAX, Memory::context(context::COUNT_ARGUMENTS));
    let field = out.cold.load_address(RAX);
    out.cold.store(RAX, Memory::context(context::COUNT_ARGUMENTS + 8));
    out.cold.load(RAX, save);
    out.cold.jump_context(None, context::SETTLE);
    describe_group(out, of, [Some(field), None, None], back)
}

/// Writes the descriptor of a group, whose address is filled in at `fields`.
pub(crate) fn describe_group(
    out: &mut Emitter<'_>,
    of: &GroupAt<'_>,
    fields: [Option<Field>; 3],
    back: u64,
) -> Result<(), Error> {
    let &GroupAt { group, place, .. } = of;
    out.cold.align(8, 0xcc);
    let here = out.cold.here();
    for field in fields.into_iter().flatten() {
        out.resolve_cold(field, here)?;
    }
    out.cold.imm64(back);
    for word in [place.record, place.executions, place.row, place.first_row, place.first.0] {
        out.cold.imm32(word);
    }
    out.cold.raw(&(group.span as u16).to_le_bytes());
    out.cold.raw(&[group.reads, group.writes, group.members, u8::from(group.is_constant())]);
    for member in of.members {
        let offset = member.displacement - group.address.displacement;
        out.cold.raw(&pack_member(offset as u16, member.access.kind).to_le_bytes());
    }
    Ok(())
}

fn pack_member(offset: u16, kind: Kind) -> u16 {
    offset << 2 | kind_bits(kind)
}
