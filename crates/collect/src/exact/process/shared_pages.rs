//! Pages that several objects share: who has had them, and what was counted there until it is divided.

use crate::exact::attribution::{Bounds, Part, SampledAccess, SharedCounts, Window};
use crate::exact::clock::CLOCKS_DIFFER_NS;
use crate::exact::page_owners::{Had, PageOwners};
use crate::session::{Bound, Claimed, CountedObject, Session};
use numalens_profile::ids::{ObjectId, Page, ProcessId};
use rustc_hash::FxHashMap;

/// So many polls after a page has gone, of those after which no counts of polls before have to wait, all its counts are
/// known: counts of pages that came and went between two polls may be found by the next one only, and are attributed by
/// the one after it.
const POLLS_BEHIND: usize = 4;

/// Pages of a process that several objects share, by their numbers.
#[derive(Default)]
pub struct SharedPages {
    owners: FxHashMap<u32, PageOwners>,
    /// Those that have gone, by how many polls it takes until all their counts are known: 1, 2, and so on.
    ended: [Vec<u32>; POLLS_BEHIND],
    used: FxHashMap<u32, Use>,
    /// The block that was released last, if nothing else has changed hands since.
    released: Option<ReleasedBlock>,
    /// When a block was taken last, since the start of the recording.
    claimed_ns: u64,
    /// Counts of earlier times will not come any more.
    undivided_ns: u64,
    /// Counts and sampled accesses.
    window: Window,
    /// What is uncertain.
    pub bounds: Bounds,
}

/// How much a page was used.
#[derive(Default)]
struct Use {
    /// Which poll has found it.
    poll: u64,
    now: u64,
    /// Between the two polls before.
    before: u64,
}

impl Use {
    /// A poll has found more.
    fn add(&mut self, poll: u64, more: u64) {
        *self = match *self {
            Use { poll: of, now, before } if of >= poll => Use { poll: of, now: now + more, before },
            Use { poll: of, now, .. } if of + 1 == poll => Use { poll, now: more, before: now },
            _ => Use { poll, now: more, before: 0 },
        };
    }
}

/// The block that was released last.
pub struct ReleasedBlock {
    pub tid: u32,
    pub start: Page,
    pub time_ns: u64,
}

impl ReleasedBlock {
    /// Whether the thread released it to have it grow, and has it again where it was.
    fn is_back(&self, tid: u32, claimed: &Claimed) -> bool {
        /// What the library does between saying so and the call.
        const SOON_NS: u64 = 10_000;
        claimed.grown
            && self.tid == tid
            && self.start == claimed.pages.start
            && claimed.since_ns <= self.time_ns + SOON_NS
    }
}

impl SharedPages {
    /// A poll begins, and no counts of polls before have to wait: counts of times before that one will not come.
    pub fn poll_begins(&mut self, undivided_ns: u64) {
        self.undivided_ns = undivided_ns.saturating_sub(CLOCKS_DIFFER_NS);
        self.ended.rotate_left(1);
        for number in self.ended.last_mut().map(std::mem::take).unwrap_or_default() {
            self.owners.remove(&number);
            self.used.remove(&number);
        }
    }

    /// A page begins, with the owners that it has, if it is shared and its blocks say all.
    pub fn begins(&mut self, number: u32, owners: Option<PageOwners>) {
        match owners {
            Some(owners) => drop(self.owners.insert(number, owners)),
            None => drop(self.owners.remove(&number)),
        }
    }

    /// Whether it is written down who has had a page.
    pub fn knows(&self, number: u32) -> bool {
        self.owners.contains_key(&number)
    }

    /// A page goes on under another number.
    pub fn goes_on(&mut self, before: u32, number: u32) {
        if let Some(owners) = self.owners.get(&before).cloned() {
            self.owners.insert(number, owners);
        }
    }

    /// Nothing more is counted of a page. Whether it is shared.
    pub fn ends(&mut self, number: u32) -> bool {
        self.ended[POLLS_BEHIND - 1].push(number);
        self.owners.contains_key(&number)
    }

    /// A block was taken. Returns the one that was released just before it, if it is that.
    pub fn claimed(&mut self, tid: u32, claimed: &Claimed, time_ns: u64) -> Option<ReleasedBlock> {
        self.claimed_ns = time_ns;
        self.released.take().filter(|gone| gone.is_back(tid, claimed))
    }

    /// A block was released.
    pub fn released(&mut self, block: ReleasedBlock) {
        self.released = Some(block);
    }

    /// Whether an object had a page alone until this time; if so, it has not gone.
    pub fn is_back(&mut self, number: u32, object: ObjectId, gone_ns: u64) -> bool {
        self.owners.get_mut(&number).is_some_and(|owners| owners.is_back(object, gone_ns))
    }

    /// The blocks on a page are others now: `present`, of which the only one has all of it if it is `whole`. `before`:
    /// whose it was, where that was not known to be several's.
    pub fn owners_change(
        &mut self,
        number: u32,
        before: impl FnOnce() -> PageOwners,
        present: &[ObjectId],
        whole: bool,
        time_ns: u64,
    ) {
        let owners = self.owners.entry(number).or_insert_with(before);
        owners.changed(present, whole, time_ns, self.undivided_ns);
    }

    /// Who has had a page from one time to another, as far as that was written down.
    pub fn had(&self, number: u32, since_ns: u64, until_ns: u64) -> Option<Had> {
        let (from, to) = (since_ns.saturating_sub(CLOCKS_DIFFER_NS), until_ns + CLOCKS_DIFFER_NS);
        Some(self.owners.get(&number)?.had(from, to))
    }

    /// Who alone has had a page of a process that is over: nothing was allocated any more after it went, as programs
    /// give back all they have before they end.
    pub fn last_one_of(&self, number: u32, since_ns: u64) -> Option<ObjectId> {
        let last = self.owners.get(&number)?.alone_until(since_ns.saturating_sub(CLOCKS_DIFFER_NS));
        last.filter(|&(_, gone_ns)| self.claimed_ns <= gone_ns).map(|(object, _)| object)
    }

    /// Adds a sampled access.
    pub fn add_sample(&mut self, page: u32, access: SampledAccess) {
        self.window.add_sample(page, access);
    }

    /// Adds counts that are to be divided. `was_drawable`: whether a page that was used so much before, and so much
    /// now, might have been drawn.
    pub fn count(&mut self, mut counted: SharedCounts, was_drawable: impl FnOnce(u64, u64) -> bool) {
        let more = counted.counts[0] + counted.counts[1];
        let used = self.used.entry(counted.page).or_default();
        used.add(counted.poll, more);
        counted.drawable = was_drawable(used.before, more);
        self.window.count(counted);
    }

    /// Adds accesses that may be an object's or the allocator's.
    pub fn add_untold(&mut self, object: ObjectId, untold: u64) {
        self.bounds.add(&[object], Bound { untold, ..Bound::default() });
    }

    /// Whether there are samples enough to divide.
    pub fn is_full(&self) -> bool {
        self.window.is_full()
    }

    /// Divides the counts as far as sampled accesses say. What they do not speak for stands for itself.
    pub fn divide(&mut self, session: &mut Session, process: ProcessId) {
        self.window.attribute(&mut self.bounds, |part| {
            let object = part.object.unwrap_or_else(|| session.objects_that_share(process));
            let Part { who, time_ns, counts, samples, .. } = part;
            session.count_object(&CountedObject { process, who, time_ns, object, counts, samples });
        });
    }
}
