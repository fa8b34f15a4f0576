//! Direct page counters: a group that changes its page all the time has a counter of its own for each page.
//!
//! Problem: a program that gathers from a large table, or updates it at random, is at another page in each execution.
//! To look the page up ([`super::megamorphic`]) and to count in what was found costs memory accesses one after the
//! other and a second register, besides the row of site counters. While the program waits for memory of its own, each
//! instruction more keeps the processor from looking so much further ahead.
//!
//! Mechanism: a thread has a table of counters for such a group (a *direct table*), one for each page of 1 GiB around
//! the place where the group was first seen. The look-up of the page, its class and its counters is done once for each
//! page, and what is left is one increment at a place that follows from the address:
//!
//! ```text
//!   lea  r1, [operand]
//!   sub  r1, gs:[table + BASE]
//!   shr  r1, 12
//!   cmp  r1, 0x40000
//!   jae  stub                           another part of memory, or the direct table is to be looked at
//!   inc  dword gs:[counters + r1*4]
//!   jns  stub                           the page is not known here
//! back:
//!
//!   a counter        0 ......... 0      not begun
//!                    1 0 c ..... c      counts for the page, slot and class in the second table: c times
//!                    0 1 c ..... c      has done so; to be asked about (the collector wants the next access logged)
//! ```
//! An increment of a counter that has not begun gives a number without the highest bit, as does that of one that is
//! full.
//!
//! **Who reads the counters** adds what a direct table has to the flat tables, as for last pages: the group's reads and
//! writes to those of the page, and one access of each member to the row. Counters are emptied here before the flat
//! tables get what was in them, and whoever reads while the thread runs reads the flat tables first, so nothing is
//! counted twice.
//!
//! **When pages change** (they are unmapped, or have moved), whoever changes them sets [`DirectTable::BASE`] to
//! [`DirectTable::NOWHERE`] in all threads that have counters for such pages between [`DirectTable::LOW`] and
//! [`DirectTable::HIGH`]; the thread itself settles all, and begins again. Only the thread itself writes counters, but
//! for the mark of those that are to be asked about.
//!
//! Pages that are only read so far ([`crate::PageEntry::READ_ONLY`]) are not counted here, as their first write tells
//! nobody. A group that comes to such pages, leaves its 1 GiB, or finds its pages changed, again and again, is looked
//! up in place as before; so are those that there are no more direct tables for.

use super::strategy::{CountStrategy, GroupAt, Place};
use super::stub::{call_for_group, describe_group};
use crate::emit::{Emitter, Memory};
use crate::ir::mark::State;
use crate::{Config, DirectTable, Error, Shape, Way, context};
use numalens_isa::PAGE_BITS;

/// A group that has a direct table.
pub(crate) struct Direct;

impl CountStrategy<GroupAt<'_>> for Direct {
    const WAY: Way = Way::Direct;

    fn suits(_: &Config, of: &GroupAt<'_>) -> bool {
        of.place.last_page.is_none() && of.group.direct.is_some()
    }

    fn write(out: &mut Emitter<'_>, of: &GroupAt<'_>) -> Result<(), Error> {
        let &GroupAt { group, live, .. } = of;
        let Some(direct) = group.direct else { return Ok(()) };
        let header = out.config.direct_header(direct);
        // The routine finds the table where others have a record.
        let of = GroupAt { place: Place { record: header as u32, ..of.place }, ..*of };
        let registers = group.address.registers(Shape::Plain);
        out.scratch.restore(&mut out.hot, registers);
        out.map_hot(State::Before);
        let r1 = out.scratch.pick(&mut out.hot, live, registers);
        out.map_spilled();
        let field = |offset: u32| Memory::context(header.wrapping_add_unsigned(offset) as u32);
        let across = out.operand_in_one_page(r1, group);
        out.hot.memory(true, &[0x2b], r1, field(DirectTable::BASE)); // sub
        out.hot.shift_right(r1, PAGE_BITS);
        out.hot.compare(r1, out.config.direct_pages as i32);
        let outside = out.hot.relative(&[0x0f, 0x83]); // jae
        out.map_hot(State::Counting);
        let counters = out.config.direct_counters(direct);
        out.hot.memory(false, &[0xff], 0, Memory::Context { index: Some(r1), scale: 4, offset: counters }); // inc
        let unknown = out.hot.relative(&[0x0f, 0x89]); // jns
        let back = out.hot.here();
        let number = Memory::context(context::COUNT_ARGUMENTS + 16);
        out.resolve_hot(outside, out.cold.here())?;
        out.map_cold(State::Counting);
        out.cold.store_constant(context::COUNT_ARGUMENTS + 16, 0);
        let outside = call_for_group(out, group, r1, context::COUNT_DIRECT);
        // Which counter has been added to, plus 1: its page may have other neighbours by now.
        out.resolve_hot(unknown, out.cold.here())?;
        out.map_cold(State::Counting);
        out.cold.increment_register(r1);
        out.cold.store(r1, number);
        let unknown = call_for_group(out, group, r1, context::COUNT_DIRECT);
        let mut descriptors = [Some(outside), Some(unknown), None];
        if let Some(across) = across {
            out.resolve_hot(across, out.cold.here())?;
            out.map_cold(State::Counting);
            descriptors[2] = Some(call_for_group(out, group, r1, context::COUNT_GROUP));
        }
        describe_group(out, &of, descriptors, back)
    }
}
