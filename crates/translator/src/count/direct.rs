//! Direct tables ([`DirectTable`]) of a thread: begun, settled, and given up where they do not pay.

use super::thread_context::ThreadContext;
use crate::abi::descriptor::group as descriptor;
use crate::abi::what::{RetranslateReason, Retranslation};
use crate::{Config, DirectTable, SiteId, context};
use numalens_isa::PAGE_BITS;

/// So many executions must be counted for each that is not.
const SHARE: u64 = 4;

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
        let first = (address >> PAGE_BITS).saturating_sub(pages / 2);
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
        self.set(DirectTable::BASE, first << PAGE_BITS);
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
    let within = has_begun && address.wrapping_sub(base) >> PAGE_BITS < config.direct_pages.into();
    if has_begun {
        let missed = direct.half(DirectTable::MISSED);
        if base == DirectTable::NOWHERE {
            // All of its pages must be found again.
            let begun = direct.half(DirectTable::HIGH).saturating_sub(direct.half(DirectTable::LOW)) / SHARE as u32 + 1;
            direct.set_half(DirectTable::MISSED, missed.saturating_add(begun));
        }
        direct.settle(within);
        let missed = u64::from(direct.half(DirectTable::MISSED));
        if missed >= DirectTable::MANY.into() && direct.get(DirectTable::COUNTED) / SHARE < missed {
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
