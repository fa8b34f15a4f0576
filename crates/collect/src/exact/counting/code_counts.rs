//! Instructions that a thread has executed since the poll before.

use crate::exact::process::Process;
use crate::exact::thread::Thread;
use crate::session::Session;
use numalens_profile::ids::Page;
use rustc_hash::FxHashMap;

/// Reports what a thread has executed since the last time, of which there is so much by now. `settled`: nobody runs.
pub fn report_code(
    session: &mut Session,
    process: &mut Process,
    thread: &mut Thread,
    executed: FxHashMap<Page, u64>,
    time_ns: u64,
    settled: bool,
) {
    let counting = session.is_counting();
    for (page, now) in executed {
        let more = thread.code.grown(page, now, settled);
        if more > 0 && counting {
            let place = process.fetches.place(session, process.identity.pid, page);
            session.count_code(process.id, thread.id, time_ns, thread.node, page, place, more);
        }
    }
}
