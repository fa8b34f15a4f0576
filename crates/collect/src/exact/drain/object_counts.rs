//! Counts of pages become counts of objects.
//!
//! Whose a page is was read before the threads' counters were, and a running program goes on in between:
//!
//! ```text
//!   the collector   reads blocks ............................. reads counters      reads blocks ...
//!   the program            malloc touches the page, returns, writes to the block ...
//! ```
//!
//! So what a running thread has counted is attributed in the next look, when all is known that came before it: the page is the block's by then, and not its
//! mapping's.

use super::{Drain, Process, Thread};
use crate::exact::pages::KnownPage;
use crate::sample::session::{CountedObject, Owner, Session};
use numalens_profile::ids::*;

/// What a thread has counted of a page since the look before.
#[derive(Clone, Copy, Debug)]
pub(super) struct CountedPage {
    pub number: u32,
    /// When it was found: bins may be wider when it is attributed.
    pub time_ns: u64,
    /// In which class it was counted: its home, and whether it was placed by a pinned thread.
    pub class: (Option<u8>, bool),
    pub reads: u64,
    pub writes: u64,
}

impl Drain {
    /// Attributes what a thread has counted of pages to the objects that are known to have them.
    pub(super) fn attribute(
        &self,
        session: &mut Session,
        process: &Process,
        thread: &mut Thread,
        counted: impl IntoIterator<Item = CountedPage>,
    ) {
        for CountedPage { number, time_ns, class: (home, pinned), reads, writes } in counted {
            let bin = session.bin_of(time_ns);
            match self.known_page(process, number) {
                Some(&KnownPage { owner: Owner::One(object), .. }) => session.count_object(&CountedObject {
                    process: process.id,
                    thread: thread.id,
                    bin,
                    node: thread.node,
                    site: None,
                    object,
                    home,
                    pinned,
                    reads,
                    writes,
                    samples: 0,
                }),
                _ => {
                    let waiting = thread.shared.entry(number).or_default();
                    *waiting = (time_ns, waiting.1 + reads, waiting.2 + writes);
                }
            }
        }
    }

    /// Divides the counts of pages that several objects share among these, as far as accesses that were looked at tell. What they do not tell
    /// of stands for itself.
    pub fn divide(&mut self, session: &mut Session) {
        for number in 0..self.threads.len() {
            let waiting = std::mem::take(&mut self.threads[number].1.shared);
            let (of, id, node) = {
                let thread = &self.threads[number].1;
                (thread.process, thread.id, thread.node)
            };
            for (page, (time_ns, reads, writes)) in waiting {
                let Some(process) = self.processes.get(&of) else { continue };
                let Some(&KnownPage { class: (home, pinned), .. }) = self.known_page(process, page) else { continue };
                let (process, site) = (process.id, None);
                let mix = self.processes.get_mut(&of).and_then(|process| process.mixes.get_mut(&page));
                let parts = mix.map(|mix| mix.divide(reads, writes)).unwrap_or_default();
                let bin = session.bin_of(time_ns);
                let all = CountedObject {
                    process,
                    thread: id,
                    bin,
                    node,
                    site,
                    object: ObjectId(0),
                    home,
                    pinned,
                    reads,
                    writes,
                    samples: 0,
                };
                for part in &parts {
                    let (object, reads, writes, samples) = (part.object, part.reads, part.writes, part.samples);
                    session.count_object(&CountedObject { object, reads, writes, samples, ..all });
                }
                if parts.is_empty() {
                    let object = session.objects_that_share(process);
                    session.count_object(&CountedObject { object, ..all });
                }
            }
        }
    }
}
