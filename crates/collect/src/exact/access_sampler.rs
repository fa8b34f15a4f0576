//! Accesses that are sampled one by one: which objects they go to where several share a page, and which cache lines.
//!
//! Counters know pages. What lies within a page is estimated from a few accesses to it, at random times:
//!
//! ```text
//!   a poll finds how much each page was used  -->  now and then one is drawn, by its use
//!   a drawn page loses its class              -->  its next access comes to the agent, which logs it
//!                                                  and gives the class back
//! ```
//! Threads that stay on the page (see `numalens_event::exact`) would not notice, so their last pages are cleared as
//! well; until they are, the agent logs nothing, or code that stays would be logged less often than other code. How
//! they divide what is counted: see `attribution.rs`.
//!
//! A page that is drawn while nobody uses it tells the first access that comes next, however long that takes: of
//! programs that pause, the beginning of what they do each time. Such accesses are samples for the table, and not for
//! dividing counts ([`Came`]).

use super::attribution::{Came, LATER};
use super::clock;
use super::direct::Place;
use super::directory::Directory;
use super::file::SessionFile;
use super::page_records::PageRecords;
use super::process::{Process, is_region};
use numalens_event::exact::{self, Extent, LastPageRecord};
use numalens_event::page::{self, PAGE};
use numalens_profile::ids::Page;
use rustc_hash::FxHashMap;
use std::io;
use std::sync::atomic::Ordering::Relaxed;

/// Accesses logged each time.
const ACCESSES: u32 = 1;

/// What decides which pages are looked into.
#[derive(Default)]
pub struct AccessSampler {
    /// What the latest poll has found.
    found: Found,
    /// What the one that is under way finds.
    finds: Found,
    /// How much pages that several objects share were used in the latest polls, the latest last.
    uses: [u64; 3],
    /// When the latest poll was over, and how long after the one before.
    polled_ns: u64,
    between_ns: u64,
    /// When pages were drawn, each time, in order.
    drawn: FxHashMap<(Extent, u32), Vec<Draw>>,
    random: u64,
}

/// A page was drawn, on the agents' clock.
struct Draw {
    since_ns: u64,
    /// From here on agents log the next access.
    asked_ns: u64,
    /// How long it takes at most if the page is in use.
    within_ns: u64,
}

#[derive(Default)]
struct Found {
    /// How much pages that several objects share were used: their process, their number, and the use of all before and
    /// of this one.
    shared: Vec<(Extent, u32, u64)>,
    /// The same of all pages.
    any: Vec<(Extent, u32, u64)>,
    /// Which groups have a page for their last: process, page; the thread and the offset of its record.
    last_pages: FxHashMap<(Extent, u64), Vec<(Extent, u64)>>,
    /// The direct tables of processes.
    direct: FxHashMap<Extent, Vec<Place>>,
}

impl AccessSampler {
    /// A page of a process was used so many times since the poll before.
    pub fn used(&mut self, process: Extent, number: u32, count: u64, is_shared: bool) {
        let add = |list: &mut Vec<(Extent, u32, u64)>| {
            let before = list.last().map_or(0, |&(_, _, sum)| sum);
            list.push((process, number, before.saturating_add(count)));
        };
        add(&mut self.finds.any);
        if is_shared {
            add(&mut self.finds.shared);
        }
    }

    /// A thread stays on a page; its record is at this offset of its extent.
    pub fn last_pages(&mut self, process: Extent, page: u64, thread: Extent, offset: u64) {
        self.finds.last_pages.entry((process, page)).or_default().push((thread, offset));
    }

    /// A direct table of a thread has counted.
    pub fn direct(&mut self, process: Extent, place: Place) {
        self.finds.direct.entry(process).or_default().push(place);
    }

    /// Has the direct tables that the latest poll has found in a process ask for pages again.
    pub fn query_direct(&self, file: &SessionFile, process: Extent, pages: &[Page]) {
        for place in self.found.direct.get(&process).into_iter().flatten() {
            // A program that has gone needs no more of this.
            let _ = place.ask(file, pages);
        }
    }

    /// The poll is over, at this time of the agents' clock.
    pub fn polled(&mut self, now: u64) {
        self.found = std::mem::take(&mut self.finds);
        let [_, before, last] = self.uses;
        self.uses = [before, last, self.found.shared.last().map_or(0, |&(_, _, sum)| sum)];
        (self.between_ns, self.polled_ns) = (now.saturating_sub(self.polled_ns), now);
        const FORGOTTEN_NS: u64 = 10_000_000_000;
        self.drawn.retain(|_, draws| {
            draws.retain(|draw| draw.since_ns + FORGOTTEN_NS > now);
            !draws.is_empty()
        });
    }

    /// Whether more than a twentieth of what the latest poll has found went to pages that several objects share.
    pub fn is_much_shared(&self) -> bool {
        let all = |list: &[(Extent, u32, u64)]| list.last().map_or(0, |&(_, _, sum)| sum);
        all(&self.found.shared).saturating_mul(20) > all(&self.found.any)
    }

    /// Whether a page that was used `before` between two polls, and `now` between the next two (those that the latest
    /// poll has ended), was as likely to be drawn in the latter as its use deserves.
    pub fn was_drawable(&self, before: u64, now: u64) -> bool {
        const LEAST_SHARE: u128 = 4;
        let [_, all_before, all_now] = self.uses.map(u128::from);
        LEAST_SHARE * u128::from(before) * all_now.max(1) >= u128::from(now) * all_before.max(1)
    }

    /// How long after its page was drawn an access came that was logged at this time; None: too long.
    pub fn came(&self, process: Extent, number: u32, time: u64) -> Option<Came> {
        let draws = self.drawn.get(&(process, number))?;
        let draw = draws.iter().rev().find(|draw| draw.since_ns <= time)?;
        let after = time.saturating_sub(draw.asked_ns);
        match after {
            _ if after <= draw.within_ns => Some(Came::Soon),
            _ if after <= draw.within_ns.saturating_mul(1 + LATER) => Some(Came::Later),
            _ => None,
        }
    }

    /// The next random number (SplitMix64).
    fn next(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// A random number between a half and one and a half.
    pub fn around_one(&mut self) -> f64 {
        0.5 + (self.next() >> 32) as f64 / (1u64 << 32) as f64
    }

    /// Draws a page that several objects share and another one, by their use, and has the agents log an access to each.
    pub fn draw(&mut self, file: &SessionFile, directory: &Directory) {
        let mut drawn = Vec::new();
        for random in [self.next(), self.next()].into_iter().zip([&self.found.shared, &self.found.any]) {
            let (random, list) = random;
            let Some(&(_, _, all)) = list.last() else { continue };
            let at = random % all.max(1);
            let index = list.partition_point(|&(_, _, sum)| sum <= at).min(list.len() - 1);
            let (extent, number, upto) = list[index];
            let used = upto - index.checked_sub(1).map_or(0, |before| list[before].2);
            let Some(process) = directory.process(extent).filter(|process| !process.life.last) else { continue };
            let Some((number, page)) = page_of(process, number, random) else { continue };
            // A program that has gone needs no more of this; nor does a recording depend on any one page.
            let last_pages = self.found.last_pages.get(&(extent, page.address())).map_or(&[][..], Vec::as_slice);
            let since_ns = clock::agents_now(file.header());
            if self.ask(file, extent, process, number, page, last_pages).is_ok_and(|asked| asked) {
                // What an agent takes to log, and a few times what lies between two accesses to the page in the mean.
                const SOON_NS: u64 = 40_000;
                const USUAL: u64 = 3;
                let within_ns = SOON_NS + USUAL * self.between_ns / used.max(1);
                drawn
                    .push(((extent, number), Draw { since_ns, asked_ns: clock::agents_now(file.header()), within_ns }));
            }
        }
        for (page, draw) in drawn {
            self.drawn.entry(page).or_default().push(draw);
        }
    }

    /// Has the agents log the next accesses to a page. Whether they do because of it.
    fn ask(
        &self,
        file: &SessionFile,
        extent: Extent,
        process: &Process,
        number: u32,
        page: Page,
        last_pages: &[(Extent, u64)],
    ) -> io::Result<bool> {
        let of_page = PageRecords::map(file, extent, number..number + 1)?;
        let record = &of_page.all()[0];
        // One that is open is looked at anyway, for other reasons.
        if record.open.load(Relaxed) != 0 || record.end_ns.load(Relaxed) != 0 {
            return Ok(false);
        }
        // One that is still waited for was drawn before.
        let waits = record.waited.load(Relaxed) != 0;
        // One piece of each thread's table, whatever lies between its records: what is not used is not there.
        let mut records = Vec::new();
        for of_thread in last_pages.chunk_by(|one, next| one.0 == next.0) {
            let offsets = || of_thread.iter().map(|&(_, offset)| offset);
            let (Some(first), Some(last)) = (offsets().min(), offsets().max()) else { continue };
            let base = page::begin(first);
            let map = file.extent(of_thread[0].0, base, (page::begin(last) + PAGE - base) as usize)?;
            records.push((map, offsets().map(|offset| (offset - base) as usize).collect::<Vec<_>>()));
        }
        record.waited.store(exact::HOLD, Relaxed);
        process.doubt(&[page]);
        for (map, offsets) in &records {
            for &at in offsets {
                // Unless the thread has left the page meanwhile.
                const SIZE: usize = size_of::<LastPageRecord>();
                const BYTES: usize = PAGE as usize;
                let records = map.words::<LastPageRecord>(at - at % BYTES, BYTES / SIZE);
                LastPageRecord::look_again(records, at % BYTES / SIZE, page.address());
            }
        }
        self.query_direct(file, extent, &[page]);
        record.waited.store(ACCESSES, Relaxed);
        Ok(!waits)
    }
}

/// The page of a number, or one of its region at random, with its own number; if it is one of the process's own.
fn page_of(process: &Process, number: u32, random: u64) -> Option<(u32, Page)> {
    match is_region(number) {
        true => process.any_of_region(number, random >> 16),
        false => Some((number, process.pages.own_page(number)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accesses_belong_to_the_draw_before_them() {
        let mut sampler = AccessSampler::default();
        let page = (Extent(1), 7);
        let draw = |since_ns| Draw { since_ns, asked_ns: since_ns + 10, within_ns: 100 };
        sampler.drawn.insert(page, vec![draw(1000), draw(9000)]);
        let came = |time| sampler.came(page.0, page.1, time);
        assert_eq!(came(999), None);
        assert_eq!(came(1005), Some(Came::Soon));
        assert_eq!(came(1110), Some(Came::Soon));
        assert_eq!(came(1111), Some(Came::Later));
        assert_eq!(came(1410), Some(Came::Later));
        assert_eq!(came(1411), None, "the next draw came after it");
        assert_eq!(came(9100), Some(Came::Soon));
        assert_eq!(sampler.came(page.0, 8, 1005), None);
    }

    #[test]
    fn pages_are_drawn_by_their_use() {
        let mut sampler = AccessSampler::default();
        let draws: Vec<u64> = (0..1000).map(|_| sampler.next() % 100).collect();
        let low = draws.iter().filter(|&&draw| draw < 25).count();
        assert!((180..320).contains(&low), "{low}");
    }
}
