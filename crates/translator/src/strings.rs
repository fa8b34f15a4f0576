//! Repeated string instructions: reported before, where they write, and counted afterwards, by what their registers
//! were and are.
//!
//! Compilers copy and clear small structures with them, so most are short: where flags are dead and all lies in pages
//! that are known, nothing is reported before, and a routine in assembly ([`count_string`]) counts. What it leaves goes
//! to [`crate::count::settle`].
//!
//! ```text
//!   lea  r1, [rdi + rcx*size]           } nor downwards
//!   xor  r1, rdi                        }
//!   shr  r1, 12                         }
//!   jnz  report                         past the page of rdi
//!   mov  r1, [shadow + page of rdi]
//!   cmp  r1d, column of `PageEntry::READ_ONLY`
//!   jbe  report                         not known, or about to be written for the first time
//! ```

use crate::count::{Operation, What};
use crate::decode::Decoded;
use crate::emit::{Memory, RCX, RDI, RSI};
use crate::fragment::State;
use crate::instrument::{call_out, describe, load_entry};
use crate::liveness::Live;
use crate::translate::Builder;
use crate::{Env, Error, Site, SiteId, context};
use alloc::vec::Vec;
use numalens_isa::{Access, Kind};

/// What the routine must know, in the cold half, behind [`crate::last_page::descriptor::BACK`].
pub(crate) mod descriptor {
    /// Offsets from GS of the rows of the sites of source and destination; 0: there is none (32 bits each).
    pub const SOURCE: u32 = 8;
    pub const DESTINATION: u32 = 12;
    /// log2 of the bytes of an element (8 bits).
    pub const SIZE: u32 = 16;
}

unsafe extern "C" {
    /// Through `context::COUNT_STRING`.
    #[link_name = "numalens_count_string"]
    pub fn count_string();
}

impl<E: Env> Builder<'_, E> {
    /// A repeated string instruction with its counting around it.
    pub(crate) fn string(&mut self, one: &Decoded, code: &[u8], list: &[Access]) -> Result<(), Error> {
        let is_source = |access: &&Access| access.address.base == Some(RSI);
        let source = list.iter().find(is_source);
        let destination = list.iter().find(|access| !is_source(access));
        let what = string_operation(source, destination);
        let mut sites = Vec::with_capacity(2);
        for access in source.iter().chain(destination.iter()) {
            sites.push(self.new_site(&Site::new(one.instruction.ip(), access))?);
        }
        if let Some(&site) = sites.last().filter(|_| what.destination && what.kind != Kind::Read) {
            self.ahead_of_string(&what, site, one.before)?;
            self.scratch.restore(&mut self.hot, one.usage.reads);
            self.map_hot(State::Before);
        }
        self.before_string(&what, &sites);
        self.map_hot(State::String);
        self.hot.copy(code, one.length);
        self.counted = sites.len() as u8;
        self.map_hot(State::Counting);
        self.scratch.current += 1;
        self.after_string(&what, &sites, one.before)
    }

    /// Whether `what` is done in place where it can be: flags are dead, also behind it, as instructions that write
    /// leave them alone.
    fn is_simple(&self, what: &What, live: Live) -> bool {
        let writes = !what.destination || what.kind == Kind::Write;
        live.flags == 0 && writes && !what.narrow && !what.has_fs && !self.config.each
    }

    /// Reports a repeated string instruction that writes, before it.
    fn ahead_of_string(&mut self, what: &What, site: SiteId, live: Live) -> Result<(), Error> {
        let r1 = self.scratch.pick(&mut self.hot, live.registers, 1 << RCX | 1 << RSI | 1 << RDI);
        self.map_spilled();
        let before = What { before: true, ..*what };
        if !self.is_simple(what, live) {
            return self.call_out_inline(&before, site, &[RCX, RDI], r1);
        }
        let end = |index| Memory::Flat { base: Some(RDI), index: Some(index), scale: what.size, displacement: 0 };
        let mut report = Vec::with_capacity(4);
        for downwards in [false, true] {
            if downwards {
                self.hot.move64(r1, RCX);
                self.hot.registers(true, &[0xf7], 3, r1); // neg
            }
            self.hot.lea(r1, end(if downwards { r1 } else { RCX }));
            self.hot.registers(true, &[0x33], r1, RDI); // xor
            self.hot.shift_right(r1, 12);
            report.push(self.hot.relative(&[0x0f, 0x85])); // jnz
        }
        // Nothing may be done at an address that is none: the table has no entry for it.
        self.hot.move64(r1, RDI);
        self.hot.shift_right(r1, 47);
        report.push(self.hot.relative(&[0x0f, 0x85])); // jnz
        self.hot.move64(r1, RDI);
        self.hot.shift_right(r1, 12);
        load_entry(&mut self.hot, self.config.shadow, r1);
        self.hot.compare_half(r1, self.config.read_only());
        report.push(self.hot.relative(&[0x0f, 0x86])); // jbe
        let back = self.hot.here();
        for field in report {
            self.resolve_hot(field, self.cold.here())?;
        }
        self.map_cold(State::Before);
        call_out(&mut self.cold, &before, &[site], &[(0, RCX), (1, RDI)], r1);
        self.return_to(r1, back)
    }

    /// Remembers rcx, rsi and rdi before a repeated string instruction, and what it is, so that it can be counted when
    /// it is stopped.
    fn before_string(&mut self, what: &What, sites: &[SiteId]) {
        for (number, register) in [RCX, RSI, RDI].into_iter().enumerate() {
            self.hot.store(register, Memory::context(context::STRING_BEFORE + 8 * number as u32));
        }
        describe(&mut self.hot, what, sites);
    }

    /// Counts a repeated string instruction after it.
    fn after_string(&mut self, what: &What, sites: &[SiteId], live: Live) -> Result<(), Error> {
        let avoid = 1 << RCX | 1 << RSI | 1 << RDI;
        let r1 = self.scratch.pick(&mut self.hot, u16::MAX, avoid);
        self.map_spilled();
        for (number, register) in [RCX, RSI, RDI].into_iter().enumerate() {
            self.hot.store(register, Memory::context(context::COUNT_ARGUMENTS + 8 * number as u32));
        }
        if self.is_simple(what, live) {
            let field = self.hot.load_address(r1);
            self.hot.store(r1, Memory::context(context::COUNT_ARGUMENTS + 24));
            self.hot.jump_context(None, context::COUNT_STRING);
            let back = self.hot.here();
            self.cold.align(8, 0xcc);
            self.resolve_hot(field, self.cold.here())?;
            let mut rows = sites.iter().map(|site| self.config.site_counter(*site, 0).ok_or(Error::TooMany));
            let mut row = |there: bool| if there { rows.next().unwrap_or(Err(Error::TooMany)) } else { Ok(0) };
            let rows = [row(what.source)?, row(what.destination)?];
            self.cold.imm64(back);
            rows.into_iter().for_each(|row| self.cold.imm32(row));
            self.cold.raw(&[what.size.trailing_zeros() as u8]);
            return Ok(());
        }
        if what.has_fs {
            self.hot.read_fs(r1);
            self.hot.store(r1, Memory::context(context::COUNT_ARGUMENTS + 24));
        } else {
            self.hot.store_constant(context::COUNT_ARGUMENTS + 24, 0);
        }
        self.leave_to_count(r1)
    }
}

/// What a repeated string instruction does.
fn string_operation(source: Option<&Access>, destination: Option<&Access>) -> What {
    let one = destination.or(source);
    let size = one.map_or(1, |access| access.size as u8);
    What {
        operation: Operation::String,
        kind: destination.map_or(Kind::Read, |access| access.kind),
        size,
        narrow: one.is_some_and(|access| access.address.narrow),
        source: source.is_some(),
        destination: destination.is_some(),
        has_fs: source.is_some_and(|access| access.address.fs),
        ..What::one(Kind::Read)
    }
}
