//! What a machine has counted, from its tables.

use super::expected::PageCounts;
use super::{CLASSES_LOG2, DIRECT_PAGES, Machine, PAGES};
use numalens_isa::Kind;
use numalens_translator::{DirectTable, LastPage, PageEntry, Site, SiteId};

/// What a counter of a direct table can count.
pub const FULL: u32 = DirectTable::BEGUN - 1;

/// A direct table that has begun.
#[derive(Clone, Copy, Debug, Default)]
pub struct DirectInUse {
    direct: u32,
    low: u32,
    /// From the lowest that counts to the highest.
    pub counters: u32,
}

impl DirectInUse {
    fn header(&self) -> usize {
        (self.direct * DirectTable::BYTES) as usize
    }

    fn counter(&self, number: u32) -> usize {
        (DirectTable::counters(self.direct, DIRECT_PAGES) + u64::from(number) * 4) as usize
    }
}

impl Machine {
    /// Adds what is pending in last pages to the tables; these go on.
    pub(super) fn settle_last_pages(&mut self) {
        let config = *self.cache.config();
        for (group, row) in &self.env.groups {
            let Some(last_page) = group.last_page else { continue };
            let record = config.last_page_record(last_page.id).expect("a record") as usize;
            let executions =
                self.context.get(config.execution_counter(last_page.executions).expect("a counter") as usize);
            let entry = self.context.get(record + LastPage::ENTRY as usize);
            if entry as u32 == 0 {
                continue;
            }
            let pending = executions.wrapping_sub(self.context.get(record + LastPage::SINCE as usize));
            self.context.set(record + LastPage::SINCE as usize, executions);
            let mut add = |at: usize, count: u64| self.context.set(at, self.context.get(at).wrapping_add(count));
            let page = (entry >> 32) as usize;
            let members = if entry >> 32 == 0 { 0 } else { group.members };
            for member in group.first.0..group.first.0 + members {
                let kind = self.env.sites[member as usize].kind;
                add(page, if kind == Kind::Write { 0 } else { pending });
                add(page + 8, if kind == Kind::Read { 0 } else { pending });
            }
            add(config.site_counter(*row, config.page_of(entry).class).expect("a site") as usize, pending);
        }
        self.settle_direct();
        // Rows that stand for several sites.
        for (group, row) in self.env.groups.iter().filter(|(group, _)| group.members > 1) {
            for class in 0..1u32 << CLASSES_LOG2 {
                let counter = |site: SiteId| config.site_counter(site, class).expect("a site") as usize;
                let count = self.context.get(counter(*row));
                self.context.set(counter(*row), 0);
                for member in group.first.0..group.first.0 + group.members {
                    let at = counter(SiteId(member));
                    self.context.set(at, self.context.get(at).wrapping_add(count));
                }
            }
        }
    }

    /// The direct tables that have begun, with their headers, the range of their counters, and how many there are.
    pub fn direct_in_use(&self) -> Vec<DirectInUse> {
        let all = (0..DirectTable::MOST).map(|direct| DirectInUse { direct, ..DirectInUse::default() });
        let begun = all.filter(|one| self.direct.get(one.header() + DirectTable::COUNTERS as usize) != 0);
        let [low, high] =
            [DirectTable::LOW, DirectTable::HIGH].map(|field| move |one: &DirectInUse| one.header() + field as usize);
        let half = |at: usize| self.direct.get(at) as u32;
        begun
            .map(|one| {
                let (low, high) = (half(low(&one)), half(high(&one)));
                DirectInUse { low, counters: (high + 1).saturating_sub(low), ..one }
            })
            .collect()
    }

    /// Has all direct tables begin anew, as one whose pages have changed.
    pub fn direct_counters_look_again(&mut self) {
        for one in self.direct_in_use() {
            self.direct.set(one.header() + DirectTable::BASE as usize, DirectTable::NOWHERE);
        }
    }

    /// Has each counter that has begun ask; how many there are.
    pub fn query_direct(&mut self) -> usize {
        self.each_counter(|counter| DirectTable::count_of(counter) | DirectTable::ASKED)
    }

    /// Lets each counter that has begun count all that it can; how many there are.
    pub fn fill_direct(&mut self) -> usize {
        self.each_counter(|_| DirectTable::BEGUN | FULL)
    }

    fn each_counter(&mut self, mut now: impl FnMut(u32) -> u32) -> usize {
        let mut begun = 0;
        for one in self.direct_in_use() {
            for number in one.low..one.low + one.counters {
                let at = one.counter(number);
                let counter = self.direct.get(at) as u32;
                if counter & DirectTable::BEGUN != 0 {
                    self.direct.set_half(at, now(counter));
                    begun += 1;
                }
            }
        }
        begun
    }

    /// Adds what is pending in direct tables to the tables; they go on.
    fn settle_direct(&mut self) {
        let config = *self.cache.config();
        for one in self.direct_in_use() {
            let (direct, header) = (one.direct, one.header());
            let half = |field: u32| self.direct.get(header + field as usize) as u32;
            let [row, reads, writes] = [DirectTable::ROW, DirectTable::READS, DirectTable::WRITES].map(half);
            for number in one.low..one.low + one.counters {
                let at = one.counter(number);
                let counter = self.direct.get(at) as u32;
                let count = u64::from(DirectTable::count_of(counter));
                self.direct.set_half(at, counter & DirectTable::BEGUN);
                let word = self.direct.get((DirectTable::words(direct, DIRECT_PAGES) + u64::from(number) * 8) as usize);
                let mut add = |at: usize, count: u64| self.context.set(at, self.context.get(at).wrapping_add(count));
                let page = (word >> 32) as usize;
                if count != 0 {
                    add(page, count * u64::from(reads));
                    add(page + 8, count * u64::from(writes));
                    add(config.site_counter(SiteId(row), config.page_of(word).class).expect("a site") as usize, count);
                }
            }
        }
    }

    /// As [`Machine::take_counts`], behind a stop from which nobody went on: pages whose accesses were all taken back
    /// are left out, and what all sites counted is one sum.
    pub fn take_counts_of_a_stop(&mut self) -> (PageCounts, u64) {
        let (pages, sites) = self.take_counts();
        let pages = pages.into_iter().filter(|(_, counts)| *counts != (0, 0)).collect();
        (pages, sites.iter().fold(0u64, |sum, (_, count)| sum.wrapping_add(*count)))
    }

    /// All page counters, and what every site of the program counted, since the last call.
    pub fn take_counts(&mut self) -> (PageCounts, Vec<(Site, u64)>) {
        self.settle_last_pages();
        let mut pages = PageCounts::new();
        for (number, &page) in self.env.slots.iter().enumerate() {
            let at = PAGES as usize + number * 16;
            let updates = self.updates.get(number * 8);
            let [reads, writes] = [at, at + 8].map(|at| self.context.get(at).wrapping_add(updates));
            if reads | writes != 0 {
                let sum: &mut (u64, u64) = pages.entry(page).or_default();
                *sum = (sum.0.wrapping_add(reads), sum.1.wrapping_add(writes));
            }
            self.context.set(at, 0);
            self.context.set(at + 8, 0);
            self.updates.set(number * 8, 0);
        }
        let mut sites = Vec::new();
        let config = *self.cache.config();
        for (number, site) in self.env.sites.iter().enumerate().skip(self.env.first_site) {
            let mut sum = 0;
            for class in 0..1u32 << CLASSES_LOG2 {
                let at = config.site_counter(SiteId(number as u32), class).expect("a site") as usize;
                let count = self.context.get(at);
                let may_be = class != PageEntry::READ_ONLY || site.kind == Kind::Read || count == 0;
                assert!(may_be, "a write is counted in a page that is only read: {site:x?}");
                sum += count;
                self.context.set(at, 0);
            }
            if sum != 0 {
                sites.push((*site, sum));
            }
        }
        (pages, sites)
    }

    /// Counters of one site by class, without resetting.
    pub fn classes_of(&mut self, site: usize) -> Vec<u64> {
        self.settle_last_pages();
        let config = *self.cache.config();
        (0..1u32 << CLASSES_LOG2)
            .map(|class| config.site_counter(SiteId(site as u32), class).expect("a site"))
            .map(|at| self.context.get(at as usize))
            .collect()
    }
}
