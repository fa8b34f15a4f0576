//! Groups ([`crate::plan`]) that are counted immediately: one look-up for all accesses off one base register.
//!
//! For code that is not in a loop, or that changes its page whenever it runs. What [`crate::instrument`] does for each
//! access is done once for the lowest operand: the page's counters get the group's reads and writes, and the row that
//! stands for one access of each member gets one. Where the group may lie across the end of a page, or the page is not
//! known, [`crate::count_group`] counts each member by itself.
//!
//! ```text
//!   lea  r1, [lowest operand + room]    } if there is more than one address: room is the next
//!   test r1d, 0x1000 - room             } power of two from its span on; nothing is left of the
//!   jz   stub                           } sum within its page if it is the next page
//!   shr  r1, 12
//!   mov  r1, [shadow + r1*8]
//!   test r1d, r1d
//!   jz   stub
//!   inc  qword gs:[r1d + row]
//!   shr  r1, 32
//!   add  qword gs:[r1], reads
//! back:
//! ```

use crate::count::What;
use crate::emit::{Field, Memory};
use crate::fragment::State;
use crate::instrument::{call_out, load_entry};
use crate::last_page::{Place, operand};
use crate::plan::Group;
use crate::translate::Builder;
use crate::{Env, Error, Shape, context};
use numalens_isa::Kind;

const PAGE: u32 = 4096;

impl<E: Env> Builder<'_, E> {
    /// Counts a group where flags are dead.
    pub(crate) fn count_immediately(&mut self, group: &Group, place: &Place, live: u16) -> Result<(), Error> {
        let registers = group.address.registers(Shape::Plain);
        self.scratch.restore(&mut self.hot, registers);
        self.map_hot(State::Before);
        let r1 = self.scratch.pick(&mut self.hot, live, registers);
        self.map_spilled();
        let mut across = None;
        if group.is_constant() {
            self.load_entry_of(r1, group.address.displacement as u64 >> 12);
        } else {
            across = self.operand_in_one_page(r1, group);
            self.hot.shift_right(r1, 12);
            load_entry(&mut self.hot, self.config.shadow, r1);
        }
        let unknown = self.count_entry(r1, (group.reads, group.writes), place.row);
        let back = self.hot.here();
        let stub = self.cold.here();
        for field in [across, Some(unknown)].into_iter().flatten() {
            self.resolve_hot(field, stub)?;
        }
        self.map_cold(State::Counting);
        if group.is_constant() {
            self.cold.constant(r1, group.address.displacement as u64);
        } else {
            operand(&mut self.cold, r1, group);
        }
        if group.members == 1 && !group.is_constant() {
            call_out(&mut self.cold, &What::one(kind_of(group)), &[place.first], &[(0, r1)], r1);
            return self.return_to(r1, back);
        }
        let field = self.call_with_operand(r1, context::COUNT_GROUP);
        self.describe_group(group, place, [Some(field), None, None], back)
    }

    /// Puts an address in the page of a group's operands into `r1`. Goes to what is returned if they may lie across the
    /// end of one, and never if they do not.
    pub(crate) fn operand_in_one_page(&mut self, r1: u8, group: &Group) -> Option<Field> {
        if group.span == 0 {
            operand(&mut self.hot, r1, group);
            return None;
        }
        let room = (group.span as u32).next_power_of_two();
        let shift = group.shift + i64::from(room);
        if i32::try_from(group.address.displacement + shift).is_ok() {
            let mut further = *group;
            further.shift = shift;
            operand(&mut self.hot, r1, &further);
        } else {
            operand(&mut self.hot, r1, group);
            self.hot.lea(r1, Memory::base(r1, room as i32));
        }
        self.hot.test(r1, PAGE - room);
        Some(self.hot.relative(&[0x0f, 0x84]))
    }
}

/// What the only member of a group does.
fn kind_of(group: &Group) -> Kind {
    match (group.reads, group.writes) {
        (0, _) => Kind::Write,
        (_, 0) => Kind::Read,
        _ => Kind::ReadWrite,
    }
}
