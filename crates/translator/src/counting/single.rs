//! One access at a time: a plain operand is looked up and counted before its instruction.
//!
//! Inline, where flags are dead:
//!
//! ```text
//!   lea   r1, [address]
//!   shr   r1, 12                        page number
//!   mov   r1, [shadow + r1*8]           its word: the column of the class below, the page's counters above
//!   test  r1d, r1d                      } where it writes: cmp r1d, column of
//!   jz    cold                          } `PageEntry::READ_ONLY`; jbe
//!   inc   qword gs:[r1d + row]          the site's
//!   shr   r1, 32
//!   inc   qword gs:[r1]                 reads, or writes 8 bytes further, or, for both at once,
//!                                       half as far among the updates
//! ```
//! One register, and offsets as they are: in large programs each of these lines is there a hundred thousand times, and
//! the caches hold little of their code. (Another register for the column, and tables that are indexed, take gcc a
//! sixth more code and 3 to 5 % more time.)
//!
//! Where flags are live, `shrx` shifts, and they are put into rax (`lahf`, `seto`) once the word is there, and back
//! from there in the end. What faults for an address that nobody can map does so before.

use super::strategy::{AccessAt, CountStrategy};
use crate::abi::registers::RAX;
use crate::abi::what::What;
use crate::emit::{Emitter, address, call_out, load_entry, reads_and_writes};
use crate::ir::mark::State;
use crate::{Config, Error, Shape, Way};
use numalens_isa::PAGE_BITS;

/// Flags are dead.
pub(crate) struct Single;

impl CountStrategy<AccessAt<'_>> for Single {
    const WAY: Way = Way::Single;

    fn suits(_: &Config, of: &AccessAt<'_>) -> bool {
        of.access.shape == Shape::Plain && of.live.flags == 0
    }

    fn write(out: &mut Emitter<'_>, of: &AccessAt<'_>) -> Result<(), Error> {
        let &AccessAt { access, site, live, .. } = of;
        let avoid = access.address.registers(access.shape);
        let r1 = out.scratch.pick(&mut out.hot, live.registers, avoid);
        let r2 = match access.address.fs {
            true => out.scratch.pick(&mut out.hot, live.registers, avoid | 1 << r1),
            false => r1,
        };
        out.map_spilled();
        if access.address.is_constant() {
            out.load_entry_of(r1, access.address.displacement as u64 >> PAGE_BITS);
        } else {
            address(&mut out.hot, r1, r2, &access.address, access.shape);
            out.hot.shift_right(r1, PAGE_BITS);
            load_entry(&mut out.hot, out.config.shadow, r1);
        }
        let cold = out.count_entry(r1, reads_and_writes(access.kind), out.site_offset(site)?);
        let back = out.hot.here();
        out.resolve_hot(cold, out.cold.here())?;
        out.map_cold(State::Counting);
        address(&mut out.cold, r1, r2, &access.address, access.shape);
        call_out(&mut out.cold, &What::one(access.kind), &[site], &[(0, r1)], r1);
        out.return_to(r1, back)
    }
}

/// Flags are live: they are in rax meanwhile.
pub(crate) struct SingleQuietly;

impl CountStrategy<AccessAt<'_>> for SingleQuietly {
    const WAY: Way = Way::SingleQuietly;

    fn suits(_: &Config, of: &AccessAt<'_>) -> bool {
        of.access.shape == Shape::Plain
    }

    fn write(out: &mut Emitter<'_>, of: &AccessAt<'_>) -> Result<(), Error> {
        let &AccessAt { access, site, live, .. } = of;
        let avoid = access.address.registers(access.shape);
        let r1 = out.scratch.pick(&mut out.hot, live.registers, avoid | 1 << RAX);
        // In the cold half the address cannot be had from rax any more.
        let keeps_address = avoid >> RAX & 1 != 0;
        let r2 = match access.address.fs || keeps_address {
            true => out.scratch.pick(&mut out.hot, live.registers, avoid | 1 << RAX | 1 << r1),
            false => r1,
        };
        out.map_spilled();
        address(&mut out.hot, r1, r2, &access.address, access.shape);
        if keeps_address {
            out.hot.move64(r2, r1);
        }
        out.entry_before_flags(r1, live.registers);
        let cold = out.count_entry(r1, reads_and_writes(access.kind), out.site_offset(site)?);
        let back = out.hot.here();
        out.hot.flags_from_rax();
        out.resolve_hot(cold, out.cold.here())?;
        out.map_cold(State::Counting);
        match keeps_address {
            true => out.cold.move64(r1, r2),
            false => address(&mut out.cold, r1, r2, &access.address, access.shape),
        }
        call_out(&mut out.cold, &What::one(access.kind), &[site], &[(0, r1)], r1);
        out.return_to(r1, back)
    }
}

/// Leaves for each access ([`Config::each`]), which alters no flags.
pub(crate) struct Apart;

impl CountStrategy<AccessAt<'_>> for Apart {
    const WAY: Way = Way::Apart;

    fn suits(config: &Config, of: &AccessAt<'_>) -> bool {
        config.each.is_some() && of.access.shape == Shape::Plain
    }

    fn write(out: &mut Emitter<'_>, of: &AccessAt<'_>) -> Result<(), Error> {
        let &AccessAt { access, site, live, .. } = of;
        let avoid = access.address.registers(access.shape);
        let r1 = out.scratch.pick(&mut out.hot, live.registers, avoid);
        let r2 = match access.address.fs {
            true => out.scratch.pick(&mut out.hot, live.registers, avoid | 1 << r1),
            false => r1,
        };
        out.map_spilled();
        address(&mut out.hot, r1, r2, &access.address, access.shape);
        out.call_out_inline(&What::sized(access.kind, access.size), site, &[r1], r1)
    }
}
