//! Where the checks of groups ([`crate::last_page`], [`crate::megamorphic`], [`crate::hoisted`]) go that find another
//! page: stubs in the cold half, and beside each what [`crate::settle_last_page`] must know of its group.

use crate::count::kind_bits;
use crate::emit::{Field, Memory, RAX};
use crate::fragment::State;
use crate::instrument::{count_in_page, in_row, load_entry};
use crate::last_page::{LastPage, Place, operand};
use crate::plan::Group;
use crate::translate::Builder;
use crate::{Env, Error, context};
use numalens_isa::Kind;

impl<E: Env> Builder<'_, E> {
    /// Where a group goes whose page is another: counts immediately if it is megamorphic, settles otherwise.
    pub(crate) fn stub(&mut self, group: &Group, place: &Place, r1: u8, back: u64) -> Result<(), Error> {
        let class = Memory::context(place.record + LastPage::CLASS);
        self.map_cold(State::Counting);
        self.cold.compare_context(false, place.record + LastPage::CLASS, 0);
        let by_page = self.cold.relative(&[0x0f, 0x84]);
        operand(&mut self.cold, r1, group);
        let across = (group.span > 0).then(|| {
            // Across the end of the page is where bits 12 and up change by adding the span.
            self.cold.registers(false, &[0x81], 4, r1); // and r1d, 0xfff
            self.cold.imm32(0xfff);
            self.cold.compare(r1, 4095 - group.span as i32);
            let across = self.cold.relative(&[0x0f, 0x87]);
            operand(&mut self.cold, r1, group);
            across
        });
        self.cold.shift_right(r1, 12);
        load_entry(&mut self.cold, self.config.shadow, r1);
        self.cold.increment_register(r1);
        self.cold.memory(false, &[0x3b], r1, class); // cmp r1d, gs:[class]
        let other = self.cold.relative(&[0x0f, 0x85]);
        self.count_page_cold(r1, group);
        let field = self.cold.relative(&[0xe9]);
        self.resolve_cold(field, back)?;

        let here = self.cold.here();
        self.resolve_cold(other, here)?;
        self.other_class(group, place, r1, [Some(by_page), across], back)
    }

    /// What follows where a megamorphic group has met another class than that of its record, with the entry of its
    /// page, plus 1, in `r1`. `settle`: jumps that go on where the record is settled.
    pub(crate) fn other_class(
        &mut self,
        group: &Group,
        place: &Place,
        r1: u8,
        settle: [Option<Field>; 2],
        back: u64,
    ) -> Result<(), Error> {
        self.map_cold(State::Counting);
        let unknown = match group.writes {
            0 => {
                self.cold.registers(false, &[0x83], 7, r1); // cmp r1d, 1
                self.cold.raw(&[1]);
                self.cold.relative(&[0x0f, 0x84]) // jz
            }
            _ => {
                self.cold.compare_half(r1, self.config.read_only() + 1);
                self.cold.relative(&[0x0f, 0x86]) // jbe
            }
        };
        self.cold.compare_context(false, place.record + LastPage::CLASS, 0xff);
        let by_class = self.cold.relative(&[0x0f, 0x85]);
        self.cold.increment(in_row(r1, place.row - 1));
        self.count_page_cold(r1, group);
        let field = self.cold.relative(&[0xe9]);
        self.resolve_cold(field, back)?;
        let here = self.cold.here();
        for field in settle.into_iter().flatten().chain([unknown, by_class]) {
            self.resolve_cold(field, here)?;
        }
        self.settle_from(group, place, r1, back)
    }

    /// Has the last page of a group settled, from the cold half.
    pub(crate) fn settle_from(&mut self, group: &Group, place: &Place, r1: u8, back: u64) -> Result<(), Error> {
        let field = self.call_for_group(group, r1, context::SETTLE);
        self.describe_group(group, place, [Some(field), None, None], back)
    }

    /// Calls a routine for a group, from the cold half; `r1` is lost. Where the address of its descriptor is to be
    /// filled in.
    pub(crate) fn call_for_group(&mut self, group: &Group, r1: u8, routine: u32) -> Field {
        operand(&mut self.cold, r1, group);
        self.call_with_operand(r1, routine)
    }

    /// The same, with the lowest operand in `r1` already.
    pub(crate) fn call_with_operand(&mut self, r1: u8, routine: u32) -> Field {
        self.cold.store(r1, Memory::context(context::COUNT_ARGUMENTS));
        let field = self.cold.load_address(r1);
        self.cold.store(r1, Memory::context(context::COUNT_ARGUMENTS + 8));
        self.cold.jump_context(None, routine);
        field
    }

    fn count_page_cold(&mut self, word: u8, group: &Group) {
        count_in_page(&mut self.cold, self.config, word, (group.reads, group.writes));
    }

    pub(crate) fn constant_stub(&mut self, group: &Group, place: &Place, back: u64) -> Result<(), Error> {
        self.map_cold(State::Counting);
        let save = Memory::context(context::SETTLE_SAVED);
        self.cold.store(RAX, save);
        self.cold.constant(RAX, group.address.displacement as u64);
        self.cold.store(RAX, Memory::context(context::COUNT_ARGUMENTS));
        let field = self.cold.load_address(RAX);
        self.cold.store(RAX, Memory::context(context::COUNT_ARGUMENTS + 8));
        self.cold.load(RAX, save);
        self.cold.jump_context(None, context::SETTLE);
        self.describe_group(group, place, [Some(field), None, None], back)
    }

    pub(crate) fn describe_group(
        &mut self,
        group: &Group,
        place: &Place,
        fields: [Option<Field>; 3],
        back: u64,
    ) -> Result<(), Error> {
        self.cold.align(8, 0xcc);
        let here = self.cold.here();
        for field in fields.into_iter().flatten() {
            self.resolve_cold(field, here)?;
        }
        self.cold.imm64(back);
        for word in [place.record, place.executions, place.row, place.first_row, place.first.0] {
            self.cold.imm32(word);
        }
        self.cold.raw(&(group.span as u16).to_le_bytes());
        self.cold.raw(&[group.reads, group.writes, group.members, u8::from(group.is_constant())]);
        let number = self.checked;
        let plan = self.plan;
        let from = plan.members.partition_point(|member| member.group < number);
        for member in &plan.members[from..from + usize::from(group.members)] {
            let offset = member.displacement - group.address.displacement;
            self.cold.raw(&pack_member(offset as u16, member.access.kind).to_le_bytes());
        }
        Ok(())
    }
}

fn pack_member(offset: u16, kind: Kind) -> u16 {
    offset << 2 | kind_bits(kind)
}
