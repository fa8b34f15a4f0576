//! Direct page counters: a group that changes its page all the time has a counter of its own for each page.
//!
//! Problem: a program that gathers from a large table, or updates it at random, is at another page in each execution.
//! To look the page up ([`crate::megamorphic`]) and to count in what was found costs memory accesses one after the
//! other and a second register, besides the row of site counters. While the program waits for memory of its own, each
//! instruction more keeps the processor from looking so much further ahead.
//!
//! Mechanism: a thread has a table of counters for such a group (a *direct table*), one for each page of 1 GiB around
//! the place where the group was first seen. The look-up of the page, its class and its counters is done once for each
//! page, and what is left is one increment at a place that follows from the address:
//!
//! ```text
//!   lea  r1, [operand]
//!   sub  r1, gs:[table + BASE]
//!   shr  r1, 12
//!   cmp  r1, 0x40000
//!   jae  stub                           another part of memory, or the direct table is to be looked at
//!   inc  dword gs:[counters + r1*4]
//!   jns  stub                           the page is not known here
//! back:
//!
//!   a counter        0 ......... 0      not begun
//!                    1 0 c ..... c      counts for the page, slot and class in the second table: c times
//!                    0 1 c ..... c      has done so; to be asked about (the collector wants the next access logged)
//! ```
//! An increment of a counter that has not begun gives a number without the highest bit, as does that of one that is full.
//!
//! **Who reads the counters** adds what a direct table has to the flat tables, as for last pages: the group's reads and
//! writes to those of the page, and one access of each member to the row. Counters are emptied here before the flat
//! tables get what was in them, and whoever reads while the thread runs reads the flat tables first, so nothing is
//! counted twice.
//!
//! **When pages change** (they are unmapped, or have moved), whoever changes them sets [`DirectTable::BASE`] to
//! [`DirectTable::NOWHERE`] in all threads that have counters for such pages between [`DirectTable::LOW`] and
//! [`DirectTable::HIGH`]; the thread itself settles all, and begins again. Only the thread itself writes counters, but
//! for the mark of those that are to be asked about.
//!
//! Pages that are only read so far ([`crate::PageEntry::READ_ONLY`]) are not counted here, as their first write tells
//! nobody. A group that comes to such pages, leaves its 1 GiB, or finds its pages changed, again and again, is looked
//! up in place as before; so are those that there are no more direct tables for.

use crate::count::{RetranslateReason, Retranslation, ThreadContext};
use crate::emit::Memory;
use crate::fragment::State;
use crate::last_page::{Place, descriptor};
use crate::plan::{Group, Plan};
use crate::translate::{Builder, Numbers};
use crate::{Config, Env, Error, Shape, SiteId, context};
use hashbrown::HashSet;

/// What a thread knows of a direct table: 64 bytes. Offsets.
#[derive(Debug)]
pub struct DirectTable;

impl DirectTable {
    /// The address of the first page that has a counter; [`DirectTable::NOWHERE`]: the next access must ask.
    pub const BASE: u32 = 0;
    /// Offsets from GS of the counters (32 bits each), and of the [`Config::word_of`] the page that each counts for.
    /// 0: it has never begun.
    pub const COUNTERS: u32 = 8;
    pub const WORDS: u32 = 16;
    /// Counters that have begun are in this range, both ends included (32 bits each).
    pub const LOW: u32 = 24;
    pub const HIGH: u32 = 28;
    /// How often an access found no counter, where there should be one (32 bits).
    pub const MISSED: u32 = 32;
    /// The number of the row that stands for the group's sites (32 bits).
    pub const ROW: u32 = 36;
    /// How many of the group's members read, and write (32 bits each).
    pub const READS: u32 = 40;
    pub const WRITES: u32 = 44;
    /// Executions that have been settled.
    pub const COUNTED: u32 = 48;
    /// Too far from all addresses of programs for a counter.
    pub const NOWHERE: u64 = 1 << 63;
    /// Bytes of a header.
    pub const BYTES: u32 = 64;
    /// Direct tables of a thread.
    pub const MOST: u32 = 256;
    /// Bytes of the headers.
    pub const HEADERS: u32 = Self::MOST * Self::BYTES;
    /// In a counter: it has begun; it is to be asked about.
    pub const BEGUN: u32 = 1 << 31;
    pub const ASKED: u32 = 1 << 30;

    /// Bytes of the direct tables of a thread.
    pub const fn bytes(pages: u32) -> u64 {
        Self::words(Self::MOST, pages)
    }

    /// Where the counters of a direct table begin, of so many pages each.
    pub const fn counters(direct: u32, pages: u32) -> u64 {
        Self::HEADERS as u64 + direct as u64 * pages as u64 * 4
    }

    /// Where stands what the counters of a direct table count for.
    pub const fn words(direct: u32, pages: u32) -> u64 {
        Self::counters(Self::MOST, pages) + direct as u64 * pages as u64 * 8
    }

    /// What a counter has counted.
    pub const fn count_of(counter: u32) -> u32 {
        match counter {
            _ if counter & Self::BEGUN != 0 => counter & !Self::BEGUN,
            _ if counter & Self::ASKED != 0 => counter & !Self::ASKED,
            _ => 0,
        }
    }
}

/// A direct table is looked at whenever so many accesses have found no counter.
pub(crate) const MANY: u32 = 1024;
/// So many executions must be counted for each that is not.
const SHARE: u64 = 4;

unsafe extern "C" {
    /// Through `context::COUNT_DIRECT`.
    #[link_name = "numalens_count_direct"]
    pub fn count_direct();
}

impl Plan {
    /// Gives direct tables to groups of a loop that are megamorphic, but for those at instructions that are `left_out`.
    pub fn direct(&mut self, config: &Config, numbers: &mut Numbers, left_out: &HashSet<u64>) {
        if self.immediate || config.direct_pages == 0 {
            return;
        }
        for (number, group) in self.groups.iter_mut().enumerate().filter(|(_, group)| group.megamorphic) {
            let first = self.members.iter().find(|member| usize::from(member.group) == number);
            let Some(first) = first else { continue };
            // Never one that was another translation's: what it has counted is of other sites.
            if numbers.direct < DirectTable::MOST && !left_out.contains(&first.ip) {
                (group.direct, group.no_last_page) = (Some(numbers.direct), true);
                numbers.direct += 1;
            }
        }
    }
}

impl<E: Env> Builder<'_, E> {
    /// Counts a group by its direct table, where flags are dead.
    pub(crate) fn count_directly(&mut self, group: &Group, direct: u32, place: Place, live: u16) -> Result<(), Error> {
        let header = self.config.direct_header(direct);
        let place = Place { record: header as u32, ..place };
        let registers = group.address.registers(Shape::Plain);
        self.scratch.restore(&mut self.hot, registers);
        self.map_hot(State::Before);
        let r1 = self.scratch.pick(&mut self.hot, live, registers);
        self.map_spilled();
        let field = |offset: u32| Memory::context(header.wrapping_add_unsigned(offset) as u32);
        let across = self.operand_in_one_page(r1, group);
        self.hot.memory(true, &[0x2b], r1, field(DirectTable::BASE)); // sub
        self.hot.shift_right(r1, 12);
        self.hot.compare(r1, self.config.direct_pages as i32);
        let outside = self.hot.relative(&[0x0f, 0x83]); // jae
        self.map_hot(State::Counting);
        let counters = self.config.direct_counters(direct);
        self.hot.memory(false, &[0xff], 0, Memory::Context { index: Some(r1), scale: 4, offset: counters }); // inc
        let unknown = self.hot.relative(&[0x0f, 0x89]); // jns
        let back = self.hot.here();
        let number = Memory::context(context::COUNT_ARGUMENTS + 16);
        self.resolve_hot(outside, self.cold.here())?;
        self.map_cold(State::Counting);
        self.cold.store_constant(context::COUNT_ARGUMENTS + 16, 0);
        let outside = self.call_for_group(group, r1, context::COUNT_DIRECT);
        // Which counter has been added to, plus 1: its page may have other neighbours by now.
        self.resolve_hot(unknown, self.cold.here())?;
        self.map_cold(State::Counting);
        self.cold.increment_register(r1);
        self.cold.store(r1, number);
        let unknown = self.call_for_group(group, r1, context::COUNT_DIRECT);
        let mut descriptors = [Some(outside), Some(unknown), None];
        if let Some(across) = across {
            self.resolve_hot(across, self.cold.here())?;
            self.map_cold(State::Counting);
            descriptors[2] = Some(self.call_for_group(group, r1, context::COUNT_GROUP));
        }
        self.describe_group(group, &place, descriptors, back)
    }
}

/// The direct table of a group in the context of a thread, which is in the owner's hands.
struct Counters<'a> {
    context: ThreadContext,
    config: &'a Config,
    /// Offset of the header from GS.
    header: i64,
}

impl Counters<'_> {
    fn load<T: Copy>(&self, offset: i64) -> T {
        // SAFETY: a part of the direct tables of the thread that is here: an aligned integer. Others write it at once,
        // if at all.
        unsafe { self.context.at::<T>(offset).read_volatile() }
    }

    fn store<T>(&self, offset: i64, value: T) {
        // SAFETY: as above.
        unsafe { self.context.at::<T>(offset).write_volatile(value) };
    }

    fn get(&self, field: u32) -> u64 {
        self.load(self.header + i64::from(field))
    }

    fn set(&self, field: u32, value: u64) {
        self.store(self.header + i64::from(field), value);
    }

    fn half(&self, field: u32) -> u32 {
        self.load(self.header + i64::from(field))
    }

    fn set_half(&self, field: u32, value: u32) {
        self.store(self.header + i64::from(field), value);
    }

    /// The offset from GS of a counter.
    fn counter(&self, number: u32) -> i64 {
        self.get(DirectTable::COUNTERS) as i64 + 4 * i64::from(number)
    }

    /// Adds `executions` to the flat tables for the page that a counter is for. The counter has been emptied.
    fn add(&self, number: u32, executions: u32) {
        let executions = u64::from(executions);
        let word: u64 = self.load(self.get(DirectTable::WORDS) as i64 + 8 * i64::from(number));
        let page = word >> 32;
        self.context.add(page, executions * u64::from(self.half(DirectTable::READS)));
        self.context.add(page + 8, executions * u64::from(self.half(DirectTable::WRITES)));
        let row = u64::from(self.config.sites) + 8 * u64::from(self.half(DirectTable::ROW));
        self.context.add(row + u64::from(word as u32), executions);
        self.set(DirectTable::COUNTED, self.get(DirectTable::COUNTED) + executions);
    }

    /// Empties all counters; those that have begun go on if `on`.
    fn settle(&self, on: bool) {
        for number in self.half(DirectTable::LOW)..=self.half(DirectTable::HIGH) {
            let at = self.counter(number);
            let counter: u32 = self.load(at);
            if counter == 0 {
                continue;
            }
            self.store(at, if on { counter & DirectTable::BEGUN } else { 0 });
            match DirectTable::count_of(counter) {
                0 => {}
                executions => self.add(number, executions),
            }
            if !on {
                // As new: that it is not known here will be nothing to note.
                self.store(self.get(DirectTable::WORDS) as i64 + 8 * i64::from(number), 0u64);
            }
        }
    }

    /// Begins anew, around an address.
    fn begin(&self, address: u64, group: &[u8; 2], row: u32) {
        let pages = u64::from(self.config.direct_pages);
        let first = (address >> 12).saturating_sub(pages / 2);
        let direct = ((self.header - i64::from(self.config.direct)) / i64::from(DirectTable::BYTES)) as u32;
        self.set(DirectTable::COUNTERS, i64::from(self.config.direct_counters(direct)) as u64);
        self.set(DirectTable::WORDS, self.config.direct_words(direct) as u64);
        self.set_half(DirectTable::LOW, u32::MAX);
        self.set_half(DirectTable::HIGH, 0);
        self.set_half(DirectTable::ROW, row);
        self.set_half(DirectTable::READS, group[0].into());
        self.set_half(DirectTable::WRITES, group[1].into());
        let direct_in_use = i64::from(context::DIRECT_IN_USE);
        self.store(direct_in_use, self.load::<u64>(direct_in_use).max(u64::from(direct) + 1));
        // Last: from here on others find it.
        self.set(DirectTable::BASE, first << 12);
    }
}

/// The thread has come here for the direct table of the group of `site`, whose execution is not counted yet: it has not
/// begun, its pages have changed, or it has missed many accesses; or, where the third argument says so, for one of its
/// counters (the number, plus 1). What is to be said if the group is better looked up in place.
pub(crate) fn settle(context: ThreadContext, config: &Config, site: SiteId) -> Option<Retranslation> {
    let (address, at, one) = (context.argument(0), context.argument(1) as *const u8, context.argument(2) as u32);
    let word = |offset: u32| {
        // SAFETY: the stub that left through COUNT put the address of its own descriptor there, which lies in the code
        // cache beside it. It is not evicted while a thread is inside.
        unsafe { at.add(offset as usize).cast::<u32>().read_unaligned() }
    };
    let [reads, writes, ..] = word(descriptor::READS).to_le_bytes();
    let direct = Counters { context, config, header: i64::from(word(descriptor::RECORD) as i32) };
    if let Some(number) = one.checked_sub(1) {
        // Full, or to be asked about: the code has added this execution, which is counted behind.
        let at = direct.counter(number);
        let before = direct.load::<u32>(at).wrapping_sub(1);
        direct.store(at, 0u32);
        direct.add(number, DirectTable::count_of(before));
        return None;
    }
    let has_begun = direct.get(DirectTable::COUNTERS) != 0;
    let base = direct.get(DirectTable::BASE);
    let within = has_begun && address.wrapping_sub(base) >> 12 < config.direct_pages.into();
    if has_begun {
        let missed = direct.half(DirectTable::MISSED);
        if base == DirectTable::NOWHERE {
            // All of its pages must be found again.
            let begun = direct.half(DirectTable::HIGH).saturating_sub(direct.half(DirectTable::LOW)) / SHARE as u32 + 1;
            direct.set_half(DirectTable::MISSED, missed.saturating_add(begun));
        }
        direct.settle(within);
        let missed = u64::from(direct.half(DirectTable::MISSED));
        if missed >= MANY.into() && direct.get(DirectTable::COUNTED) / SHARE < missed {
            direct.settle(false);
            direct.set(DirectTable::BASE, DirectTable::NOWHERE);
            return Some(Retranslation {
                at: context.load(context::COUNT_RETURN),
                site,
                why: RetranslateReason::Direct,
            });
        }
    }
    if !within {
        direct.set(DirectTable::BASE, DirectTable::NOWHERE);
        let row = (word(descriptor::ROW) - config.sites) / 8;
        direct.begin(address, &[reads, writes], row);
    }
    None
}
