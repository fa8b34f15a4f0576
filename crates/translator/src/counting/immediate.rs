//! Groups ([`crate::ir::plan`]) that are counted immediately: one look-up for all accesses off one base register.
//!
//! For code that is not in a loop, or that changes its page whenever it runs. What [`super::single`] does for each
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

use super::strategy::{CountStrategy, GroupAt};
use super::stub::describe_group;
use crate::abi::what::What;
use crate::emit::{Emitter, call_out, load_entry, operand};
use crate::ir::mark::State;
use crate::ir::plan::Group;
use crate::{Config, Error, Shape, Way, context};
use numalens_isa::{Kind, PAGE_BITS};

/// A group that has no last page.
pub(crate) struct Immediate;

impl CountStrategy<GroupAt<'_>> for Immediate {
    const WAY: Way = Way::Immediate;

    fn suits(_: &Config, of: &GroupAt<'_>) -> bool {
        of.place.last_page.is_none()
    }

    fn write(out: &mut Emitter<'_>, of: &GroupAt<'_>) -> Result<(), Error> {
        let &GroupAt { group, place, live, .. } = of;
        let registers = group.address.registers(Shape::Plain);
        out.scratch.restore(&mut out.hot, registers);
        out.map_hot(State::Before);
        let r1 = out.scratch.pick(&mut out.hot, live, registers);
        out.map_spilled();
        let mut across = None;
        if group.is_constant() {
            out.load_entry_of(r1, group.address.displacement as u64 >> PAGE_BITS);
        } else {
            across = out.operand_in_one_page(r1, group);
            out.hot.shift_right(r1, PAGE_BITS);
            load_entry(&mut out.hot, out.config.shadow, r1);
        }
        let unknown = out.count_entry(r1, (group.reads, group.writes), place.row);
        let back = out.hot.here();
        let stub = out.cold.here();
        for field in [across, Some(unknown)].into_iter().flatten() {
            out.resolve_hot(field, stub)?;
        }
        out.map_cold(State::Counting);
        if group.is_constant() {
            out.cold.constant(r1, group.address.displacement as u64);
        } else {
            operand(&mut out.cold, r1, group);
        }
        if group.members == 1 && !group.is_constant() {
            call_out(&mut out.cold, &What::one(kind_of(group)), &[place.first], &[(0, r1)], r1);
            return out.return_to(r1, back);
        }
        let field = out.call_with_operand(r1, context::COUNT_GROUP);
        describe_group(out, of, [Some(field), None, None], back)
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
