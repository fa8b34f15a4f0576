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
//! Where flags are live, the same with instructions that leave them alone: `shrx` and `rorx` shift, `lea` adds, `jrcxz`
//! tests; that needs rcx and two more registers.

use super::strategy::{AccessAt, CountStrategy};
use crate::abi::registers::RCX;
use crate::abi::what::What;
use crate::emit::pages::{load_from_table, page_counters};
use crate::emit::{Code, Emitter, Memory, address, call_out, in_row, load_entry, reads_and_writes};
use crate::ir::mark::State;
use crate::{Config, Error, Shadow, Shape, Way, context};
use numalens_isa::{Kind, PAGE_BITS};

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

/// The flags are left alone.
pub(crate) struct SingleQuietly;

impl CountStrategy<AccessAt<'_>> for SingleQuietly {
    const WAY: Way = Way::SingleQuietly;

    fn suits(_: &Config, of: &AccessAt<'_>) -> bool {
        of.access.shape == Shape::Plain
    }

    fn write(out: &mut Emitter<'_>, of: &AccessAt<'_>) -> Result<(), Error> {
        let &AccessAt { access, site, live, .. } = of;
        let avoid = access.address.registers(access.shape) | 1 << RCX;
        let r1 = out.scratch.pick(&mut out.hot, live.registers, avoid);
        let r2 = out.scratch.pick(&mut out.hot, live.registers, avoid | 1 << r1);
        out.map_spilled();
        address(&mut out.hot, r1, r2, &access.address, access.shape);
        out.scratch.take(&mut out.hot, RCX, live.registers);
        out.map_spilled();
        out.hot.constant(r2, PAGE_BITS.into());
        out.hot.shift_right_by(r2, r1, r2);
        if out.config.shadow == Shadow::FromContext {
            out.hot.load(RCX, Memory::context(context::SHADOW_BASE));
            out.hot.lea(r2, Memory::Flat { base: Some(r2), index: Some(RCX), scale: 1, displacement: 0 });
        }
        load_from_table(&mut out.hot, out.config.shadow, r2);
        out.hot.move32(RCX, r2);
        out.hot.raw(&[0xe3, 0]); // jrcxz unknown
        let mut unknown = [Some(out.hot.bytes.len()), None];
        if access.kind != Kind::Read {
            let column = out.config.read_only() as i32;
            let from = |displacement| Memory::base(RCX, displacement);
            out.hot.memory(false, &[0x8d], RCX, from(-column)); // lea ecx, ..
            out.hot.raw(&[0xe3, 0]); // jrcxz unknown
            unknown[1] = Some(out.hot.bytes.len());
            out.hot.memory(false, &[0x8d], RCX, from(column));
        }
        let (shift, counters) = page_counters(out.config, r2, reads_and_writes(access.kind));
        out.hot.rotate_right(r2, r2, shift);
        out.hot.move32(r2, r2);
        out.map_hot(State::Counting);
        let add = |code: &mut Code, memory: Memory, temporary: u8| {
            code.load(temporary, memory);
            code.lea(temporary, Memory::base(temporary, 1));
            code.store(temporary, memory);
        };
        for (_, counter) in counters {
            add(&mut out.hot, counter, r1);
        }
        let offset = out.site_offset(site)?;
        add(&mut out.hot, in_row(RCX, offset), r1);
        out.hot.raw(&[0xeb, 5]); // jmp past the next
        for unknown in unknown.into_iter().flatten() {
            let distance = out.hot.bytes.len() - unknown;
            debug_assert!(distance < 128, "a short jump");
            out.hot.bytes[unknown - 1] = distance as u8;
        }
        let cold = out.hot.relative(&[0xe9]);

        let back = out.hot.here();
        out.resolve_hot(cold, out.cold.here())?;
        out.map_cold(State::Counting);
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
