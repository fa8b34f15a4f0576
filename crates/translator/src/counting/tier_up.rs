//! Loops that have not had many iterations yet.
//!
//! Problem: last pages ([`super::last_page`]) make an iteration cheap and each change of page dear, and they take
//! longer to translate. In a loop of thousands of iterations that is nothing; but most loops of a large program (a
//! compiler has tens of thousands) have some dozen iterations altogether.
//!
//! Mechanism: a loop begins with its groups counted immediately ([`super::immediate`]), without a long look ahead at
//! what is live, and with a count of its iterations at its head. When a thread has made so many that the rest will pay,
//! the fragment is translated again ([`crate::Cache::retranslate`]), with last pages and without the count:
//!
//! ```text
//!   inc  word gs:[record + MISSES]
//!   jz   stub                           2^16 iterations
//! ```
//! That needs dead flags at the head, and a register for the stub. Where there is none, the loop has last pages from
//! the beginning.

use crate::abi::registers::RSP;
use crate::abi::what::{Operation, RetranslateReason, What};
use crate::emit::{Emitter, Memory, call_out};
use crate::ir::decode::Decoded;
use crate::ir::mark::State;
use crate::{Error, LastPage, SiteId};
use numalens_isa::Kind;

/// A register that is dead at the head of a fragment where flags are dead as well.
pub(crate) fn free_register(list: &[Decoded]) -> Option<u8> {
    let live = list.first()?.before;
    (0..16u8).find(|&register| live.flags == 0 && register != RSP && live.registers >> register & 1 == 0)
}

/// Counts an iteration in a record, at the head of the fragment; `r1` is dead there.
pub(crate) fn count_until_tier_up(out: &mut Emitter<'_>, record: u32, r1: u8) -> Result<(), Error> {
    out.map_hot(State::Before);
    out.hot.raw(&[0x66]);
    out.hot.memory(false, &[0xff], 0, Memory::context(record + LastPage::MISSES));
    let many = out.hot.relative(&[0x0f, 0x84]);
    let back = out.hot.here();
    let stub = out.cold.here();
    out.resolve_hot(many, stub)?;
    out.map_cold(State::Counting);
    let what = What { operation: Operation::Again, ..What::one(Kind::Read) };
    call_out(&mut out.cold, &what, &[SiteId(0), SiteId(RetranslateReason::LongLoop as u32)], &[], r1);
    out.return_to(r1, back)
}
