//! Gathers and scatters: each active element is an access at an address of its own.
//!
//! Where flags are dead, a routine in assembly ([`count_elements`]) looks the pages of all elements up and counts each:
//! code that was compiled for wide vectors gathers in its innermost loops, and to describe each to
//! [`crate::count::settle`] takes ten times as long. That one is left with what the routine does not do: pages that are
//! not known, and other forms.
//!
//! ```text
//!   vmovdqu gs:[vector], indices
//!   mov  gs:[argument 0], address without the index
//!   mov  gs:[argument 1], mask
//!   lea  r1, [descriptor]
//!   mov  gs:[argument 2], r1
//!   jmp  gs:[COUNT_ELEMENTS]            comes back behind, or goes on to COUNT
//! ```

use crate::count::What;
use crate::emit::Memory;
use crate::translate::Builder;
use crate::{Env, Error, SiteId, context};
use numalens_isa::Kind;

/// What the routine must know, in the cold half, behind [`crate::last_page::descriptor::BACK`].
pub(crate) mod descriptor {
    /// What is counted, among the counters of a page: reads, or writes, which are 8 bytes further (64 bits).
    pub const COUNTER: u32 = 8;
    /// Offset from GS of the site's row of counters; the [`crate::count::What`] and the site for who asks (32 bits
    /// each).
    pub const ROW: u32 = 16;
    pub const WHAT: u32 = 20;
    pub const SITE: u32 = 24;
    /// The least lower half of a page's word that may be counted in (32 bits).
    pub const LEAST: u32 = 28;
    /// A bit for each element that there is (16 bits).
    pub const LANES: u32 = 32;
    /// log2 of the scale; 1: indices have 64 bits (8 bits each).
    pub const SCALE: u32 = 34;
    pub const WIDE: u32 = 35;
}

unsafe extern "C" {
    /// Through `context::COUNT_ELEMENTS`.
    #[link_name = "numalens_count_elements"]
    pub fn count_elements();
}

impl<E: Env> Builder<'_, E> {
    /// Counts what `what` describes; the registers hold address and mask, the indices have been stored.
    pub(crate) fn count_elements_immediately(
        &mut self,
        what: &What,
        site: SiteId,
        [r1, r2]: [u8; 2],
    ) -> Result<(), Error> {
        let argument = |number: u32| Memory::context(context::COUNT_ARGUMENTS + 8 * number);
        self.hot.store(r1, argument(0));
        self.hot.store(r2, argument(1));
        let field = self.hot.load_address(r1);
        self.hot.store(r1, argument(2));
        self.hot.jump_context(None, context::COUNT_ELEMENTS);
        let back = self.hot.here();
        self.cold.align(8, 0xcc);
        self.resolve_hot(field, self.cold.here())?;
        let row = self.config.site_counter(site, 0).ok_or(Error::TooMany)?;
        let (counter, least) = match what.kind {
            Kind::Read => (0, 1),
            _ => (8, self.config.read_only() + 1),
        };
        self.cold.imm64(back);
        self.cold.imm64(counter);
        for word in [row, what.pack() as u32, site.0, least] {
            self.cold.imm32(word);
        }
        let lanes = 1u32.checked_shl(what.lanes.into()).unwrap_or(0).wrapping_sub(1) as u16;
        self.cold.raw(&lanes.to_le_bytes());
        self.cold.raw(&[what.scale.trailing_zeros() as u8, u8::from(what.index_size == 8)]);
        Ok(())
    }
}
