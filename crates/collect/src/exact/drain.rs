//! From counters to facts: what has been counted since the last poll is added to the profile.
//!
//! Counters only grow, so a poll is a comparison with the one before. Nothing is asked of the programs: they may run,
//! be stopped, or have been killed. Sites and pages are looked up in the records of their process; a forked process has
//! those of its parent below the numbers that it inherited.

mod begins;
mod ends;
mod gone;
mod heap_queue;
mod known;
mod log_records;
mod misses;
mod object_counts;
mod page_counts;
mod pauses;
mod poll;
mod site_counts;

use super::access_sampler::{AccessSampler, Came};
use super::attribution::{Bounds, SharedCounts, Window};
use super::blocks::ReleasedBlock;
use super::clock;
use super::fetches::{self, Fetches};
use super::file::{SessionFile, Shared};
use super::heap::{Heap, HeapEventQueue};
use super::known_pages::{KnownPage, KnownPages};
use super::map_changes::MapChange;
use super::page_owners::PageOwners;
use super::pages::{self, LoggedAccess};
use super::pending_homes::PendingHomes;
use super::release_memory::{Releasable, discard_pages, discard_process, discard_thread};
use super::totals::{IN_FLIGHT_OF_PAGE, LastPageSlot, Row, Totals};
use super::word_counts::{LoggedWordCounts, Waiting, WordCounts};
use crate::session::{BegunThread, Of, Session, UsedPage, command_line, name_of};
pub(super) use ends::execed;
use ends::of_its_program;
use heap_queue::RECORDS_FILLED;
use known::Known;
use misses::Misses;
use numalens_event::exact::{self, DirectoryEntry, Extent, LogHeader, ProcessHeader, end, kind, log};
use numalens_event::request::Request;
use numalens_profile::ids::*;
use numalens_profile::{MOST_LOOKS, Meta};
pub(super) use object_counts::POLLS_BEHIND;
use object_counts::{CountedPage, Whose, whose};
use page_counts::{GrownPage, Held, Polled, fill_up, sum};
use pauses::Balance;
use poll::Poll;
use rustc_hash::FxHashMap;
use site_counts::Counting;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::{Duration, Instant};

/// The agents' clock may step back by so much when it is set.
const CLOCK_JUMPS_NS: u64 = 100_000;

/// All processes and threads of a recording.
#[derive(Default)]
pub struct Drain {
    pub(super) processes: FxHashMap<Extent, Process>,
    threads: Vec<(Extent, Thread)>,
    /// When it was looked, since the start.
    poll_times: Vec<u64>,
    /// Entries of the directory seen so far.
    seen: u32,
    /// The next one, if it is given and not filled, and since when that is known.
    unfilled: Option<(Extent, Instant)>,
    /// Threads have been waited for in this poll that are kept from filling their records.
    is_behind: bool,
    /// Counts of polls before wait for what is reported of blocks: nothing may be forgotten that they are attributed
    /// by.
    has_older_counts: bool,
    /// Processes that were forked and are not known yet.
    forked: Vec<begins::Forked>,
    /// Programs that were found unobserved.
    unobserved: Vec<String>,
    /// Calls of programs that were refused, as memory of the agent's is there.
    refused: Vec<String>,
    /// What agents found worth a note.
    notes: Vec<String>,
    /// What the preloaded library reports, unless that could not be set up.
    heap: Option<Heap>,
    /// What it has reported.
    heap_queue: HeapEventQueue,
    sampler: RefCell<AccessSampler>,
    /// Until when all is known that was reported of blocks.
    known_until: u64,
    /// Polls so far, and when the latest three began.
    polls: u64,
    polls_began_ns: [u64; 3],
    /// Rows of cache lines so far.
    pub(super) lines_reported: u64,
}

/// A process: one program image.
pub(super) struct Process {
    pub(super) pid: i32,
    /// Its number in its own namespace.
    pub(super) said: i32,
    /// Whether that is another than ours.
    is_inner: bool,
    pub(super) id: ProcessId,
    pub(super) parent: Option<Extent>,
    pub(super) header: Arc<Shared>,
    pub(super) inherited_sites: u32,
    pub(super) inherited_pages: u32,
    pub(super) inherited_segments: u32,
    /// Sites seen so far, from the first of its own.
    pub(super) sites: Vec<Row>,
    /// Last pages by their numbers.
    pub(super) last_pages: FxHashMap<u32, LastPageSlot>,
    /// Code that it executes.
    pub(super) fetches: Fetches,
    /// Pages seen so far, from the first of its own.
    pub(super) pages: KnownPages,
    /// Those that have gone, and by which poll all that was counted of them is where it belongs.
    forgotten: VecDeque<(u64, Range<u32>)>,
    /// Those that have not gone, of its own.
    pub(super) live_pages: BTreeMap<Page, u32>,
    /// Those of which a block has begun or ended since they were last accessed: what is accessed next has another
    /// number, and whose that is says nothing of this one.
    pub(super) resting_pages: BTreeMap<Page, u32>,
    /// How far the latest reading of its pages and blocks came.
    pub(super) known_until: u64,
    /// Accesses that its log says, until they are looked at.
    pub(super) logged_accesses: Vec<LoggedAccess>,
    /// Who has had pages that several objects share, by the page's number.
    pub(super) page_owners: FxHashMap<u32, PageOwners>,
    /// Such pages that have gone, by how many polls it takes until all their counts are known: 1, 2, and so on.
    pub(super) page_owners_ended: [Vec<u32>; POLLS_BEHIND],
    /// The block that was released last, if nothing else has changed hands since.
    pub(super) released: Option<ReleasedBlock>,
    /// When a block was taken last, since the start of the recording.
    pub(super) claimed_ns: u64,
    /// It had ended when this poll began: all is known that it has reported.
    is_over: bool,
    /// Counts of earlier times will not come any more.
    pub(super) undivided_ns: u64,
    /// Counts of such pages and sampled accesses.
    pub(super) window: Window,
    bounds: Bounds,
    /// How much such pages were used, by number: between which polls, and before.
    used: FxHashMap<u32, (u64, u64, u64)>,
    /// What its log says of words that changed hands, until it is looked at.
    pub(super) logged_word_counts: Vec<LoggedWordCounts>,
    pub(super) word_counts: WordCounts,
    /// Memory that its log says has gone, until that is reported in order with pages that came.
    pub(super) gone: Vec<(u64, Range<Page>)>,
    /// Ranges in which a block has begun or ended, with the times.
    pub(super) rests: Vec<(u64, Range<Page>)>,
    /// What was mapped and unmapped, until that is reported in order with pages that came.
    pub(super) map_changes: Vec<MapChange>,
    /// Sites that had been given before its log was read.
    pub(super) sites_given: u32,
    pub(super) releasable: Releasable,
    /// Accesses that placed pages of a real machine.
    pub(super) pending_homes: PendingHomes,
    /// Call stacks in its log that have been unwound.
    pub(super) stacks: FxHashMap<u32, Option<StackId>>,
    /// The instructions of system calls that have placed pages, by the references to their call stacks.
    pub(super) call_sites: FxHashMap<u32, SiteId>,
    /// How often its pages have been looked at.
    pub(super) polls: u32,
    log_read: u64,
    log_given_back: u64,
    /// What of the log is over once pages below a number are known.
    log_heard: Option<(u64, u32)>,
    /// Its last instruction has been executed.
    pub(super) last: bool,
    /// The last poll found it gone, without a word.
    was_gone: bool,
    pub(super) ended: bool,
}

pub(super) struct Thread {
    pub(super) process: Extent,
    pub(super) id: ThreadId,
    index: u32,
    tid: i32,
    /// What the session knows that it is called since it went on in this extent.
    name: [u8; 16],
    pub(super) node: Option<u16>,
    sites: FxHashMap<u64, u64>,
    pages: FxHashMap<u64, [u64; 2]>,
    /// What missed its private cache.
    misses: Misses,
    /// Accesses of sites that were left out, where there is such a cache.
    left_out: FxHashMap<u64, u64>,
    /// Counts of pages that several objects share, until they are where they are divided.
    shared: Vec<SharedCounts>,
    /// Accesses that may be an object's or the allocator's, until then.
    untold: Vec<(ObjectId, u64)>,
    /// What was counted of pages and not reported at the latest poll.
    held: FxHashMap<u32, Held>,
    /// Before its counters were read for the last time, since the start of the recording.
    read_ns: u64,
    /// What the latest poll found counted of pages, until the next one has read whose they were.
    counted: Vec<CountedPage>,
    /// Counts of all pages, where every access is attributed to its object, until they are.
    waiting: FxHashMap<u32, Waiting>,
    /// Instructions executed, by page, and when they were counted last, since the start of the recording.
    pub(super) code: FxHashMap<Page, u64>,
    pub(super) code_ns: u64,
    /// What its pages have still to follow of what its sites have reported.
    balance: Balance,
    /// It has counted accesses to pages whose records have not been read yet.
    waits: bool,
    ended: bool,
}

/// A thread's counts of a page that are not attributed to objects yet.
pub(super) struct WaitingPage {
    pub extent: Extent,
    pub of: Extent,
    pub thread: ThreadId,
    pub node: Option<u16>,
    pub page: u32,
    pub counts: Waiting,
}

impl Process {
    /// Bytes that it has said, or would have with more room.
    fn said(&self) -> u64 {
        self.header.words::<ProcessHeader>(0, 1)[0].log_bytes.load(Acquire)
    }

    /// The page of a number, if it is one of its own that is there.
    pub(super) fn own_page(&self, number: u32) -> Option<Page> {
        let known = self.pages.get(number.checked_sub(self.inherited_pages.max(1))?)?;
        self.live_pages.contains_key(&known.page).then_some(known.page)
    }
}

impl Drain {
    /// Of what the agents count and the preloaded library reports.
    pub fn new(heap: Option<Heap>) -> Self {
        Drain { heap, ..Drain::default() }
    }

    /// What the preloaded library reports.
    pub fn heap(&self) -> Option<&Heap> {
        self.heap.as_ref()
    }

    /// Has preloaded libraries tell nothing any more.
    pub fn close_heap(&mut self) {
        self.heap = None;
    }

    /// Adds to the session what has been counted since the last poll.
    ///
    /// # Errors
    /// The session file cannot be mapped.
    pub fn poll(&mut self, file: &SessionFile, session: &mut Session) -> io::Result<()> {
        self.poll_until(file, session, Poll::Running)
    }

    /// Counts for the profile from here on, or does not: what has been counted since the last poll goes to the part
    /// that ends here. To be called while whoever asked for it waits.
    ///
    /// # Errors
    /// The session file cannot be mapped.
    pub fn switch(&mut self, file: &SessionFile, session: &mut Session, counting: bool) -> io::Result<()> {
        let asked = clock::agents_now(file.header());
        // Records that others are still filling: they take microseconds, or their threads have been stopped.
        for patience in 0..RECORDS_FILLED {
            self.poll_until(file, session, Poll::Settled)?;
            let is_behind = session.records_every_object() && self.known_until < asked;
            if !is_behind && !self.threads.iter().any(|(_, thread)| thread.waits && !thread.ended) {
                break;
            }
            std::thread::sleep(Duration::from_micros(50 << patience));
        }
        self.share_until_now(file, session)?;
        // By the clock of what agents and libraries tell: what they have reported by now belongs to the part that ends.
        session.count_from(clock::agents_now(file.header()), counting);
        Ok(())
    }

    /// A random number between a half and one and a half.
    pub fn around_one(&mut self) -> f64 {
        self.sampler.get_mut().around_one()
    }

    /// Whether a good part of what the latest poll has found is to be divided by samples.
    pub fn divides_much(&self) -> bool {
        self.sampler.borrow().is_much_shared()
    }

    /// How long after its page was drawn an access came.
    pub(super) fn came(&self, process: Extent, number: u32, time: u64) -> Option<Came> {
        self.sampler.borrow().came(process, number, time)
    }

    /// Has a few accesses logged, of pages that the latest poll found in use.
    pub fn sampler(&mut self, file: &SessionFile) {
        self.sampler.get_mut().draw(file, &self.processes);
    }

    fn poll_until(&mut self, file: &SessionFile, session: &mut Session, poll: Poll) -> io::Result<()> {
        let now = session.advance(monotonic_ns());
        self.begin_poll(now);
        if self.poll_times.len() < MOST_LOOKS {
            self.poll_times.push(now);
        }
        self.is_behind = false;
        // Where each word's owner must be known: all blocks and threads that were there by then are found below,
        // whatever comes meanwhile.
        let known_until = clock::agents_now(file.header());
        self.read_heap();
        self.find_new(file, session, poll.is_last())?;
        // Ends are looked for first: what a thread counted before its end is in what is read below, and so are its
        // sites.
        let ends: Vec<u64> = {
            let entries: Vec<&DirectoryEntry> = file.directory().map(|(_, entry)| entry).collect();
            let end = |extent: Extent| entries.get(extent.0 as usize).map_or(0, |entry| entry.end_ns.load(Acquire));
            self.processes.iter_mut().for_each(|(&extent, process)| process.is_over = end(extent) != 0);
            self.threads.iter().map(|&(extent, _)| end(extent)).collect()
        };
        for ((_, thread), &end) in
            self.threads.iter().zip(&ends).filter(|((_, thread), end)| !thread.ended && **end != 0)
        {
            session.thread_will_end(thread.tid, thread.id, end);
        }
        // What happened until here is in order. Pages of threads that have ended are among it, though the clock was set
        // again meanwhile.
        let horizon = clock::agents_now(file.header()) + CLOCK_JUMPS_NS;
        self.read_heap();
        if !self.heap_queue.waits {
            self.known_until = known_until;
        }
        let horizon = match poll {
            Poll::Last => u64::MAX,
            // Whose pages and words are depends on each block before.
            _ if self.heap.is_some() => self.known_until,
            _ => horizon,
        };
        let extents: Vec<Extent> = {
            let mut all: Vec<_> = self.processes.keys().copied().collect();
            all.sort_unstable();
            all
        };
        for &extent in &extents {
            let until = if poll.is_last() { horizon } else { self.forks_ahead(file, extent).min(horizon) };
            self.read_process(file, session, extent, of_its_program(file, extent, until))?;
        }
        let processes = &self.processes;
        self.heap_queue.drop_strangers(
            |pid| processes.values().any(|process| process.pid == pid && !process.ended),
            horizon.saturating_sub(10_000_000_000),
        );
        for (number, &end) in ends.iter().enumerate() {
            self.read_thread(file, session, number, now, end, poll)?;
        }
        self.see_what_waits();
        for &extent in &extents {
            self.give_back(file, session, extent)?;
            self.end_process(file, session, extent, horizon, poll.is_last());
        }
        self.divide_what_is_full(session);
        self.sampler.get_mut().polled(clock::agents_now(file.header()));
        // After the last poll there is no more to come.
        if poll != Poll::Last {
            session.keep_within_limits();
        }
        Ok(())
    }

    /// Takes in what a process says: its log until `until` (on the clock of the records), new sites, new pages, pages
    /// that have gone.
    fn read_process(
        &mut self,
        file: &SessionFile,
        session: &mut Session,
        extent: Extent,
        until: u64,
    ) -> io::Result<()> {
        let Some(mut process) = self.processes.remove(&extent) else { return Ok(()) };
        let done = if process.ended {
            Ok(())
        } else {
            // Before the log: what that says later to have gone has gone after these came.
            let header = &process.header.words::<ProcessHeader>(0, 1)[0];
            let pages = header.pages.load(Acquire);
            // And that says where these lie.
            process.sites_given = header.sites.load(Acquire);
            self.read_log(file, session, extent, &mut process, until).and_then(|()| {
                let mut queue = std::mem::take(&mut self.heap_queue);
                let done = pages::read(self, &mut queue, file, session, extent, &mut process, pages, until)
                    .and_then(|()| fetches::read(file, session, extent, &mut process));
                self.heap_queue = queue;
                process.give_back_log(file, extent);
                done
            })
        };
        self.processes.insert(extent, process);
        done
    }

    /// Looks where the pages of all processes live by now; those that have moved are asked for by their agents as well,
    /// when they are used again.
    pub fn reread_homes(&self, file: &SessionFile, session: &mut Session) {
        for (pid, moved) in session.reread_homes() {
            if let Some((&extent, process)) =
                self.processes.iter().find(|(_, process)| process.pid == pid && !process.ended)
            {
                pages::doubt(process, &moved);
                self.sampler.borrow().query_direct(file, extent, &moved);
            }
        }
    }

    fn read_thread(
        &mut self,
        file: &SessionFile,
        session: &mut Session,
        number: usize,
        now_ns: u64,
        ended: u64,
        poll: Poll,
    ) -> io::Result<()> {
        let (extent, thread) = &self.threads[number];
        let extent = *extent;
        if thread.ended {
            return Ok(());
        }
        // An exec may fail. When it does not, the thread is looked at for the last time with its process. One that has
        // failed since the end was read was no end either.
        let is_end = !execed(file, thread.process) && file.end_of(extent) == Some(ended) && self.is_over(file, extent);
        let ended = if is_end { ended } else { 0 };
        let poll = if ended != 0 { Poll::Last } else { poll };
        // At the end of all, those that still run are taken as they are afterwards.
        let poll = if poll == Poll::Last && ended == 0 { Poll::Running } else { poll };
        self.count_thread(file, session, number, now_ns, poll)?;
        let (_, thread) = &mut self.threads[number];
        // Records are read in order, and another thread may take its time to fill one: then there is one more look at
        // this one.
        if ended != 0 && !thread.waits {
            self.end_thread(file, session, number, ended);
        }
        Ok(())
    }

    /// Adds what a thread has counted.
    fn count_thread(
        &mut self,
        file: &SessionFile,
        session: &mut Session,
        number: usize,
        now_ns: u64,
        poll: Poll,
    ) -> io::Result<()> {
        let extent = self.threads[number].0;
        let mut thread = std::mem::replace(&mut self.threads[number].1, Thread::nobody());
        if let Some(name) = file.entry(extent).map(name_in).filter(|name| *name != thread.name) {
            session.thread_named(thread.tid, thread.id, &name_of(&name));
            thread.name = name;
        }
        let result = self.count(file, session, extent, &mut thread, now_ns, poll);
        let settled = poll != Poll::Running;
        let result = result.map(|executed| self.count_code(session, &mut thread, executed, now_ns, settled));
        self.threads[number].1 = thread;
        self.gather(number);
        result
    }

    fn count(
        &self,
        file: &SessionFile,
        session: &mut Session,
        extent: Extent,
        thread: &mut Thread,
        now_ns: u64,
        poll: Poll,
    ) -> io::Result<FxHashMap<Page, u64>> {
        let settled = poll != Poll::Running;
        let reported = session.is_counting();
        let Some(process) = self.processes.get(&thread.process) else { return Ok(FxHashMap::default()) };
        let classes_log2 = file.header().classes_log2.load(Relaxed);
        let header = &process.header.words::<ProcessHeader>(0, 1)[0];
        let lookup = Known { drain: self, process, of: thread.process, thread: extent };
        let read_ns = session.since_start(monotonic_ns());
        let totals = Totals::read(file, extent, classes_log2, &lookup, (thread.sites.len(), thread.pages.len()))?;
        let until_ns = session.since_start(monotonic_ns());
        let (since_ns, waited) = (std::mem::replace(&mut thread.read_ns, read_ns), thread.waits);
        let executed = self.executed(file, session, extent, thread, process, &totals, settled)?;
        let counting = Counting {
            header,
            lookup: &lookup,
            classes_log2,
            extent,
            thread: thread.id,
            node: thread.node,
            time_ns: now_ns,
            poll,
            in_flight: totals.in_flight,
            strict: session.was_ever_paused() || poll.is_last(),
        };
        let every = session.records_every_object();
        let (mut grown_pages, waits) = self.grown_pages(&counting, &mut thread.pages, &totals.pages, IN_FLIGHT_OF_PAGE);
        // Of a thread that has ended, all is attributed that it has counted: whose that is must be known.
        let is_unknown = || file.end_of(extent).is_some_and(|end| !process.knows_all_until(end));
        thread.waits = waits || poll == Poll::Last && is_unknown();
        let mut sites = Vec::new();
        self.count_sites(&counting, &mut thread.sites, totals.sites, |at, counted| sites.push((at, *counted)));
        if reported && poll.balances(thread.waits) {
            let missing = thread.balance.end(poll, &mut sites, sum(&grown_pages));
            fill_up(&mut grown_pages, missing, &thread.pages);
        }
        // In the order of facts, which counters of code that has been translated again are not: cheaper than sorting
        // facts later.
        sites.sort_unstable_by_key(|(_, counted)| (counted.site, counted.home, counted.pinned));
        for (at, counted) in sites {
            thread.balance.site(reported, [counted.reads, counted.writes]);
            if reported {
                session.count_site(Of::Accesses, &counted);
            } else if session.has_cache() {
                *thread.left_out.entry(at).or_default() += counted.reads.max(counted.writes);
            }
        }
        self.count_misses(session, &counting, thread, totals.site_misses, totals.page_misses);
        // What somebody has counted whose blocks are not reported yet waits for that.
        let is_all_known = poll == Poll::Cut || poll == Poll::Last && (process.last || !thread.waits);
        let known_ns = if is_all_known { u64::MAX } else { process.attributable_until(session) };
        let (before, mut counted): (Vec<_>, Vec<_>) =
            std::mem::take(&mut thread.counted).into_iter().partition(|counted| counted.until_ns <= known_ns);
        self.attribute(session, process, thread, before);
        for GrownPage { number, more } in grown_pages {
            let Some(&KnownPage { page, owner, class, begin_ns, .. }) = self.known_page(process, number) else {
                continue;
            };
            let before = thread.pages.entry(number.into()).or_default();
            // Its first counts have waited for it to be known.
            let since_ns = if waited && *before == more { since_ns.min(begin_ns) } else { since_ns };
            let was_held = thread.held.get(&number).copied();
            let [reads, writes] = [0, 1].map(|kind| {
                let (reported, too_early) = thread.balance.page(counting.strict, kind, more[kind]);
                before[kind] -= too_early;
                reported
            });
            let before = *before;
            if (reads, writes) == (0, 0) {
                continue;
            }
            let had = self.had(process, number, since_ns, until_ns);
            let is_shared = whose(owner, had.as_ref()) == Whose::Several;
            self.sampler.borrow_mut().used(thread.process, number, reads + writes, is_shared);
            let mut report = |since_ns, until_ns, time_ns, [reads, writes]: [u64; 2]| {
                let (id, node, home) = (thread.id, thread.node, class.0);
                let used = UsedPage { process: process.id, thread: id, time_ns, node, home, page, reads, writes };
                session.count_page(Of::Accesses, &used);
                if every {
                    let waiting = thread.waiting.entry(number).or_default();
                    waiting.add(time_ns, |time_ns| session.bin_of(time_ns), [reads, writes]);
                } else {
                    let poll = self.polls;
                    counted.push(CountedPage { number, poll, since_ns, until_ns, time_ns, class, reads, writes });
                }
            };
            // What was left to this poll has the time of the one that found it.
            let mut fresh = [reads, writes];
            for (window, part) in Held::carried(was_held, before, fresh) {
                fresh = [fresh[0] - part[0], fresh[1] - part[1]];
                report(window.since_ns, window.until_ns, window.time_ns, part);
            }
            if fresh != [0, 0] {
                report(since_ns, until_ns, now_ns, fresh);
            }
        }
        thread.hold(totals.pages, Polled { since_ns, until_ns, time_ns: now_ns });
        if is_all_known {
            self.attribute(session, process, thread, counted);
        } else {
            thread.counted = counted;
        }
        Ok(executed)
    }
}

impl Thread {
    /// Index of the node that it was bound to.
    pub(super) fn node(&self) -> Option<u16> {
        self.node
    }
}

fn name_in(entry: &DirectoryEntry) -> [u8; 16] {
    entry.name.each_ref().map(|byte| byte.load(Relaxed))
}

fn monotonic_ns() -> u64 {
    crate::perf::monotonic_ns()
}
