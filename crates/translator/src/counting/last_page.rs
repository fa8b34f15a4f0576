//! The inline last-page cache: how the accesses of a group ([`crate::ir::plan`]) are counted without looking anything
//! up.
//!
//! Problem: the flat tables cost two increments at addresses that depend on the page, for each access. Most accesses
//! hit the page that the same instruction hit the last time, and all accesses of a segment happen once whenever the
//! segment is executed.
//!
//! Mechanism: each segment has an *execution counter* in the thread, and each group a [`LastPage`] record there: the
//! page that it hit last, and the number of the execution since when. While the page stays the same, only executions
//! are counted:
//!
//! ```text
//!   inc  qword gs:[executions]          once in a segment
//!   lea  r1, [lowest operand]
//!   sub  r1, gs:[record + PAGE]
//!   cmp  r1, 4096 - span
//!   jae  stub                           another page, or across the end of this one
//! back:
//! ```
//! When the page changes, [`crate::settle_last_page`] flushes the record: it adds the executions since then to the flat
//! tables, to the page's counters times the group's reads and writes, and to the group's row of site counters, which
//! stands for one access of each member. Whoever reads the counters does the same with the records that hold a page:
//! what is pending is `executions - SINCE`, for the page and class in `ENTRY`. So nothing has to be done when a thread
//! ends, or is killed (which within some loops costs their last iterations: [`super::derived`]).
//!
//! A group that changes its page too often is *megamorphic*. Its stub looks its page up and counts it immediately,
//! until its fragment is translated again: then it has a direct table ([`super::direct`]) and no record; or, where
//! there is none for it, its check does the same as the stub ([`super::megamorphic`]), and its record holds a class of
//! pages, for the row of site counters alone (the page in `ENTRY` is none). Where the class changes too often as well,
//! both are counted immediately and there is no record. Members of a group that lie across the end of a page are
//! counted one by one. Pages that are not known are left to [`crate::count::settle`].
//!
//! An execution that is left in its middle, by a fault or for a signal, has counted accesses that do not happen:
//! [`crate::count::abandon`] takes them back.
//!
//! The order of the stores in a change lets another process read at any time without counting anything twice: it reads
//! the flat tables first, then `ENTRY`, `SINCE`, the executions, and `SINCE` and `ENTRY` again, and skips a record that
//! changed meanwhile.

use super::strategy::{CountStrategy, GroupAt};
use super::stub::{constant_page_stub, other_page_stub};
use crate::emit::{Emitter, Memory, operand};
use crate::{Config, Error, LastPage, Shape, Way};
use numalens_isa::PAGE;

/// The last page of a group at constant addresses, which is the same in each execution.
pub(crate) struct ConstantPage;

impl CountStrategy<GroupAt<'_>> for ConstantPage {
    const WAY: Way = Way::ConstantPage;

    fn suits(_: &Config, of: &GroupAt<'_>) -> bool {
        of.group.is_constant()
    }

    fn write(out: &mut Emitter<'_>, of: &GroupAt<'_>) -> Result<(), Error> {
        let page = of.place.record + LastPage::PAGE;
        out.hot.compare_context(true, page, 0);
        let miss = out.hot.relative(&[0x0f, 0x84]);
        let (stub, back) = (out.cold.here(), out.hot.here());
        out.resolve_hot(miss, stub)?;
        constant_page_stub(out, of, back)
    }
}

/// The last page of any other group.
pub(crate) struct MovingPage;

impl CountStrategy<GroupAt<'_>> for MovingPage {
    const WAY: Way = Way::LastPage;

    fn suits(_: &Config, of: &GroupAt<'_>) -> bool {
        !of.group.is_constant()
    }

    fn write(out: &mut Emitter<'_>, of: &GroupAt<'_>) -> Result<(), Error> {
        let &GroupAt { group, place, live, .. } = of;
        let registers = group.address.registers(Shape::Plain);
        out.scratch.restore(&mut out.hot, registers);
        let r1 = out.scratch.pick(&mut out.hot, live, registers);
        out.map_spilled();
        operand(&mut out.hot, r1, group);
        out.hot.memory(true, &[0x2b], r1, Memory::context(place.record + LastPage::PAGE));
        out.hot.compare(r1, PAGE as i32 - group.span as i32);
        let miss = out.hot.relative(&[0x0f, 0x83]);
        let (stub, back) = (out.cold.here(), out.hot.here());
        out.resolve_hot(miss, stub)?;
        other_page_stub(out, of, r1, back)
    }
}
