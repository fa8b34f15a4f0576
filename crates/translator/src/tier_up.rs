//! Loops that have not had many iterations yet.
//!
//! Problem: last pages ([`crate::last_page`]) make an iteration cheap and each change of page dear, and they take
//! longer to translate. In a loop of thousands of iterations that is nothing; but most loops of a large program (a
//! compiler has tens of thousands) have some dozen iterations altogether.
//!
//! Mechanism: a loop begins with its groups counted immediately ([`crate::immediate`]), without a long look ahead at
//! what is live, and with a count of its iterations at its head. When a thread has made so many that the rest will pay,
//! the fragment is translated again ([`crate::Cache::retranslate`]), with last pages and without the count:
//!
//! ```text
//!   inc  word gs:[record + MISSES]
//!   jz   stub                           2^16 iterations
//! ```
//! That needs dead flags at the head, and a register for the stub. Where there is none, the loop has last pages from
//! the beginning.

use crate::count::{Operation, RetranslateReason, What};
use crate::decode::Decoded;
use crate::emit::{Memory, RSP};
use crate::fragment::State;
use crate::instrument::call_out;
use crate::last_page::LastPage;
use crate::translate::Builder;
use crate::{Env, Error, LastPageId, SiteId};
use numalens_isa::Kind;

/// A register that is dead at the head of a fragment where flags are dead as well.
pub(crate) fn free_register(list: &[Decoded]) -> Option<u8> {
    let live = list.first()?.before;
    (0..16u8).find(|&register| live.flags == 0 && register != RSP && live.registers >> register & 1 == 0)
}

impl<E: Env> Builder<'_, E> {
    /// Counts an iteration, at the head of the fragment; `r1` is dead there.
    pub(crate) fn count_until_tier_up(&mut self, r1: u8) -> Result<(), Error> {
        let Some(record) = self.config.last_page_record(LastPageId(self.numbers.last_pages)) else { return Ok(()) };
        self.numbers.last_pages += 1;
        self.map_hot(State::Before);
        self.hot.raw(&[0x66]);
        self.hot.memory(false, &[0xff], 0, Memory::context(record + LastPage::MISSES));
        let many = self.hot.relative(&[0x0f, 0x84]);
        let back = self.hot.here();
        let stub = self.cold.here();
        self.resolve_hot(many, stub)?;
        self.map_cold(State::Counting);
        let what = What { operation: Operation::Again, ..What::one(Kind::Read) };
        call_out(&mut self.cold, &what, &[SiteId(0), SiteId(RetranslateReason::LongLoop as u32)], &[], r1);
        self.return_to(r1, back)
    }
}
