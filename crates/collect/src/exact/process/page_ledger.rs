//! The pages of a process by their numbers: which are there, which rest, which have gone.
//!
//! Numbers below those of its own are its parent's. A page that comes again has another number. Numbers are given again
//! when nothing is known of the pages any more that had them ([`PageNumbers`]).

use super::regions::Regions;
use crate::exact::known_pages::{KnownPage, KnownPages};
use crate::exact::release_memory::{GROUP, Releasable};
use numalens_event::exact::ProcessHeader;
use numalens_profile::ids::Page;
use rustc_hash::FxHashSet;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// The pages of a process.
pub struct PageLedger {
    /// Numbers below are its parent's; 0 is nobody's.
    inherited: u32,
    /// Those seen so far, from the first of its own.
    pub known: KnownPages,
    /// The place in the sequence of numbers up to which they have been seen.
    read: u32,
    /// Those that have not gone, of its own.
    live: BTreeMap<Page, u32>,
    /// Those of which a block has begun or ended since they were last accessed: what is accessed next has another
    /// number, and whose that is says nothing of this one.
    resting: BTreeMap<Page, u32>,
    releasable: Releasable,
    /// Those of which only records are needed: they are counted in regions, or have gone.
    vacated: Releasable,
    /// Those that have gone, and by which poll all that was counted of them is where it belongs.
    forgotten: VecDeque<(u64, Range<u32>)>,
    /// Groups of which nothing is known any more, since which poll.
    spare: VecDeque<(u64, u32)>,
    /// Groups that have been named since: what is counted there is of pages that may not have been seen yet.
    named: FxHashSet<u32>,
    /// How often they have been looked at.
    polls: u32,
}

impl PageLedger {
    /// Of a process that has inherited so many numbers.
    pub fn new(inherited: u32) -> Self {
        PageLedger {
            inherited,
            known: KnownPages::from_number(inherited.max(1)),
            read: inherited.max(1),
            live: BTreeMap::new(),
            resting: BTreeMap::new(),
            releasable: Releasable::default(),
            vacated: Releasable::default(),
            forgotten: VecDeque::new(),
            spare: VecDeque::new(),
            named: FxHashSet::default(),
            polls: 0,
        }
    }

    /// The number of the first of its own.
    pub fn first(&self) -> u32 {
        self.inherited.max(1)
    }

    /// Numbers below are known, or of pages that have gone.
    pub fn end(&self) -> u32 {
        self.first() + self.known.end()
    }

    /// Places in the sequence of numbers below have been seen.
    pub fn read(&self) -> u32 {
        self.read
    }

    /// New ones, of places below `given`, in order.
    pub fn new_ones(&self, header: &ProcessHeader, given: u32) -> Vec<u32> {
        let numbers = (self.read..given).map_while(|place| header.pages.at(place));
        numbers.filter_map(|number| self.own(number)).collect()
    }

    /// The next one of them is known from now on.
    pub fn enter(&mut self, own: u32, page: KnownPage) {
        self.known.enter(own, page);
        self.read += 1;
    }

    /// Which of its own a number is; none: its parent's.
    pub fn own(&self, number: u32) -> Option<u32> {
        number.checked_sub(self.first())
    }

    /// The number of one of its own.
    pub fn number(&self, own: u32) -> u32 {
        self.first() + own
    }

    /// What is known of a page of its own, by its number.
    pub fn get(&self, number: u32) -> Option<&KnownPage> {
        self.known.get(self.own(number)?)
    }

    /// The page of a number, if it is one of its own that is there.
    pub fn own_page(&self, number: u32) -> Option<Page> {
        let known = self.get(number)?;
        self.live.contains_key(&known.page).then_some(known.page)
    }

    /// How many of its own are there.
    pub fn living(&self) -> usize {
        self.live.len()
    }

    /// Its own that have not gone, those that rest last.
    pub fn present(&self) -> Vec<u32> {
        self.live.values().chain(self.resting.values()).copied().collect()
    }

    /// Its own in a range that have not gone.
    pub fn live_in(&self, pages: Range<Page>) -> Vec<(Page, u32)> {
        self.live.range(pages).map(|(&page, &own)| (page, own)).collect()
    }

    /// Its own in a range that rest.
    pub fn resting_in(&self, pages: Range<Page>) -> Vec<u32> {
        self.resting.range(pages).map(|(_, &own)| own).collect()
    }

    /// A page is one of its own from now on.
    pub fn lives(&mut self, page: Page, own: u32) {
        self.resting.remove(&page);
        self.live.insert(page, own);
    }

    /// A block has begun or ended in pages.
    pub fn rest(&mut self, pages: Range<Page>) {
        for (page, own) in self.live_in(pages) {
            self.live.remove(&page);
            self.resting.insert(page, own);
        }
    }

    /// Nothing more is counted of one of its own; of one that has joined a region nothing was.
    pub fn counted_last(&mut self, own: u32, has_joined: bool) {
        let number = self.number(own);
        self.releasable.page(number);
        if !has_joined {
            self.vacated.page(number);
        }
    }

    /// One of its own, which goes on, is counted in a region from now on.
    pub fn counted_in_region(&mut self, own: u32) {
        self.vacated.page(self.number(own));
    }

    /// Those whose counters can be given back while their records are needed, by their numbers.
    pub fn take_vacated(&mut self) -> Vec<Range<u32>> {
        self.vacated.take_due()
    }

    /// One of its own has gone.
    pub fn gone(&mut self, page: Page, own: u32) {
        for pages in [&mut self.live, &mut self.resting] {
            if pages.get(&page) == Some(&own) {
                pages.remove(&page);
            }
        }
    }

    /// They are looked at. Whether it is time to see whether the kernel has placed pages where there were none: ever
    /// more seldom.
    pub fn polled(&mut self) -> bool {
        self.polls = self.polls.saturating_add(1);
        self.polls.is_power_of_two()
    }

    /// Those that can be given back, by their numbers: see [`Releasable::take_due`].
    pub fn take_due(&mut self) -> Vec<Range<u32>> {
        self.releasable.take_due()
    }

    /// Pages, by their numbers, were given back: all that was counted of them is where it belongs by this poll.
    pub fn given_back(&mut self, poll: u64, pages: Range<u32>) {
        self.forgotten.push_back((poll, pages));
    }

    /// Whether pages were given back of which all is known by a poll.
    pub fn is_forgotten_by(&self, poll: u64) -> bool {
        self.forgotten.front().is_some_and(|(by, _)| *by <= poll)
    }

    /// Forgets what is known of pages that were given back and are nowhere waited for; `keeps`: what is known of a
    /// group of them is still needed. Returns those groups, by their numbers.
    pub fn forget(&mut self, poll: u64, keeps: impl Fn(Range<u32>) -> bool, regions: &Regions) -> Vec<Range<u32>> {
        let due = self.forgotten.iter().take_while(|(by, _)| *by <= poll).count();
        let due: Vec<Range<u32>> = self.forgotten.drain(..due).map(|(_, pages)| pages).collect();
        let groups = due.into_iter().flat_map(|pages| pages.step_by(GROUP as usize)).map(|at| at..at + GROUP);
        let forgotten: Vec<Range<u32>> = groups.filter(|group| !keeps(group.clone())).collect();
        for group in &forgotten {
            let own = group.start - self.first()..group.end - self.first();
            self.known.forget(&own);
            self.named.remove(&(group.start / GROUP));
            // What is pending under a number that was assigned is its region's for ever.
            if !own.into_iter().any(|own| regions.of(own).is_some()) {
                self.spare.push_back((poll, group.start / GROUP));
            }
        }
        forgotten
    }

    /// Whether a page of its own has gone so long ago that nothing is known of it any more.
    pub fn has_gone(&self, number: u32) -> bool {
        let is_given = number >= self.first() && number < self.end();
        is_given && self.get(number).is_none() && !self.named.contains(&(number / GROUP))
    }

    /// Whether pages have gone whose numbers are not given again yet.
    pub fn waits_for_numbers(&self) -> bool {
        !self.forgotten.is_empty() || !self.spare.is_empty()
    }

    /// Has numbers be given again of which nothing was known by the poll before `poll`: what threads have counted under
    /// them is what they begin with by now.
    pub fn reuse(&mut self, header: &ProcessHeader, poll: u64) {
        while let Some(&(since, group)) = self.spare.front()
            && since < poll
            && header.pages.name(group, self.read)
        {
            self.spare.pop_front();
            self.named.insert(group);
            self.releasable.begins_again(group);
            self.vacated.begins_again(group);
        }
    }
}
