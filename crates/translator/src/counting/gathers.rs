//! Gathers and scatters: each active element is an access at an address of its own.
//!
//! Where flags are dead, a routine in assembly ([`crate::count_elements`]) looks the pages of all elements up and
//! counts each: code that was compiled for wide vectors gathers in its innermost loops, and to describe each to
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

use super::masks::{address_and_mask, lanes};
use super::strategy::{AccessAt, CountStrategy};
use crate::abi::what::{Operation, What};
use crate::emit::{Code, Emitter, Memory};
use crate::{Config, Error, Shape, Way, context};
use iced_x86::Register;
use numalens_isa::Kind;

/// What the accesses are.
fn describe(config: &Config, of: &AccessAt<'_>) -> What {
    let &AccessAt { instruction, access, .. } = of;
    let index_size = if instruction.is_vsib64() { 8 } else { 4 };
    // Pages do not ask for it.
    let size = if config.each.is_some() { instruction.memory_size().element_size().clamp(1, 64) as u8 } else { 1 };
    What {
        operation: Operation::Elements,
        size: size.next_power_of_two(),
        lanes: lanes(instruction),
        index_size,
        scale: access.address.scale,
        narrow: access.address.narrow,
        ..What::one(access.kind)
    }
}

/// Stores the indices, and loads the address without the index and the mask.
fn prepare(out: &mut Emitter<'_>, of: &AccessAt<'_>) -> [u8; 2] {
    let registers = address_and_mask(out, of, 0);
    store_vector(&mut out.hot, of.instruction.memory_index(), of.instruction.has_op_mask());
    registers
}

/// By the routine in assembly. Flags are dead.
pub(crate) struct Gather;

impl CountStrategy<AccessAt<'_>> for Gather {
    const WAY: Way = Way::Elements;

    fn suits(config: &Config, of: &AccessAt<'_>) -> bool {
        let is_simple = |what: What| what.lanes <= 16 && !what.narrow && of.access.kind != Kind::ReadWrite;
        let is_gather = of.access.shape == Shape::Elements && of.live.flags == 0 && config.each.is_none();
        is_gather && is_simple(describe(config, of))
    }

    fn write(out: &mut Emitter<'_>, of: &AccessAt<'_>) -> Result<(), Error> {
        let what = describe(out.config, of);
        let site = of.site;
        let [r1, r2] = prepare(out, of);
        let argument = |number: u32| Memory::context(context::COUNT_ARGUMENTS + 8 * number);
        out.hot.store(r1, argument(0));
        out.hot.store(r2, argument(1));
        let field = out.hot.load_address(r1);
        out.hot.store(r1, argument(2));
        out.hot.jump_context(None, context::COUNT_ELEMENTS);
        let back = out.hot.here();
        out.cold.align(8, 0xcc);
        out.resolve_hot(field, out.cold.here())?;
        let row = out.config.site_counter(site, 0).ok_or(Error::TooMany)?;
        let (counter, least) = match what.kind {
            Kind::Read => (0, 1),
            _ => (8, out.config.read_only() + 1),
        };
        out.cold.imm64(back);
        out.cold.imm64(counter);
        for word in [row, what.pack() as u32, site.0, least] {
            out.cold.imm32(word);
        }
        let lanes = 1u32.checked_shl(what.lanes.into()).unwrap_or(0).wrapping_sub(1) as u16;
        out.cold.raw(&lanes.to_le_bytes());
        out.cold.raw(&[what.scale.trailing_zeros() as u8, u8::from(what.index_size == 8)]);
        Ok(())
    }
}

/// The others, out of line.
pub(crate) struct GatherApart;

impl CountStrategy<AccessAt<'_>> for GatherApart {
    const WAY: Way = Way::Apart;

    fn suits(_: &Config, of: &AccessAt<'_>) -> bool {
        of.access.shape == Shape::Elements
    }

    fn write(out: &mut Emitter<'_>, of: &AccessAt<'_>) -> Result<(), Error> {
        let what = describe(out.config, of);
        let registers = prepare(out, of);
        out.call_out_inline(&what, of.site, &registers, registers[0])
    }
}

/// Stores a vector register at `context::COUNT_VECTOR`.
fn store_vector(code: &mut Code, vector: Register, evex: bool) {
    let number = vector.number() as u8;
    let modrm = [(number & 7) << 3 | 4, 0x25];
    code.raw(&[0x65]);
    if evex {
        // vmovdqu64 gs:[..], vector
        let length = if vector.is_zmm() { 2 } else { u8::from(vector.is_ymm()) };
        let second = u8::from(number & 8 == 0) << 7 | 0x60 | u8::from(number & 16 == 0) << 4 | 1;
        code.raw(&[0x62, second, 0xfe, length << 5 | 8, 0x7f]);
    } else {
        // vmovdqu gs:[..], vector
        code.raw(&[0xc4, u8::from(number < 8) << 7 | 0x61, 0x7a | u8::from(vector.is_ymm()) << 2, 0x7f]);
    }
    code.raw(&modrm);
    code.imm32(context::COUNT_VECTOR);
}
