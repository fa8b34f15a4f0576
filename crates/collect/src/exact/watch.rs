//! Accesses that are looked at one by one: which objects they go to where several share a page, and which cache lines.
//!
//! Counters know pages. What lies within a page is estimated from a few accesses to it, at random times:
//!
//! ```text
//!   a look finds how much each page was used  -->  now and then one is drawn, by its use
//!   a drawn page loses its class              -->  its next access comes to the agent, which tells it and gives the class back
//! ```
//! Threads that stay on the page (see `numalens_event::exact`) would not notice, so their stays are ended as well; until they are, the agent
//! tells nothing, or code that stays would be told less often than other code. A page's samples say how *its* accesses are divided, which
//! are counted exactly: what is drawn is never used as a measure of how much a page is used.

use super::drain::Process;
use super::file::SessionFile;
use super::pages::doubt;
use super::tallies::Place;
use numalens_event::exact::{self, Extent, PageRecord, StayRecord};
use numalens_profile::ids::{ObjectId, Page};
use rustc_hash::FxHashMap;
use std::io;
use std::sync::atomic::Ordering::Relaxed;

/// Accesses told each time.
const ACCESSES: u32 = 1;

/// What decides which pages are looked into.
#[derive(Default)]
pub struct Watch {
    /// What the latest look has found.
    found: Found,
    /// What the one that is under way finds.
    finds: Found,
    random: u64,
}

#[derive(Default)]
struct Found {
    /// How much pages that several objects share were used: their process, their number, and the use of all before and of this one.
    shared: Vec<(Extent, u32, u64)>,
    /// The same of all pages.
    any: Vec<(Extent, u32, u64)>,
    /// Which stays are on a page: process, page; the thread and the offset of its record.
    stays: FxHashMap<(Extent, u64), Vec<(Extent, u64)>>,
    /// The tallies of processes.
    tallies: FxHashMap<Extent, Vec<Place>>,
}

impl Watch {
    /// A page of a process was used so many times since the look before.
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
    pub fn stays(&mut self, process: Extent, page: u64, thread: Extent, offset: u64) {
        self.finds.stays.entry((process, page)).or_default().push((thread, offset));
    }

    /// A tally of a thread has counted.
    pub fn tallies(&mut self, process: Extent, place: Place) {
        self.finds.tallies.entry(process).or_default().push(place);
    }

    /// Has the tallies that the latest look has found in a process ask for pages again.
    pub fn ask_tallies(&self, file: &SessionFile, process: Extent, pages: &[Page]) {
        for place in self.found.tallies.get(&process).into_iter().flatten() {
            // A program that has gone needs no more of this.
            let _ = place.ask(file, pages);
        }
    }

    /// The look is over.
    pub fn looked(&mut self) {
        self.found = std::mem::take(&mut self.finds);
    }

    /// The next random number (SplitMix64).
    fn next(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// Draws a page that several objects share and another one, by their use, and has the agents tell an access to each.
    pub fn draw(&mut self, file: &SessionFile, processes: &FxHashMap<Extent, Process>) {
        for random in [self.next(), self.next()].into_iter().zip([&self.found.shared, &self.found.any]) {
            let (random, list) = random;
            let Some(&(_, _, all)) = list.last() else { continue };
            let at = random % all.max(1);
            let (extent, number, _) = list[list.partition_point(|&(_, _, sum)| sum <= at).min(list.len() - 1)];
            let Some(process) = processes.get(&extent).filter(|process| !process.last) else { continue };
            let Some(page) = process.own_page(number) else { continue };
            // A program that has gone needs no more of this; nor does a recording depend on any one page.
            let stays = self.found.stays.get(&(extent, page.address())).map_or(&[][..], Vec::as_slice);
            let _ = self.ask(file, extent, process, number, page, stays);
        }
    }

    /// Has the agents tell the next accesses to a page.
    fn ask(
        &self,
        file: &SessionFile,
        extent: Extent,
        process: &Process,
        number: u32,
        page: Page,
        stays: &[(Extent, u64)],
    ) -> io::Result<()> {
        let offset = exact::process::PAGES + u64::from(number) * size_of::<PageRecord>() as u64;
        let map = file.extent(extent, offset & !4095, 4096)?;
        let record = &map.words::<PageRecord>((offset & 4095) as usize, 1)[0];
        // One that is open is looked at anyway, for other reasons.
        if record.open.load(Relaxed) != 0 || record.end_ns.load(Relaxed) != 0 {
            return Ok(());
        }
        // One piece of each thread's table, whatever lies between its records: what is not used is not there.
        let mut records = Vec::new();
        for of_thread in stays.chunk_by(|one, next| one.0 == next.0) {
            let offsets = || of_thread.iter().map(|&(_, offset)| offset);
            let (Some(first), Some(last)) = (offsets().min(), offsets().max()) else { continue };
            let base = first & !4095;
            let map = file.extent(of_thread[0].0, base, ((last & !4095) + 4096 - base) as usize)?;
            records.push((map, offsets().map(|offset| (offset - base) as usize).collect::<Vec<_>>()));
        }
        record.waited.store(exact::HOLD, Relaxed);
        doubt(process, &[page]);
        for (map, offsets) in &records {
            for &at in offsets {
                // Unless the thread has left the page meanwhile.
                const SIZE: usize = size_of::<StayRecord>();
                let records = map.words::<StayRecord>(at & !4095, 4096 / SIZE);
                StayRecord::look_again(records, at % 4096 / SIZE, page.address());
            }
        }
        self.ask_tallies(file, extent, &[page]);
        record.waited.store(ACCESSES, Relaxed);
        Ok(())
    }
}

/// What is known of the accesses to a page that several objects share.
#[derive(Default)]
pub struct Mix {
    /// Accesses told of, by object: all, and events that no count has been divided by yet.
    objects: Vec<(ObjectId, u64, u32)>,
}

/// A part of a page's counts.
pub struct Part {
    pub object: ObjectId,
    pub reads: u64,
    pub writes: u64,
    /// Samples that say so; at least one.
    pub samples: u32,
}

impl Mix {
    /// So many accesses went to an object.
    pub fn add(&mut self, object: ObjectId, accesses: u64) {
        let at = self.objects.iter().position(|(known, ..)| *known == object).unwrap_or_else(|| {
            self.objects.push((object, 0, 0));
            self.objects.len() - 1
        });
        let (_, weight, events) = &mut self.objects[at];
        (*weight, *events) = (weight.saturating_add(accesses.max(1)), events.saturating_add(1));
    }

    /// Divides counts by what is known; the parts' sums are the counts. Nothing, where nothing is known.
    pub fn divide(&mut self, reads: u64, writes: u64) -> Vec<Part> {
        let all: u64 = self.objects.iter().map(|(_, weight, _)| weight).sum();
        let upto = |count: u64, weight: u64| (u128::from(count) * u128::from(weight) / u128::from(all.max(1))) as u64;
        let mut before = 0;
        let mut parts = Vec::new();
        for (object, weight, events) in &mut self.objects {
            let after = before + *weight;
            let part = |count: u64| upto(count, after) - upto(count, before);
            let (reads, writes) = (part(reads), part(writes));
            before = after;
            if reads + writes > 0 {
                let samples = (*events).clamp(1, (reads + writes).min(u64::from(u32::MAX)) as u32);
                *events = 0;
                parts.push(Part { object: *object, reads, writes, samples });
            }
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_in_division() {
        let mut mix = Mix::default();
        assert!(mix.divide(5, 5).is_empty());
        for (object, accesses) in [(1, 3), (2, 1), (1, 5), (3, 1)] {
            mix.add(ObjectId(object), accesses);
        }
        let parts = mix.divide(1001, 7);
        assert_eq!(parts.iter().map(|part| part.reads).sum::<u64>(), 1001);
        assert_eq!(parts.iter().map(|part| part.writes).sum::<u64>(), 7);
        let reads: Vec<(u32, u64, u32)> = parts.iter().map(|part| (part.object.0, part.reads, part.samples)).collect();
        assert_eq!(reads, [(1, 800, 2), (2, 100, 1), (3, 101, 1)]);
        // What has been told once is not told again as another sample.
        assert!(mix.divide(100, 0).iter().all(|part| part.samples == 1));
    }

    #[test]
    fn pages_are_drawn_by_their_use() {
        let mut watch = Watch::default();
        let draws: Vec<u64> = (0..1000).map(|_| watch.next() % 100).collect();
        let low = draws.iter().filter(|&&draw| draw < 25).count();
        assert!((180..320).contains(&low), "{low}");
    }
}
