//! Groups that change their page too often for a last page: looked up in place.
//!
//! For groups that have no direct table ([`crate::direct`]), as these are limited, or did not pay.
//!
//! A group of a loop begins with a last page ([`crate::last_page`]). When it has changed its page in more than one
//! iteration of sixteen, a jump to a stub in the cold half for each iteration costs more than looking it up. So the
//! fragment is translated again ([`crate::Cache::retranslate`]), with the look-up in place of the check. The row of
//! site counters still costs nothing: the record holds a class of pages, and what is compared is the class. Where that
//! changes in more than one iteration of sixteen as well, the fragment is translated once more, and the group counted
//! immediately ([`crate::immediate`]).
//!
//! ```text
//!   lea  r1, [lowest operand + room]    } if there is more than one address: see
//!   test r1d, 0x1000 - room             } [`crate::immediate`]
//!   jz   settle                         }
//!   shr  r1, 12
//!   mov  r1, [shadow + r1*8]
//!   inc  r1
//!   cmp  r1d, gs:[record + CLASS]
//!   jne  stub                           another class, or not known
//!   shr  r1, 32
//!   add  qword gs:[r1], reads
//! ```

use crate::emit::Memory;
use crate::fragment::State;
use crate::instrument::{count_in_page, load_entry};
use crate::last_page::{LastPage, Place};
use crate::plan::Group;
use crate::translate::Builder;
use crate::{Env, Error, Shape};

impl<E: Env> Builder<'_, E> {
    /// Looks a megamorphic group up and counts it, where flags are dead.
    pub(crate) fn check_megamorphic(&mut self, group: &Group, place: &Place, live: u16) -> Result<(), Error> {
        let registers = group.address.registers(Shape::Plain);
        self.scratch.restore(&mut self.hot, registers);
        let r1 = self.scratch.pick(&mut self.hot, live, registers);
        self.map_spilled();
        let across = self.operand_in_one_page(r1, group);
        self.hot.shift_right(r1, 12);
        load_entry(&mut self.hot, self.config.shadow, r1);
        self.hot.increment_register(r1);
        self.hot.memory(false, &[0x3b], r1, Memory::context(place.record + LastPage::CLASS)); // cmp r1d, gs:[class]
        let other = self.hot.relative(&[0x0f, 0x85]);
        self.map_hot(State::Counting);
        count_in_page(&mut self.hot, self.config, r1, (group.reads, group.writes));
        let back = self.hot.here();
        if let Some(across) = across {
            let stub = self.cold.here();
            self.resolve_hot(across, stub)?;
            self.map_cold(State::Counting);
            self.settle_from(group, place, r1, back)?;
        }
        let stub = self.cold.here();
        self.resolve_hot(other, stub)?;
        self.other_class(group, place, r1, [None; 2], back)
    }
}
