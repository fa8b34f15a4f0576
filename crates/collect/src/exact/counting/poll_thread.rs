//! A poll of one thread, from its tables to the profile.

use super::object_counts::Attribution;
use super::page_counts::Found;
use super::{Counting, Known};
use crate::exact::access_sampler::AccessSampler;
use crate::exact::directory::Directory;
use crate::exact::fetches;
use crate::exact::file::SessionFile;
use crate::exact::poll::Poll;
use crate::exact::process::Process;
use crate::exact::thread::{Polled, Thread};
use crate::exact::totals::{IN_FLIGHT_OF_PAGE, Totals};
use crate::perf::monotonic_ns;
use crate::session::Session;
use numalens_event::exact::Extent;
use numalens_profile::ids::Page;
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::io;
use std::sync::atomic::Ordering::Relaxed;

/// What a poll has at hand, for each thread.
pub struct Polling<'a> {
    pub directory: &'a Directory,
    pub sampler: &'a mut AccessSampler,
    pub file: &'a SessionFile,
    pub session: &'a mut Session,
    /// When it began, since the start of the recording, and which one it is.
    pub now_ns: u64,
    pub number: u64,
    pub poll: Poll,
}

/// Adds to the session what a thread has counted since the poll before, but for the instructions that it has executed:
/// returns how many these are by now, by page.
///
/// # Errors
/// The session file cannot be mapped.
pub fn poll_thread(
    polling: &mut Polling<'_>,
    extent: Extent,
    process: &Process,
    thread: &mut Thread,
) -> io::Result<FxHashMap<Page, u64>> {
    let Polling { directory, file, now_ns, number, poll, .. } = *polling;
    let (session, sampler) = (&mut *polling.session, RefCell::new(&mut *polling.sampler));
    let classes_log2 = file.header().classes_log2.load(Relaxed);
    let known = Known { directory, sampler: &sampler, process, of: thread.process, thread: extent };
    let read_ns = session.since_start(monotonic_ns());
    let found = thread.accesses.sites.len();
    thread.follow_assignments(process);
    let mut totals = Totals::read(file, extent, classes_log2, &known, found)?;
    totals.add_vacated(thread.vacated.counts());
    let until_ns = session.since_start(monotonic_ns());
    let (since_ns, waited) = (std::mem::replace(&mut thread.read_ns, read_ns), thread.waits);
    let executed = match thread.code.is_due(session.now_ns(), poll.is_settled()) {
        true => fetches::executed(file, extent, &totals, classes_log2, &directory.segments(process))?,
        false => FxHashMap::default(),
    };
    let counting = Counting {
        header: process.header(),
        lookup: &known,
        classes_log2,
        extent,
        thread: thread.id,
        node: thread.node,
        time_ns: now_ns,
        poll,
        in_flight: totals.in_flight,
        strict: session.was_ever_paused() || poll.is_last(),
    };
    let (mut grown, waits) = counting.grown_pages(&mut thread.accesses.pages, &totals.pages, IN_FLIGHT_OF_PAGE);
    // Of a thread that has ended, all is attributed that it has counted: whose that is must be known.
    let is_unknown = || file.end_of(extent).is_some_and(|end| !process.life.knows_all_until(end));
    thread.waits = waits || poll == Poll::Last && is_unknown();
    let (sites, times_ns) = (std::mem::take(&mut totals.sites), [since_ns, until_ns]);
    counting.report_sites(session, thread, sites, &totals.site_misses, &mut grown, times_ns);
    counting.report_misses(session, thread, std::mem::take(&mut totals.site_misses), &totals.page_misses);
    // What somebody has counted whose blocks are not reported yet waits for that.
    let is_all_known = poll == Poll::Cut || poll == Poll::Last && (process.life.last || !thread.waits);
    let known_ns = if is_all_known { u64::MAX } else { process.life.attributable_until(session) };
    let before = thread.unattributed.take_counted(known_ns);
    let attribution = Attribution { lookup: &known, thread: thread.id, node: thread.node };
    attribution.attribute(session, thread, before);
    let polled = Polled { since_ns, until_ns, time_ns: now_ns };
    counting.report_pages(session, thread, grown, Found { polled, waited, number });
    thread.held.hold(&totals.pages, &thread.accesses.pages, polled);
    if is_all_known {
        let counted = std::mem::take(&mut thread.unattributed.counted);
        attribution.attribute(session, thread, counted);
    }
    Ok(executed)
}
