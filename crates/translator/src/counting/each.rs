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
//!   counter of the word          nearly full: leave
//!   newest line of the set       another one: searched, and fetched if it is not there, in the cold half
//!   inc ...                      site, page, line, word
//! ```
//! 1. What leaves has counted nothing.
//! 2. A turn that has all the words stays as it is, so that it need not be written, and nobody has to agree on it.
//! 3. Only the thread itself makes counters larger, so a word's that is not full stays so; others may take it away at
//!    any time, so it is changed at once.
//! 4. The cache is looked at last, as that changes it. What the latest accesses have found is noted: one that is taken
//!    back has missed or not, and has fetched nothing.

use super::strategy::{AccessAt, CountStrategy};
use crate::abi::each::{
    CacheSets, Each, LINE_COUNTS_LOG2, LINE_READS, LINE_TURNS_LOG2, LINE_WORDS, PAGE_COUNTERS_LOG2, TURN_THREAD,
    TURN_WORDS, WORD_COUNTS_LOG2, masks_of,
};
use crate::abi::registers::RAX;
use crate::abi::what::What;
use crate::emit::pages::{leave_unknown, page_counters};
use crate::emit::{Code, Emitter, Field, Memory, address, call_out, in_row, load_entry, reads_and_writes};
use crate::ir::mark::State;
use crate::{Config, Error, Shape, Way, context};
use alloc::vec::Vec;
use numalens_isa::{Kind, PAGE_BITS};

/// Bits of a word's counters that are set where they are nearly full.
const FULL: u64 = 1 << 63 | 1 << 31;
/// Lines of a set that are searched in place: where there are more, nothing is.
const SEARCHED: u32 = 32;
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
    /// Where the turn of the line is.
    turn: u8,
}

impl CountStrategy<AccessAt<'_>> for EachInPlace {
    const WAY: Way = Way::Each;

    fn suits(config: &Config, of: &AccessAt<'_>) -> bool {
        let each = config.each.unwrap_or_default();
        let is_any = each.lines || each.cache.is_some() || each.words;
        let is_searched = each.cache.is_none_or(|sets| sets.ways <= SEARCHED);
        is_any && is_searched && of.access.shape == Shape::Plain && masks_of(of.access.kind, of.access.size).is_some()
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
        let [at, word, page, mask, free] = core::array::from_fn(|_| pick(out));
        let turn = if each.lines { pick(out) } else { free };
        let r = Registers { address: at, word, page, mask, free, turn };
        let counter = if each.words { pick(out) } else { r.mask };
        let cache = each.cache.map(|sets| InCache { sets, set: pick(out), moved: pick(out) });
        out.map_spilled();
        address(&mut out.hot, r.address, r.word, &access.address, access.shape);
        out.hot.move64(r.word, r.address);
        if keeps_flags {
            out.entry_before_flags(r.word, live.registers);
        } else {
            out.hot.shift_right(r.word, PAGE_BITS);
            load_entry(&mut out.hot, out.config.shadow, r.word);
        }
        let mut leaves = Vec::with_capacity(6);
        r.find_page(&mut out.hot, out.config, access.kind, &mut leaves);
        if each.lines {
            let masks = masks_of(access.kind, access.size).unwrap_or_default();
            r.look_at_turn(&mut out.hot, masks, &mut leaves);
        }
        if each.words {
            r.look_at_word(&mut out.hot, counter, &mut leaves);
        }
        out.map_cold(State::Counting);
        if let Some(cache) = cache {
            r.look_at_lines(&mut out.hot, &cache, access.size, &mut leaves);
            out.map_hot(State::Counting);
            let older = cache.look_at_newest(&mut out.hot, r.free);
            let hit = out.hot.here();
            let latest = context::cache_latest(out.at.counted);
            out.hot.store_half(latest, site.0);
            let counted = out.hot.here();
            out.resolve_hot(older, out.cold.here())?;
            let found = cache.search(&mut out.cold, r.free);
            out.resolve_cold(found, hit)?;
            let row = out.site_offset(site)? - out.config.sites;
            cache.count_miss(&mut out.cold, &r, access.kind, row);
            out.cold.store_half(latest, site.0 | context::CACHE_MISSED);
            let fetched = out.cold.relative(&[0xe9]);
            out.resolve_cold(fetched, counted)?;
        }
        out.map_hot(State::Counting);
        if each.words {
            count_word(&mut out.hot, access.kind, counter, r.free);
        }
        out.hot.increment(in_row(r.word, out.site_offset(site)?));
        r.count(&mut out.hot, out.config, access.kind, each.lines);
        let back = out.hot.here();
        for leave in leaves {
            out.resolve_hot(leave, out.cold.here())?;
        }
        call_out(&mut out.cold, &What::sized(access.kind, access.size), &[site], &[(0, r.address)], r.address);
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
        leaves.push(leave_unknown(code, config, self.word, kind != Kind::Read));
        code.move64(self.page, self.word);
        code.shift_right(self.page, 32);
        code.compare_half(self.page, config.pages + (Each::MOST_PAGES << PAGE_COUNTERS_LOG2));
        leaves.push(code.relative(&[0x0f, 0x83])); // jae
    }

    /// Whether the line is the thread's own and has these words. The words are read first: only the thread itself makes
    /// a turn its own, so they were of its turn if that is its own afterwards.
    fn look_at_turn(&self, code: &mut Code, masks: u32, leaves: &mut Vec<Field>) {
        code.move32(self.mask, self.address);
        code.shift_right(self.mask, 2);
        code.and_half(self.mask, (1 << LINE_TURNS_LOG2) - 16);
        code.move64(self.turn, self.page);
        code.shift_left(self.turn, LINE_TURNS_LOG2 - PAGE_COUNTERS_LOG2);
        code.add_context(self.turn, context::LINE_TURNS);
        code.lea(self.turn, Memory::Flat { base: Some(self.turn), index: Some(self.mask), scale: 1, displacement: 0 });
        code.memory(false, &[0x8b], self.free, Memory::base(self.turn, TURN_WORDS));
        code.memory(false, &[0x8b], self.mask, Memory::base(self.turn, TURN_THREAD));
        code.memory(false, &[0x3b], self.mask, Memory::context(context::LINE_THREAD)); // cmp
        leaves.push(code.relative(&[0x0f, 0x85])); // jne
        code.move32(self.mask, self.address);
        code.and_half(self.mask, 63);
        let entry = Memory::Context { index: Some(self.mask), scale: 4, offset: masks as i32 };
        code.memory(false, &[0x8b], self.mask, entry);
        code.registers(false, &[0xf7], 2, self.free); // not
        code.registers(false, &[0x85], self.mask, self.free); // test
        leaves.push(code.relative(&[0x0f, 0x85])); // jnz
    }

    /// Whether the access lies in one line of the cache, which is in `free` then, plus 1, and where its set is.
    fn look_at_lines(&self, code: &mut Code, cache: &InCache, size: u32, leaves: &mut Vec<Field>) {
        let InCache { sets, set, .. } = *cache;
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

/// An access in the private cache.
struct InCache {
    sets: CacheSets,
    /// The address of its set.
    set: u8,
    /// A line on its way to where the one before it was.
    moved: u8,
}

impl InCache {
    fn way(&self, number: u32) -> Memory {
        Memory::base(self.set, 8 * number as i32)
    }

    /// Goes to what is returned if the set has not used the line last.
    fn look_at_newest(&self, code: &mut Code, line: u8) -> Field {
        code.memory(true, &[0x3b], line, self.way(0)); // cmp
        code.relative(&[0x0f, 0x85]) // jne
    }

    /// Looks for the line among the others of its set. It becomes the newest, and those before it one older each. Goes
    /// to what is returned if it was there, and on behind if not: then the oldest is gone.
    fn search(&self, code: &mut Code, line: u8) -> Field {
        let mut found = Vec::with_capacity(self.sets.ways as usize);
        for number in 1..self.sets.ways {
            code.memory(true, &[0x3b], line, self.way(number)); // cmp
            found.push(code.relative(&[0x0f, 0x84])); // je
        }
        self.make_newest(code, line, None);
        let missing = code.relative(&[0xe9]);
        self.make_newest(code, line, Some(found));
        let hit = code.relative(&[0xe9]);
        resolve_here(code, missing);
        hit
    }

    /// `from`: where it is come from with the line at each place but the newest; else it was at none.
    fn make_newest(&self, code: &mut Code, line: u8, from: Option<Vec<Field>>) {
        let mut from = from.unwrap_or_default();
        for number in (1..self.sets.ways).rev() {
            if let Some(found) = from.pop() {
                resolve_here(code, found);
            }
            code.load(self.moved, self.way(number - 1));
            code.store(self.moved, self.way(number));
        }
        code.store(line, self.way(0));
    }

    /// Counts a miss, in the row of a site and for the page. The read of a read-modify-write fetches the line.
    fn count_miss(&self, code: &mut Code, r: &Registers, kind: Kind, row: u32) {
        code.move32(self.set, r.word);
        code.add_context(self.set, context::CACHE_MISSES);
        code.increment(Memory::base(self.set, row as i32));
        code.load(self.set, Memory::context(context::CACHE_PAGE_MISSES));
        let write = if kind == Kind::Write { 8 } else { 0 };
        code.increment(Memory::Flat { base: Some(self.set), index: Some(r.page), scale: 1, displacement: write });
    }
}

/// Has a jump of the same half come to what follows.
fn resolve_here(code: &mut Code, field: Field) {
    let here = code.here();
    let is_near = code.resolve(field, here);
    debug_assert!(is_near, "a few instructions away");
}

/// Adds to the counter of a word at once.
fn count_word(code: &mut Code, kind: Kind, counter: u8, free: u8) {
    let (reads, writes) = reads_and_writes(kind);
    code.constant(free, u64::from(reads) + u64::from(writes) * WORD_WRITE);
    code.raw(&[0xf0]); // lock add
    code.memory(true, &[0x01], free, Memory::base(counter, 0));
}
