//! Groups that change their page too often for a last page: looked up in place.
//!
//! For groups that have no direct table ([`super::direct`]), as these are limited, or did not pay.
//!
//! A group of a loop begins with a last page ([`super::last_page`]). When it has changed its page in more than one
//! iteration of sixteen, a jump to a stub in the cold half for each iteration costs more than looking it up. So the
//! fragment is translated again ([`crate::Cache::retranslate`]), with the look-up in place of the check. The row of
//! site counters still costs nothing: the record holds a class of pages, and what is compared is the class. Where that
//! changes in more than one iteration of sixteen as well, the fragment is translated once more, and the group counted
//! immediately ([`super::immediate`]).
//!
//! ```text
//!   lea  r1, [lowest operand + room]    } if there is more than one address: see
//!   test r1d, 0x1000 - room             } [`super::immediate`]
//!   jz   settle                         }
//!   shr  r1, 12
//!   mov  r1, [shadow + r1*8]
//!   inc  r1
//!   cmp  r1d, gs:[record + CLASS]
//!   jne  stub                           another class, or not known
//!   shr  r1, 32
//!   add  qword gs:[r1], reads
//! ```

use super::strategy::{CountStrategy, GroupAt};
use super::stub::{other_class, settle_from};
use crate::emit::{Emitter, Memory, count_in_page, load_entry};
use crate::ir::mark::State;
use crate::{Config, Error, LastPage, Shape, Way};
use numalens_isa::PAGE_BITS;

/// A megamorphic group that has no direct table.
pub(crate) struct Megamorphic;

impl CountStrategy<GroupAt<'_>> for Megamorphic {
    const WAY: Way = Way::Megamorphic;

    fn suits(_: &Config, of: &GroupAt<'_>) -> bool {
        of.group.megamorphic
    }

    fn write(out: &mut Emitter<'_>, of: &GroupAt<'_>) -> Result<(), Error> {
        let &GroupAt { group, place, live, .. } = of;
        let registers = group.address.registers(Shape::Plain);
        out.scratch.restore(&mut out.hot, registers);
        let r1 = out.scratch.pick(&mut out.hot, live, registers);
        out.map_spilled();
        let across = out.operand_in_one_page(r1, group);
        out.hot.shift_right(r1, PAGE_BITS);
        load_entry(&mut out.hot, out.config.shadow, r1);
        out.hot.increment_register(r1);
        out.hot.memory(false, &[0x3b], r1, Memory::context(place.record + LastPage::CLASS)); // cmp r1d, gs:[class]
        let other = out.hot.relative(&[0x0f, 0x85]);
        out.map_hot(State::Counting);
        count_in_page(&mut out.hot, out.config, r1, (group.reads, group.writes));
        let back = out.hot.here();
        if let Some(across) = across {
            let stub = out.cold.here();
            out.resolve_hot(across, stub)?;
            out.map_cold(State::Counting);
            settle_from(out, of, r1, back)?;
        }
        let stub = out.cold.here();
        out.resolve_hot(other, stub)?;
        other_class(out, of, r1, [None; 2], back)
    }
}
