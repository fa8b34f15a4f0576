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

use super::Known;
use crate::exact::attribution::SharedCounts;
use crate::exact::known_pages::{Around, KnownPage};
use crate::exact::page_owners::Had;
use crate::exact::thread::{CountedPage, Thread};
use crate::session::{CountedObject, Owner, Session, Who};
use numalens_profile::ids::*;

/// Whose all counts of a page between two polls are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whose {
    One(ObjectId),
    /// No object was there but what stands for the rest of the memory.
    Rest,
    Several,
}

/// The same, of a page of which is known whose it was and who has had it meanwhile, where that was written down. One
/// who alone has ever had it has not all that was counted while it went or came: small blocks that nobody tells of were
/// there before or after.
pub fn whose(owner: Owner, had: Option<&Had>) -> Whose {
    match (owner, had) {
        (Owner::One(object), None) | (_, Some(&Had::By(object))) => Whose::One(object),
        (_, Some(Had::ByNobody)) => Whose::Rest,
        (_, None | Some(Had::Between(_))) => Whose::Several,
    }
}

/// Attributes counts of pages to objects.
pub struct Attribution<'a> {
    pub lookup: &'a Known<'a>,
    pub thread: ThreadId,
    pub node: Option<u16>,
}

impl Attribution<'_> {
    /// Attributes what a thread has counted of pages to the objects that are known to have them.
    pub fn attribute(&self, session: &mut Session, thread: &mut Thread, counted: Vec<CountedPage>) {
        let process = self.lookup.process;
        for counted in counted {
            let CountedPage { number, since_ns, until_ns, reads, writes, .. } = counted;
            let Some(known) = self.lookup.page(number) else { continue };
            let had = self.lookup.had(number, since_ns, until_ns);
            let one = match whose(known.owner, had.as_ref()) {
                Whose::One(object) => Some(object),
                Whose::Rest => self.around(session, known, &counted).rest,
                Whose::Several if process.life.is_over => process.shared.last_one_of(number, since_ns),
                Whose::Several => None,
            };
            let one = one.map(|object| self.of_stack(session, known, object, &counted));
            let of_the_allocator = known.of_the_allocator(thread.tid, [reads, writes]);
            match one {
                Some(object) => {
                    self.attribute_to(object, of_the_allocator, session, &counted);
                    let untold = of_the_allocator[0] + of_the_allocator[1];
                    if untold != 0 {
                        let rest = self.around(session, known, &counted).rest;
                        let both = [Some(object), rest].into_iter().flatten();
                        thread.unattributed.untold.extend(both.map(|object| (object, untold)));
                    }
                }
                None => {
                    let shared = self.shared_by(had, session, known, &counted);
                    thread.unattributed.shared.push(shared);
                }
            }
        }
    }

    /// Adds counts to an object, but for those that may be the allocator's: no sampled access can tell what that does
    /// before the block is known.
    fn attribute_to(&self, object: ObjectId, of_the_allocator: [u64; 2], session: &mut Session, counted: &CountedPage) {
        let (process, who, time_ns) = (self.lookup.process.id, self.who(counted), counted.time_ns);
        let counts = [counted.reads, counted.writes];
        let own = [0, 1].map(|kind| counts[kind] - of_the_allocator[kind]);
        let shared = session.objects_that_share(process);
        for (object, counts) in [(object, own), (shared, of_the_allocator)] {
            if counts != [0, 0] {
                session.count_object(&CountedObject { process, who, time_ns, object, counts, samples: 0 });
            }
        }
    }

    /// Counts of which all is known but whose they are: of those who `had` the page, or of the rest of its mapping.
    fn shared_by(
        &self,
        had: Option<Had>,
        session: &mut Session,
        known: &KnownPage,
        counted: &CountedPage,
    ) -> SharedCounts {
        let mut page_owners = match had {
            Some(Had::Between(objects)) => objects,
            _ => Vec::new(),
        };
        let Around { rest, has_variables: open } = self.around(session, known, counted);
        if let Some(rest) = rest {
            page_owners.push(self.of_stack(session, known, rest, counted));
            page_owners.sort_unstable();
            page_owners.dedup();
        }
        let &CountedPage { number: page, poll, since_ns, until_ns, time_ns, reads, writes, .. } = counted;
        let (who, counts) = (self.who(counted), [reads, writes]);
        SharedCounts { page, who, poll, since_ns, until_ns, time_ns, counts, page_owners, open, drawable: false }
    }

    fn who(&self, counted: &CountedPage) -> Who {
        Who { thread: self.thread, node: self.node, class: counted.class }
    }

    fn around(&self, session: &mut Session, known: &KnownPage, counted: &CountedPage) -> Around {
        let pid = self.lookup.process.identity.pid;
        known.around.unwrap_or_else(|| Around::now(session, pid, known.page, counted.time_ns))
    }

    /// Whose a page is that is known as `object`'s: stacks are handed on.
    fn of_stack(&self, session: &mut Session, known: &KnownPage, object: ObjectId, counted: &CountedPage) -> ObjectId {
        let is_of = (self.lookup.process.id, self.lookup.process.identity.pid);
        session.stack_instead(is_of, known.page, object, Some(self.thread), counted.until_ns)
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
