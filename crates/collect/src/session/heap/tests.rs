//! What the kernel did not tell.

use super::super::{Output, Session, SessionOptions};
use super::*;
use crate::heap_channel::HeapEvent;
use numalens_profile::Writer;
use numalens_topology::{Machine, PagePolicy, ThreadPlacement};

const PID: i32 = 4_000_001;
const TID: u32 = 4_000_002;

fn session(directory: &Path) -> Session {
    let machine = Machine { is_virtual: false, ..Machine::preset("togian").unwrap() };
    let options = SessionOptions {
        machine,
        placement: ThreadPlacement::Spread,
        policy: PagePolicy::FirstTouch,
        time_bins: 1,
        stack: false,
        code: false,
        lines: false,
        every_object: false,
        cache: None,
        memory_budget: 1 << 20,
        period: 1,
        follow: true,
        counted: false,
        start_paused: false,
    };
    let writer = Writer::create(&directory.join("p.numalens"), false).unwrap();
    Session::new(options, Output::new(writer), 0)
}

/// The rings were full when the thread began: the kernel's word of it is lost, what the thread itself says is not.
#[test]
fn a_thread_whose_beginning_was_lost_is_known_by_what_it_reports() {
    let directory = tempfile::tempdir().unwrap();
    let mut session = session(directory.path());
    session.expect(PID);
    let mut notes = HeapNotes::default();
    let bound = |tid, time_ns, cpus: &'static [u64]| HeapEvent::ThreadPlaced {
        time_ns,
        pid: PID as u32,
        tid,
        placed: 0,
        cpus,
        ask: false,
    };
    notes.push(bound(TID, 1000, &[0b100]));
    notes.iter().for_each(|note| session.handle_heap(&notes, note));
    let placements = |session: &Session| -> Vec<(u32, String)> {
        let rows = session.threads.placement_rows().iter();
        rows.map(|row| (session.threads.rows()[row.thread.0 as usize].tid, row.cpus.clone())).collect()
    };
    assert!(placements(&session).contains(&(TID, "2".to_owned())), "{:?}", placements(&session));

    // The same when it has ended before that is read.
    session.threads.end(TID, 5000);
    let mut late = HeapNotes::default();
    late.push(bound(TID, 4000, &[0b1000]));
    late.iter().for_each(|note| session.handle_heap(&late, note));
    assert!(placements(&session).contains(&(TID, "3".to_owned())), "{:?}", placements(&session));
    assert_eq!(session.threads.rows().len(), 2, "one thread, not two");
}
