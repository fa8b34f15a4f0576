//! Threads that live a moment: stacks that they have one after the other, and the last that they tell.

use super::*;
use numalens_profile::words::ObjectKind;

/// Writes by thread to an object of a kind, and whether it is the thread's own.
fn writes(recorded: &Recorded) -> BTreeMap<(ThreadId, ObjectKind, bool), u64> {
    let profile = recorded.profile();
    let objects: BTreeMap<ObjectId, Object> =
        profile.rows::<Object>().unwrap().into_iter().map(|object| (object.object, object)).collect();
    let mut sums = BTreeMap::new();
    for row in profile.rows::<ObjectAccess>().unwrap() {
        let object = &objects[&row.object];
        *sums.entry((row.thread, object.kind, object.thread == Some(row.thread))).or_default() += row.writes;
    }
    sums
}

#[test]
fn stacks_of_threads_that_live_a_moment_are_theirs() {
    const THREADS: usize = 200 + 50 * 4;
    const EACH: u64 = 16384 * 20;
    let lab = Lab::exact();
    let sources: &[&str] = &["-O1", "-g", "-pthread"];
    for linked in [&[][..], &["-static"], &["-xc", "-static"]] {
        let recorded = record(&lab, "handed_on.c", &[sources, linked].concat());
        let sums = writes(&recorded);
        // Of a static program the C library's thread-local variables are the executable's, on one page with the stack.
        let least = if linked == ["-static"] { EACH * 96 / 100 } else { EACH };
        let own = sums.iter().filter(|((_, kind, own), sum)| *kind == ObjectKind::Stack && *own && **sum >= least);
        let own: Vec<ThreadId> = own.map(|((thread, ..), _)| *thread).collect();
        let others: Vec<_> = sums.iter().filter(|((thread, ..), sum)| !own.contains(thread) && **sum > 0).collect();
        assert_eq!(own.len(), THREADS, "{linked:?}: {others:?}");
        let all: u64 = sums.values().sum();
        let heap: u64 = sums.iter().filter(|((_, kind, _), _)| *kind == ObjectKind::Heap).map(|(_, sum)| sum).sum();
        assert!(heap < all / 100, "{linked:?}: {heap} of {all} are told as a heap's");
    }
    // Threads live for less than a sample's period: each recording has a few of them, or none.
    let (mut own, mut all) = (0, 0);
    for _ in 0..20 {
        let recorded = record_with(&lab, "handed_on.c", sources, &["--engine", "sample", "--frequency", "4000"], &[]);
        let sums = writes(&recorded);
        let of_threads = || sums.iter().filter(|((thread, ..), _)| *thread != ThreadId(0));
        all += of_threads().map(|(_, sum)| sum).sum::<u64>();
        let stacks = of_threads().filter(|((_, kind, own), _)| *kind == ObjectKind::Stack && *own);
        own += stacks.map(|(_, sum)| sum).sum::<u64>();
        if all >= 20 {
            break;
        }
    }
    assert!(own > 0 && own >= all * 95 / 100, "sampled: {own} of {all} are of the threads' own stacks");
}

/// The collector learns that a thread has ended before it reads the last that the thread has told.
#[test]
fn threads_that_end_soon_have_freed_what_they_freed() {
    for linked in ["-pie", "-static"] {
        let lab = Lab::exact();
        let flags = ["-O1", "-g", "-pthread", linked];
        let recorded = record_with(&lab, "short_threads.cc", &flags, &["--objects", "exact"], &[]);
        assert_eq!(number(&objects(&recorded, "short_threads.cc")["block"]["count"]), 20 * 500, "{linked}");
        let mut calls: BTreeMap<ThreadId, (u64, u64)> = BTreeMap::new();
        for row in recorded.profile().rows::<Allocation>().unwrap() {
            let (made, freed) = calls.entry(row.thread).or_default();
            *made += u64::from(row.bytes == 40 && row.call == Call::New);
            *freed += u64::from(row.bytes == 40 && row.call == Call::Free);
        }
        let main = calls.remove(&ThreadId(0));
        assert!(calls.len() == 20 && calls.values().all(|&calls| calls == (500, 500)), "{linked}: {main:?} {calls:?}");
    }
}
