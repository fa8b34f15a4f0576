//! Regions of a process: pages of 2 MiB that are counted under one number, where several threads access them all.
//!
//! ```text
//!   page 800   number 12   assigned --.
//!   page 801   number 13   assigned ---> region 0: what is counted in any of them from then on
//!   page 802   number 14   another object's: counted for itself
//! ```
//! What is found under the number of a page that is assigned is its region's, whether the agent has it join by then or
//! not. When it has, the counters of the number are given back.
//! A region's pages are one object's and in one class as long as they are counted there. So what is known of it stays.

use crate::exact::known_pages::KnownPage;
use numalens_event::exact::FIRST_REGION;

/// What a page is assigned to, in 4 bytes, as whoever reads all counters asks it of each: twice the region's place from
/// 1 on, and whether the agent has had the page join; 0: nothing.
#[derive(Clone, Copy, Default)]
struct Assignment(u32);

impl Assignment {
    fn to(region: u32) -> Self {
        Assignment((region - FIRST_REGION + 1) << 1)
    }

    fn region(self) -> Option<u32> {
        Some(FIRST_REGION + (self.0 >> 1).checked_sub(1)?)
    }
}

/// Regions of a process. Those below its own are its parent's.
#[derive(Default)]
pub struct Regions {
    inherited: u32,
    own: Vec<KnownPage>,
    /// What the process's own pages are assigned to.
    of: Vec<Assignment>,
    /// How many were assigned.
    assignments: usize,
    /// Pages that are to be counted for themselves again.
    leaving: Vec<u32>,
}

impl Regions {
    /// Of a process that has inherited so many.
    pub fn new(inherited: u32) -> Self {
        Regions { inherited, ..Regions::default() }
    }

    /// How many there are, with inherited ones.
    pub fn count(&self) -> u32 {
        self.inherited + self.own.len() as u32
    }

    /// A new one; returns its number.
    pub fn push(&mut self, region: KnownPage) -> u32 {
        self.own.push(region);
        FIRST_REGION + self.count() - 1
    }

    /// What is known of one of its own, by its number.
    pub fn get(&self, number: u32) -> Option<&KnownPage> {
        self.own.get(number.checked_sub(FIRST_REGION)?.checked_sub(self.inherited)? as usize)
    }

    /// Whether a number is that of one of the parent's.
    pub fn is_inherited(&self, number: u32) -> bool {
        is_region(number) && number - FIRST_REGION < self.inherited
    }

    /// A page of the process's own is assigned to a region.
    pub fn assign(&mut self, own: u32, region: u32) {
        let own = own as usize;
        self.of.resize(self.of.len().max(own + 1), Assignment::default());
        self.of[own] = Assignment::to(region);
        self.assignments += 1;
    }

    /// The number of the region that a page of the process's own is assigned to.
    pub fn of(&self, own: u32) -> Option<u32> {
        self.of.get(own as usize)?.region()
    }

    /// The agent has had a page join its region.
    pub fn join(&mut self, own: u32) {
        self.of[own as usize].0 |= 1;
    }

    /// Whether it has.
    pub fn has_joined(&self, own: u32) -> bool {
        self.of.get(own as usize).is_some_and(|assignment| assignment.0 & 1 != 0)
    }

    /// How many pages were assigned.
    pub fn assignments(&self) -> usize {
        self.assignments
    }

    /// A page of the process's own is to be counted for itself, as it may become another object's.
    pub fn leave(&mut self, own: u32) {
        self.leaving.push(own);
    }

    /// Those that are to be, since the last time.
    pub fn take_leaving(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.leaving)
    }
}

/// Whether a number is a region's.
pub fn is_region(number: u32) -> bool {
    number >= FIRST_REGION
}
