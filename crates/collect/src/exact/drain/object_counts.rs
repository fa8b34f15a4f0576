//! Counts of pages become counts of objects.
//!
//! Whose a page is was read before the threads' counters were, and a running program goes on in between:
//!
//! ```text
//!   the collector   reads blocks ............................. reads counters      reads blocks ...
//!   the program            malloc touches the page, returns, writes to the block ...
//! ```
//!
//! So what a running thread has counted is attributed in a later poll, when all is known that came before it: the page
//! is the block's by then, and not its mapping's. That is the next one, unless what was reported of blocks could not be
//! read so far: somebody was kept from filling a record.

use super::{Drain, Process, Thread};
use crate::exact::attribution::{Part, SharedCounts};
use crate::exact::known_pages::{Around, KnownPage};
use crate::exact::page_owners::Had;
use crate::session::{Bound, CountedObject, Owner, PageClass, Session, Who};
use numalens_event::exact::Extent;
use numalens_profile::ids::*;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// So many polls after a page has gone, of those after which no counts of polls before have to wait, all its counts are
/// known: counts of pages that came and went between two polls may be found by the next one only, and are attributed by
/// the one after it.
pub const POLLS_BEHIND: usize = 4;
/// By how much the clocks of agents, library and collector may differ.
const CLOCKS_DIFFER_NS: u64 = 200_000;

/// What a thread has counted of a page since the poll before.
#[derive(Clone, Copy, Debug)]
pub(super) struct CountedPage {
    pub number: u32,
    /// Which poll has found it.
    pub poll: u64,
    /// It was counted after the one, and until the other.
    pub since_ns: u64,
    pub until_ns: u64,
    /// When it was found: bins may be wider when it is attributed.
    pub time_ns: u64,
    /// In which class it was counted: its home, and whether it was placed by a pinned thread.
    pub class: PageClass,
    pub reads: u64,
    pub writes: u64,
}

/// Whose all counts of a page between two polls are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Whose {
    One(ObjectId),
    /// No object was there but what stands for the rest of the memory.
    Rest,
    Several,
}

/// The same, of a page of which is known whose it was and who has had it meanwhile, where that was written down. One
/// who alone has ever had it has not all that was counted while it went or came: small blocks that nobody tells of were
/// there before or after.
pub(super) fn whose(owner: Owner, had: Option<&Had>) -> Whose {
    match (owner, had) {
        (Owner::One(object), None) | (_, Some(&Had::By(object))) => Whose::One(object),
        (_, Some(Had::ByNobody)) => Whose::Rest,
        (_, None | Some(Had::Between(_))) => Whose::Several,
    }
}

/// What is uncertain of a process's objects, and of pages of which is not known what lies there.
#[derive(Default)]
struct Uncertain {
    objects: FxHashMap<ObjectId, Bound>,
    pages: FxHashMap<Page, Bound>,
}

impl Drain {
    /// A poll begins.
    pub(super) fn begin_poll(&mut self, now_ns: u64) {
        self.polls += 1;
        let [_, before, last] = self.polls_began_ns;
        self.polls_began_ns = [before, last, now_ns];
        if self.has_older_counts {
            return;
        }
        for process in self.processes.values_mut() {
            process.undivided_ns = before.saturating_sub(CLOCKS_DIFFER_NS);
            process.page_owners_ended.rotate_left(1);
            for number in process.page_owners_ended.last_mut().map(std::mem::take).unwrap_or_default() {
                process.page_owners.remove(&number);
                process.used.remove(&number);
            }
        }
    }

    /// Threads have been looked at.
    pub(super) fn see_what_waits(&mut self) {
        let is_older = |counted: &CountedPage| counted.poll < self.polls;
        // In order of polls.
        let first = |thread: &Thread| thread.counted.first().is_some_and(is_older);
        self.has_older_counts = self.threads.iter().any(|(_, thread)| first(thread));
    }

    /// Who has had a page from one time to another, as far as that was written down.
    pub(super) fn had(&self, process: &Process, number: u32, since_ns: u64, until_ns: u64) -> Option<Had> {
        let (from, to) = (since_ns.saturating_sub(CLOCKS_DIFFER_NS), until_ns + CLOCKS_DIFFER_NS);
        if number >= process.inherited_pages.max(1) {
            return Some(process.page_owners.get(&number)?.had(from, to));
        }
        // What a forked process does with its blocks says nothing of its parent's, and the other way round.
        match self.had(self.processes.get(&process.parent?)?, number, 0, until_ns)? {
            Had::By(object) => Some(Had::Between(vec![object])),
            had => Some(had),
        }
    }

    /// Attributes what a thread has counted of pages to the objects that are known to have them.
    pub(super) fn attribute(
        &self,
        session: &mut Session,
        process: &Process,
        thread: &mut Thread,
        counted: impl IntoIterator<Item = CountedPage>,
    ) {
        for counted in counted {
            let CountedPage { number, poll, since_ns, until_ns, time_ns, class, reads, writes } = counted;
            let Some(known @ &KnownPage { page, owner, around, .. }) = self.known_page(process, number) else {
                continue;
            };
            let around =
                |session: &mut Session| around.unwrap_or_else(|| Around::now(session, process.pid, page, time_ns));
            let had = self.had(process, number, since_ns, until_ns);
            let who = Who { thread: thread.id, node: thread.node, class };
            let one = match whose(owner, had.as_ref()) {
                Whose::One(object) => Some(object),
                Whose::Rest => around(session).rest,
                Whose::Several => process.last_one_of(number, since_ns),
            };
            let is_of = (process.id, process.pid);
            let one = one.map(|object| session.stack_instead(is_of, page, object, Some(thread.id), until_ns));
            let counts = [reads, writes];
            let of_the_allocator = known.of_the_allocator(thread.tid, counts);
            if let Some(object) = one {
                // No sampled access can tell what the allocator does before the block is known.
                let own = [0, 1].map(|kind| counts[kind] - of_the_allocator[kind]);
                let shared = session.objects_that_share(process.id);
                for (object, counts) in
                    [(object, own), (shared, of_the_allocator)].into_iter().filter(|one| one.1 != [0, 0])
                {
                    session.count_object(&CountedObject {
                        process: process.id,
                        who,
                        time_ns,
                        object,
                        counts,
                        samples: 0,
                    });
                }
                let untold = of_the_allocator[0] + of_the_allocator[1];
                if untold != 0 {
                    let rest = around(session).rest;
                    thread.untold.extend([Some(object), rest].into_iter().flatten().map(|object| (object, untold)));
                }
                continue;
            }
            let mut page_owners = match had {
                Some(Had::Between(objects)) => objects,
                _ => Vec::new(),
            };
            let Around { rest, has_variables: open } = around(session);
            if let Some(rest) = rest {
                page_owners.push(session.stack_instead(is_of, page, rest, Some(thread.id), until_ns));
                page_owners.sort_unstable();
                page_owners.dedup();
            }
            let drawable = false;
            let counted = SharedCounts {
                page: number,
                who,
                poll,
                since_ns,
                until_ns,
                time_ns,
                counts,
                page_owners,
                open,
                drawable,
            };
            thread.shared.push(counted);
        }
    }

    /// Puts counts of shared pages where they are divided.
    pub(super) fn gather(&mut self, number: usize) {
        let (_, thread) = &mut self.threads[number];
        let (shared, untold) = (std::mem::take(&mut thread.shared), std::mem::take(&mut thread.untold));
        let Some(process) = self.processes.get_mut(&thread.process) else { return };
        for (object, untold) in untold {
            process.bounds.add(&[object], Bound { untold, ..Bound::default() });
        }
        let sampler = self.sampler.get_mut();
        for mut counted in shared {
            let poll = counted.poll;
            let more = counted.counts[0] + counted.counts[1];
            let used = process.used.entry(counted.page).or_default();
            *used = match *used {
                (of, now, before) if of >= poll => (of, now + more, before),
                (of, now, _) if of + 1 == poll => (poll, more, now),
                _ => (poll, more, 0),
            };
            counted.drawable = sampler.was_drawable(used.2, more);
            process.window.count(counted);
        }
    }

    /// Divides where there are samples enough.
    pub(super) fn divide_what_is_full(&mut self, session: &mut Session) {
        for process in self.processes.values_mut().filter(|process| process.window.is_full()) {
            process.divide(session);
        }
    }

    /// Divides the counts of pages that several objects share among these, as far as sampled accesses tell. What they
    /// do not tell of stands for itself.
    pub fn divide(&mut self, session: &mut Session) {
        let mut extents: Vec<Extent> = self.processes.keys().copied().collect();
        extents.sort_unstable();
        session.unbound_objects();
        // A process that executes another program goes on in another extent.
        let mut bounds: BTreeMap<ProcessId, Uncertain> = BTreeMap::new();
        for extent in extents {
            let Some(process) = self.processes.get_mut(&extent) else { continue };
            process.divide(session);
            let Some(process) = self.processes.get(&extent) else { continue };
            let Uncertain { objects, pages } = bounds.entry(process.id).or_default();
            for (&object, &bound) in &process.bounds.objects {
                objects.entry(object).or_default().add(bound);
            }
            let page = |(&number, &bound)| Some((self.known_page(process, number)?.page, bound));
            for (page, bound) in process.bounds.pages.iter().filter_map(page) {
                pages.entry(page).or_default().add(bound);
            }
        }
        for (process, Uncertain { objects, pages }) in bounds {
            session.bound_objects(process, objects, &pages);
        }
    }
}

impl Process {
    /// Whether all has been taken in that happened until then, on the clock of the records.
    pub(super) fn knows_all_until(&self, time: u64) -> bool {
        self.last || self.known_until >= time
    }

    /// Whose pages were is known until then, since the start of the recording.
    pub(super) fn attributable_until(&self, session: &Session) -> u64 {
        session.since_start(self.known_until).saturating_sub(CLOCKS_DIFFER_NS)
    }

    /// Who alone has had a page of a process that is over: nothing was allocated any more after it went, as programs
    /// give back all they have before they end.
    fn last_one_of(&self, number: u32, since_ns: u64) -> Option<ObjectId> {
        let page_owners = self.page_owners.get(&number).filter(|_| self.is_over)?;
        let last = page_owners.alone_until(since_ns.saturating_sub(CLOCKS_DIFFER_NS));
        last.filter(|&(_, gone_ns)| self.claimed_ns <= gone_ns).map(|(object, _)| object)
    }

    fn divide(&mut self, session: &mut Session) {
        let process = self.id;
        self.window.attribute(&mut self.bounds, |part| {
            let object = part.object.unwrap_or_else(|| session.objects_that_share(process));
            let Part { who, time_ns, counts, samples, .. } = part;
            session.count_object(&CountedObject { process, who, time_ns, object, counts, samples });
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_who_came_or_went_has_not_all() {
        let (a, b) = (ObjectId(1), ObjectId(2));
        let between = Had::Between(vec![a]);
        assert_eq!(whose(Owner::One(a), None), Whose::One(a));
        assert_eq!(whose(Owner::One(a), Some(&Had::By(a))), Whose::One(a));
        assert_eq!(whose(Owner::One(a), Some(&between)), Whose::Several);
        assert_eq!(whose(Owner::One(a), Some(&Had::ByNobody)), Whose::Rest);
        assert_eq!(whose(Owner::Several, Some(&Had::By(b))), Whose::One(b));
        assert_eq!(whose(Owner::Several, None), Whose::Several);
        assert_eq!(whose(Owner::Nobody, None), Whose::Several);
    }
}
