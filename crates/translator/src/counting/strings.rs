//! Repeated string instructions: reported before, where they write, and counted afterwards, by what their registers
//! were and are.
//!
//! Compilers copy and clear small structures with them, so most are short: where flags are dead and all lies in pages
//! that are known, nothing is reported before, and a routine in assembly ([`crate::count_string`]) counts. What it
//! leaves goes to [`crate::count::settle`].
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

use super::registry::Registry;
use crate::abi::registers::{RCX, RDI, RSI};
use crate::abi::what::{Operation, What};
use crate::emit::{Emitter, Memory, call_out, describe, load_entry};
use crate::ir::decode::Decoded;
use crate::ir::liveness::Live;
use crate::ir::mark::State;
use crate::{Env, Error, Site, SiteId, Way, context};
use alloc::vec::Vec;
use numalens_isa::{Access, Kind, PAGE_BITS};

/// A repeated string instruction with its counting around it.
pub(crate) fn write_string<E: Env>(
    out: &mut Emitter<'_>,
    registry: &mut Registry<'_, E>,
    one: &Decoded,
    code: &[u8],
    list: &[Access],
) -> Result<(), Error> {
    let is_source = |access: &&Access| access.address.base == Some(RSI);
    let source = list.iter().find(is_source);
    let destination = list.iter().find(|access| !is_source(access));
    let what = string_operation(source, destination);
    let mut sites = Vec::with_capacity(2);
    for access in source.iter().chain(destination.iter()) {
        let site = registry.new_site(&Site::new(one.instruction.ip(), access), out.at.instruction);
        registry.env.counted(site, 1, if is_simple(out, &what, one.before) { Way::Elements } else { Way::Apart });
        sites.push(site);
    }
    if let Some(&site) = sites.last().filter(|_| what.destination && what.kind != Kind::Read) {
        report(out, &what, site, one.before)?;
        out.scratch.restore(&mut out.hot, one.usage.reads);
        out.map_hot(State::Before);
    }
    remember(out, &what, &sites);
    out.map_hot(State::String);
    out.hot.copy(code, one.length);
    out.at.counted = sites.len() as u8;
    out.map_hot(State::Counting);
    out.scratch.current += 1;
    count(out, &what, &sites, one.before)
}

/// Whether `what` is done in place where it can be: flags are dead, also behind it, as instructions that write
/// leave them alone.
fn is_simple(out: &Emitter<'_>, what: &What, live: Live) -> bool {
    let writes = !what.destination || what.kind == Kind::Write;
    live.flags == 0 && writes && !what.narrow && !what.has_fs && out.config.each.is_none()
}

/// Reports a repeated string instruction that writes, before it.
fn report(out: &mut Emitter<'_>, what: &What, site: SiteId, live: Live) -> Result<(), Error> {
    let r1 = out.scratch.pick(&mut out.hot, live.registers, 1 << RCX | 1 << RSI | 1 << RDI);
    out.map_spilled();
    let before = What { before: true, ..*what };
    if !is_simple(out, what, live) {
        return out.call_out_inline(&before, site, &[RCX, RDI], r1);
    }
    let end = |index| Memory::Flat { base: Some(RDI), index: Some(index), scale: what.size, displacement: 0 };
    let mut report = Vec::with_capacity(4);
    for downwards in [false, true] {
        if downwards {
            out.hot.move64(r1, RCX);
            out.hot.registers(true, &[0xf7], 3, r1); // neg
        }
        out.hot.lea(r1, end(if downwards { r1 } else { RCX }));
        out.hot.registers(true, &[0x33], r1, RDI); // xor
        out.hot.shift_right(r1, PAGE_BITS);
        report.push(out.hot.relative(&[0x0f, 0x85])); // jnz
    }
    // Nothing may be done at an address that is none: the table has no entry for it.
    out.hot.move64(r1, RDI);
    out.hot.shift_right(r1, 47);
    report.push(out.hot.relative(&[0x0f, 0x85])); // jnz
    out.hot.move64(r1, RDI);
    out.hot.shift_right(r1, PAGE_BITS);
    load_entry(&mut out.hot, out.config.shadow, r1);
    out.hot.compare_half(r1, out.config.read_only());
    report.push(out.hot.relative(&[0x0f, 0x86])); // jbe
    let back = out.hot.here();
    for field in report {
        out.resolve_hot(field, out.cold.here())?;
    }
    out.map_cold(State::Before);
    call_out(&mut out.cold, &before, &[site], &[(0, RCX), (1, RDI)], r1);
    out.return_to(r1, back)
}

/// Remembers rcx, rsi and rdi before a repeated string instruction, and what it is, so that it can be counted when
/// it is stopped.
fn remember(out: &mut Emitter<'_>, what: &What, sites: &[SiteId]) {
    for (number, register) in [RCX, RSI, RDI].into_iter().enumerate() {
        out.hot.store(register, Memory::context(context::STRING_BEFORE + 8 * number as u32));
    }
    describe(&mut out.hot, what, sites);
}

/// Counts a repeated string instruction after it.
fn count(out: &mut Emitter<'_>, what: &What, sites: &[SiteId], live: Live) -> Result<(), Error> {
    let avoid = 1 << RCX | 1 << RSI | 1 << RDI;
    let r1 = out.scratch.pick(&mut out.hot, u16::MAX, avoid);
    out.map_spilled();
    for (number, register) in [RCX, RSI, RDI].into_iter().enumerate() {
        out.hot.store(register, Memory::context(context::COUNT_ARGUMENTS + 8 * number as u32));
    }
    if is_simple(out, what, live) {
        let field = out.hot.load_address(r1);
        out.hot.store(r1, Memory::context(context::COUNT_ARGUMENTS + 24));
        out.hot.jump_context(None, context::COUNT_STRING);
        let back = out.hot.here();
        out.cold.align(8, 0xcc);
        out.resolve_hot(field, out.cold.here())?;
        let mut rows = sites.iter().map(|site| out.config.site_counter(*site, 0).ok_or(Error::TooMany));
        let mut row = |there: bool| if there { rows.next().unwrap_or(Err(Error::TooMany)) } else { Ok(0) };
        let rows = [row(what.source)?, row(what.destination)?];
        out.cold.imm64(back);
        rows.into_iter().for_each(|row| out.cold.imm32(row));
        out.cold.raw(&[what.size.trailing_zeros() as u8]);
        return Ok(());
    }
    if what.has_fs {
        out.hot.read_fs(r1);
        out.hot.store(r1, Memory::context(context::COUNT_ARGUMENTS + 24));
    } else {
        out.hot.store_constant(context::COUNT_ARGUMENTS + 24, 0);
    }
    out.leave_to_count(r1)
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
