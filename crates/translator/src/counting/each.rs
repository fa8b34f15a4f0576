//! Every access by itself, with what is kept of it, in place.
//!
//! Problem: cache lines, a private cache and words want to hear of each access, in order. A way out of the fragment for
//! each costs a hundred times the access.
//!
//! Mechanism: nearly every access changes nothing but counters. Its page is known; the thread was the last one at its
//! line and has accessed these words in its turn; its line is the one used last of its set of the cache. All of that is
//! looked at first, and if so, counted in place. Anything else leaves, before anything is counted, and is counted as
//! if there were no code in place ([`crate::count::settle`]).
//!
//! ```text
//!   lea   r1, [address]                             where flags are live: the page is looked up without them,
//!   entry of its page in r2      unknown: leave     then they are put into rax, and back from there behind it all
//!   page's counters in r3        beyond the tables: leave
//!   turn of the line             another thread's, or other words: leave
//!   newest line of the set       another one: leave
//!   counter of the word          nearly full: leave
//!   inc ...                      site, page, line, word
//! ```
//! 1. What leaves has counted nothing.
//! 2. A turn that has all the words stays as it is, so that it need not be written, and nobody has to agree on it.
//! 3. Only the thread itself makes counters larger, so a word's that is not full stays so; others may take it away at
//!    any time, so it is changed at once.
//! 4. A hit of the newest line leaves the set as it is. Which site had it is noted, as such an access may be taken back.

use super::strategy::{AccessAt, CountStrategy};
use crate::abi::each::{
    CacheSets, Each, LINE_COUNTS_LOG2, LINE_READS, LINE_TURNS_LOG2, LINE_WORDS, PAGE_COUNTERS_LOG2, TURN_THREAD,
    TURN_WORDS, WORD_COUNTS_LOG2, masks_of,
};
use crate::abi::registers::RAX;
use crate::abi::what::What;
use crate::emit::pages::{load_from_table, page_counters};
use crate::emit::{Code, Emitter, Field, Memory, address, call_out, in_row, load_entry, reads_and_writes};
use crate::ir::mark::State;
use crate::{Config, Error, Shadow, Shape, Way, context};
use alloc::vec::Vec;
use numalens_isa::{Kind, PAGE_BITS};

/// Bits of a word's counters that are set where they are nearly full.
const FULL: u64 = 1 << 63 | 1 << 31;
/// One write of a word.
const WORD_WRITE: u64 = 1 << 32;

/// Counts what every access changes, in place.
pub(crate) struct EachInPlace;

/// Registers of the code.
struct Registers {
    /// The address.
    address: u8,
    /// The page's word.
    word: u8,
    /// Where its counters are, from GS.
    page: u8,
    /// Which words of its line the access covers.
    mask: u8,
    free: u8,
}

impl CountStrategy<AccessAt<'_>> for EachInPlace {
    const WAY: Way = Way::Each;

    fn suits(config: &Config, of: &AccessAt<'_>) -> bool {
        let each = config.each.unwrap_or_default();
        let is_any = each.lines || each.cache.is_some() || each.words;
        is_any && of.access.shape == Shape::Plain && masks_of(of.access.kind, of.access.size).is_some()
    }

    fn write(out: &mut Emitter<'_>, of: &AccessAt<'_>) -> Result<(), Error> {
        let &AccessAt { access, site, live, .. } = of;
        let each = out.config.each.unwrap_or_default();
        let keeps_flags = live.flags != 0;
        let mut taken = access.address.registers(access.shape) | u16::from(keeps_flags) << RAX;
        let mut pick = |out: &mut Emitter<'_>| {
            let register = out.scratch.pick(&mut out.hot, live.registers, taken);
            taken |= 1 << register;
            register
        };
        // All of them here: where code leaves, the same are spilled everywhere.
        let r = Registers { address: pick(out), word: pick(out), page: pick(out), mask: pick(out), free: pick(out) };
        let keeps_mask = each.lines && (each.cache.is_some() || each.words);
        let other = if keeps_mask { pick(out) } else { r.mask };
        out.map_spilled();
        address(&mut out.hot, r.address, r.word, &access.address, access.shape);
        if keeps_flags {
            out.scratch.take(&mut out.hot, RAX, live.registers);
            out.map_spilled();
            out.hot.constant(r.word, PAGE_BITS.into());
            out.hot.shift_right_by(r.word, r.address, r.word);
            if out.config.shadow == Shadow::FromContext {
                out.hot.load(r.free, Memory::context(context::SHADOW_BASE));
                out.hot
                    .lea(r.word, Memory::Flat { base: Some(r.word), index: Some(r.free), scale: 1, displacement: 0 });
            }
            load_from_table(&mut out.hot, out.config.shadow, r.word);
            out.map_hot(State::Counting);
            out.hot.flags_to_rax();
        } else {
            out.hot.move64(r.word, r.address);
            out.hot.shift_right(r.word, PAGE_BITS);
            load_entry(&mut out.hot, out.config.shadow, r.word);
        }
        let mut leaves = Vec::with_capacity(6);
        r.find_page(&mut out.hot, out.config, access.kind, &mut leaves);
        if each.lines {
            let masks = masks_of(access.kind, access.size).unwrap_or_default();
            r.look_at_turn(&mut out.hot, masks, &mut leaves);
        }
        if let Some(sets) = each.cache {
            r.look_at_cache(&mut out.hot, sets, other, access.size, &mut leaves);
        }
        if each.words {
            r.look_at_word(&mut out.hot, other, &mut leaves);
            out.map_hot(State::Counting);
            count_word(&mut out.hot, access.kind, other, r.free);
        }
        out.map_hot(State::Counting);
        out.hot.increment(in_row(r.word, out.site_offset(site)?));
        if each.cache.is_some() {
            out.hot.store_half(context::cache_hit(out.at.counted), site.0);
        }
        r.count(&mut out.hot, out.config, access.kind, each.lines);
        let back = out.hot.here();
        for leave in leaves {
            out.resolve_hot(leave, out.cold.here())?;
        }
        out.map_cold(State::Counting);
        let what = What::sized(access.kind, access.size);
        call_out(&mut out.cold, &what, &[site], &[(0, r.address)], r.address);
        out.return_to(r.address, back)?;
        if keeps_flags {
            out.hot.flags_from_rax();
        }
        Ok(())
    }
}

impl Registers {
    /// From the page's word to its counters.
    fn find_page(&self, code: &mut Code, config: &Config, kind: Kind, leaves: &mut Vec<Field>) {
        leaves.push(match kind {
            Kind::Read => {
                code.registers(false, &[0x85], self.word, self.word); // test
                code.relative(&[0x0f, 0x84]) // jz
            }
            _ => {
                code.compare_half(self.word, config.read_only());
                code.relative(&[0x0f, 0x86]) // jbe
            }
        });
        code.move64(self.page, self.word);
        code.shift_right(self.page, 32);
        code.compare_half(self.page, config.pages + (Each::MOST_PAGES << PAGE_COUNTERS_LOG2));
        leaves.push(code.relative(&[0x0f, 0x83])); // jae
    }

    /// Whether the line is the thread's own and has these words.
    fn look_at_turn(&self, code: &mut Code, masks: u32, leaves: &mut Vec<Field>) {
        code.move32(self.mask, self.address);
        code.shift_right(self.mask, 2);
        code.and_half(self.mask, (1 << LINE_TURNS_LOG2) - 16);
        code.move64(self.free, self.page);
        code.shift_left(self.free, LINE_TURNS_LOG2 - PAGE_COUNTERS_LOG2);
        code.add_context(self.free, context::LINE_TURNS);
        code.lea(self.free, Memory::Flat { base: Some(self.free), index: Some(self.mask), scale: 1, displacement: 0 });
        code.memory(false, &[0x8b], self.mask, Memory::base(self.free, TURN_THREAD));
        code.memory(false, &[0x3b], self.mask, Memory::context(context::LINE_THREAD)); // cmp
        leaves.push(code.relative(&[0x0f, 0x85])); // jne
        code.move32(self.mask, self.address);
        code.and_half(self.mask, 63);
        let entry = Memory::Context { index: Some(self.mask), scale: 4, offset: masks as i32 };
        code.memory(false, &[0x8b], self.mask, entry);
        code.memory(false, &[0x8b], self.free, Memory::base(self.free, TURN_WORDS));
        code.registers(false, &[0xf7], 2, self.free); // not
        code.registers(false, &[0x85], self.mask, self.free); // test
        leaves.push(code.relative(&[0x0f, 0x85])); // jnz
    }

    /// Whether its set has used the line last.
    fn look_at_cache(&self, code: &mut Code, sets: CacheSets, set: u8, size: u32, leaves: &mut Vec<Field>) {
        if size > 1 {
            code.lea(self.free, Memory::base(self.address, size as i32 - 1));
            code.registers(false, &[0x33], self.free, self.address); // xor
            code.test(self.free, !0 << sets.line_log2);
            leaves.push(code.relative(&[0x0f, 0x85])); // jnz
        }
        code.move64(self.free, self.address);
        code.shift_right(self.free, sets.line_log2 as u8);
        code.move32(set, self.free);
        code.and_half(set, sets.sets - 1);
        code.registers(true, &[0x69], set, set); // imul
        code.imm32(sets.ways * 8);
        code.add_context(set, context::CACHE_SETS);
        code.increment_register(self.free);
        code.memory(true, &[0x3b], self.free, Memory::base(set, 0)); // cmp
        leaves.push(code.relative(&[0x0f, 0x85])); // jne
    }

    /// Where the counter of its word is, and whether it has room.
    fn look_at_word(&self, code: &mut Code, counter: u8, leaves: &mut Vec<Field>) {
        code.move64(counter, self.page);
        code.shift_left(counter, WORD_COUNTS_LOG2 - PAGE_COUNTERS_LOG2);
        code.move32(self.free, self.address);
        code.and_half(self.free, 0xffc);
        code.lea(counter, Memory::Flat { base: Some(counter), index: Some(self.free), scale: 2, displacement: 0 });
        code.add_context(counter, context::WORD_COUNTS);
        code.constant(self.free, FULL);
        code.memory(true, &[0x85], self.free, Memory::base(counter, 0)); // test
        leaves.push(code.relative(&[0x0f, 0x85])); // jnz
    }

    /// For the page, and its line. The page's word is lost.
    fn count(&self, code: &mut Code, config: &Config, kind: Kind, lines: bool) {
        let (reads, writes) = reads_and_writes(kind);
        code.move64(self.word, self.page);
        let (shift, counters) = page_counters(config, self.word, (reads, writes));
        if shift > 32 {
            code.shift_right(self.word, shift - 32);
        }
        for (count, counter) in counters {
            code.add_small(counter, count);
        }
        if !lines {
            return;
        }
        code.shift_left(self.page, LINE_COUNTS_LOG2 - PAGE_COUNTERS_LOG2);
        code.and_half(self.address, 0xfc0);
        code.add_context(self.page, context::LINE_COUNTS);
        let field =
            |displacement| Memory::Flat { base: Some(self.page), index: Some(self.address), scale: 1, displacement };
        for (at, count) in [(LINE_READS, reads), (LINE_READS + 8, writes)] {
            code.add_small(field(at), count);
        }
        code.memory(true, &[0x09], self.mask, field(LINE_WORDS)); // or
    }
}

/// Adds to the counter of a word at once.
fn count_word(code: &mut Code, kind: Kind, counter: u8, free: u8) {
    let (reads, writes) = reads_and_writes(kind);
    code.constant(free, u64::from(reads) + u64::from(writes) * WORD_WRITE);
    code.raw(&[0xf0]); // lock add
    code.memory(true, &[0x01], free, Memory::base(counter, 0));
}
