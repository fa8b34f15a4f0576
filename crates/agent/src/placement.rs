//! Where a thread may run: on a real machine asked at its start and whenever the program changes it, on a virtual one
//! kept here ([`crate::machine`]).
//!
//! Every change is logged. What is counted is kept apart by node, and by nothing else of a place: so a
//! thread that a change leaves on its node goes on with
//! its counters, and one that comes to another node has counters for that one, in an extent of their own
//! ([`Seat`]). They are mapped in the place of those before, which
//! wait until the thread comes back: programs bind threads to and fro, for each piece of work or each block.
//!
//! A thread is known by its first extent in a process, whichever has its counters: where it may run is told and
//! asked for there. A thread that another one binds notices
//! when it next leaves the code cache.

mod seat;

use crate::call;
use crate::machine;
use crate::machine::cpus::{CpuSet, NodeSet, bits};
use crate::machine::nodes::index_of;
use crate::machine::place::{Place, all_cpus};
use crate::machine::policy::{Policy, mode};
use crate::state::runtime::{is_virtual, runtime};
use crate::state::session_file::Session;
use crate::state::thread::Thread;
use crate::sys;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use numalens_event::exact::{self, Extent, GONE_ON, end, log};
use numalens_translator::context as fixed;
use seat::{CPU_WORDS, CPUS, NODES, WORDS};
pub use seat::{FORGOTTEN, NOWHERE, Seat, Words};

/// The mode without its flags.
const MODE: u64 = 0xff;

/// Where the calling thread may run, as `exact::ThreadPlace` has it, and the index of the node that this binds it to;
/// negative: none.
fn ask(session: &Session) -> (Words, i32) {
    let mut place = [0u64; WORDS];
    place[0] = 1;
    let mut nodes = NodeSet::EMPTY;
    // SAFETY: memory of our own, of the sizes given.
    unsafe {
        let _ = call!(__NR_sched_getaffinity, 0, CPU_WORDS * 8, place[CPUS..].as_mut_ptr());
        let _ = call!(__NR_get_mempolicy, place[1..].as_mut_ptr(), nodes.0.as_mut_ptr(), exact::MOST_NODES, 0, 0);
    }
    place[1] &= MODE;
    place[NODES..NODES + exact::NODE_WORDS].copy_from_slice(&nodes.0);
    let placement = session.placement();
    if place[1] == mode::BIND.into()
        && let Some(index) = nodes.only().and_then(|node| index_of(placement, node))
    {
        return (place, index.into());
    }
    let mut found = None;
    for (word, &cpus) in place[CPUS..].iter().enumerate() {
        for bit in bits(cpus) {
            let node = placement.node_of_cpu[word * 64 + bit as usize].load(Relaxed);
            if node == exact::NO_NODE || found.is_some_and(|found| found != node) {
                return (place, -1);
            }
            found = Some(node);
        }
    }
    (place, found.map_or(-1, i32::from))
}

/// Notes where the calling thread may run in its first extent. On a virtual machine also for a thread that does not
/// run yet: its place must be that
/// of its creator then, or of the program before.
pub fn begin(session: &Session, thread: &mut Thread) {
    let entry = session.entry(thread.first);
    let place = if is_virtual() {
        sit(session, thread);
        to_words(session, &thread.place.cpus, &thread.place.policy)
    } else {
        let (place, node) = ask(session);
        (thread.node, thread.known) = (node, place);
        Some(place)
    };
    entry.node.store(thread.node, Relaxed);
    if let Some(place) = place {
        session.write(thread.first.offset() + exact::thread::PLACE, &place);
    }
}

/// Finds where a thread of a virtual machine is on its CPUs.
fn sit(session: &Session, thread: &mut Thread) {
    let slot = session.entry(thread.first).slot.load(Relaxed);
    thread.place = thread.place.clone().seated(session.placement(), slot);
    thread.node = node_of(session, &thread.place);
    thread.context.set(fixed::PROCESSOR, machine::processor(&thread.place, session.placement()));
}

/// The index of the node that a place binds a thread to: by its CPUs, else by its memory policy; negative: none.
fn node_of(session: &Session, place: &Place) -> i32 {
    let policy = place.policy;
    if place.node >= 0 {
        return place.node;
    }
    policy.bound_to().and_then(|node| index_of(session.placement(), node)).map_or(-1, i32::from)
}

/// A place on a virtual machine in words; none for that of a thread of which nobody has said anything.
fn to_words(session: &Session, cpus: &CpuSet, policy: &Policy) -> Option<Words> {
    let is_open = *policy == Policy::NONE && *cpus == all_cpus(session.placement());
    (!is_open).then(|| words_of(cpus, policy))
}

fn words_of(cpus: &CpuSet, policy: &Policy) -> Words {
    let mut words = [0u64; WORDS];
    words[..NODES].copy_from_slice(&[1, policy.word().into()]);
    words[NODES..NODES + exact::NODE_WORDS].copy_from_slice(&policy.nodes.0);
    words[NODES + exact::NODE_WORDS..CPUS].copy_from_slice(&policy.named.0);
    words[CPUS..].copy_from_slice(&cpus.0);
    words
}

/// The place that stands at an offset of the session file.
fn read(session: &Session, offset: u64) -> (CpuSet, Policy) {
    let mut words = [0u64; WORDS];
    // SAFETY: as many words of our own.
    let read = unsafe { call!(__NR_pread64, session.descriptor, words.as_mut_ptr(), WORDS * 8, offset) };
    if read != Ok(WORDS as u64 * 8) || words[0] == 0 {
        return (all_cpus(session.placement()), Policy::NONE);
    }
    let mut cpus = CpuSet::EMPTY;
    cpus.0.copy_from_slice(&words[CPUS..]);
    let (mut nodes, mut named) = (NodeSet::EMPTY, NodeSet::EMPTY);
    nodes.0.copy_from_slice(&words[NODES..NODES + exact::NODE_WORDS]);
    named.0.copy_from_slice(&words[NODES + exact::NODE_WORDS..CPUS]);
    (cpus, Policy::from_words(words[1], nodes, named))
}

/// The place of a program's first thread on a virtual machine: that of the thread that called exec, in the extent
/// `caller`.
pub fn inherited(session: &Session, caller: Extent) -> Place {
    let (cpus, policy) = match caller {
        Extent(..exact::MOST_EXTENTS) => wanted(session, caller),
        _ => (all_cpus(session.placement()), Policy::NONE),
    };
    Place::among(cpus, policy)
}

/// The calling thread is about to be known by another extent. Takes over what others have told it at the one before
/// since it was told so many things, which it takes notice of when it next leaves the code cache; whoever comes later
/// than this tells it at the new one.
pub fn carry_over(session: &Session, before: Extent, told: u32, now: Extent) {
    let by_now = session.entry(before).rebound.fetch_or(GONE_ON, AcqRel);
    if by_now == told {
        return;
    }
    if is_virtual() {
        write_wanted(session, now, &read(session, before.offset() + exact::thread::WANTED).0);
    }
    session.entry(now).rebound.fetch_add(1, Release);
}

/// The calling thread of a real machine may run elsewhere now.
pub fn changed(thread: &mut Thread) {
    if is_virtual() {
        return;
    }
    let (place, node) = ask(&runtime().session);
    if (thread.known, thread.node) != (place, node) {
        (thread.known, thread.node) = (place, node);
        go_on(thread, &place);
    }
}

/// The calling thread of a virtual machine has these CPUs and this policy from now on.
pub fn settle(thread: &mut Thread, cpus: CpuSet, policy: Policy) {
    if thread.place.cpus != cpus || thread.place.policy != policy {
        let place = words_of(&cpus, &policy);
        (thread.place.cpus, thread.place.policy) = (cpus, policy);
        sit(&runtime().session, thread);
        go_on(thread, &place);
    }
}

/// Logs where the calling thread is now, and goes on with the counters for that.
fn go_on(thread: &mut Thread, place: &Words) {
    let runtime = runtime();
    let used = place.iter().rposition(|&word| word != 0).map_or(0, |last| last + 1);
    let mut words = [0u64; WORDS + 2];
    words[..2].copy_from_slice(&[u64::from(thread.first.0), thread.node as u64]);
    words[2..][..used].copy_from_slice(&place[..used]);
    runtime.process().log(log::PLACED, &words[..2 + used], &[]);
    publish(&runtime.session, thread.first, place);
    let on = runtime.session.entry(thread.extent).node.load(Relaxed);
    if on != thread.node {
        change_counters(thread, on);
    }
}

/// Maps the counters for the node of the calling thread in the place of those for the node `on`.
fn change_counters(thread: &mut Thread, on: i32) {
    let runtime = runtime();
    let session = &runtime.session;
    // Until these have their end nobody settles what was counted there.
    let threads = runtime.threads.lock();
    let now = FORGOTTEN.load(Relaxed);
    let known = thread.seats.iter().position(|seat| seat.node == thread.node);
    let index = session.entry(thread.first).index.load(Relaxed);
    let next = match known {
        Some(known) => thread.seats[known],
        None => match session.new_seat(runtime.process().extent, thread.tid, index, thread.node) {
            Some(extent) => Seat { extent, node: thread.node, forgotten: now },
            // Without a new extent all goes on under the old place.
            None => return,
        },
    };
    if thread.context.map_counters(&runtime.layout, session, next.extent).is_err() {
        let _ = thread.context.map_counters(&runtime.layout, session, thread.extent);
        if known.is_none() {
            end_extent(session, next.extent, end::REPLACED);
        }
        return;
    }
    let left = Seat { extent: thread.extent, node: on, forgotten: now };
    thread.extent = next.extent;
    if next.forgotten != now {
        let sites = runtime.process().header().sites.load(Acquire);
        thread.context.forget(&runtime.layout, sites, &(0..u64::MAX));
    }
    if let Some(known) = known {
        thread.seats.swap_remove(known);
    }
    if !runtime.layout.words {
        thread.seats.push(left);
        return;
    }
    // What is counted by word is settled whenever a block begins or ends, in counters that are mapped: nobody
    // comes back to others.
    session.entry(left.extent).left_ns.store(sys::now_ns(), Release);
    if left.extent != thread.first {
        end_extent(session, left.extent, end::REPLACED);
    }
    drop(threads);
}

fn end_extent(session: &Session, extent: Extent, how: u32) {
    let entry = session.entry(extent);
    entry.end.store(how, Relaxed);
    entry.end_ns.store(sys::now_ns(), Release);
}

/// All extents of a thread but its first have come to their end, in this manner; with [`end::NONE`] they have not.
pub fn end_seats(session: &Session, thread: &Thread, how: u32) {
    let all = thread.seats.iter().map(|seat| seat.extent).chain([thread.extent]);
    for extent in all.filter(|&extent| extent != thread.first) {
        match how {
            end::NONE => {
                let entry = session.entry(extent);
                entry.end_ns.store(0, Release);
                entry.end.store(end::NONE, Relaxed);
            }
            _ => end_extent(session, extent, how),
        }
    }
}

/// Somebody bound the thread `tid` of a real machine, which may be one of the recording.
pub fn notify(tid: u32) {
    let session = &runtime().session;
    if let Some(extent) = session.thread_of(tid) {
        notify_thread(session, tid, extent, |_| {});
    }
}

/// Somebody wants the thread `tid` of a virtual machine, which has been found at this extent, on these CPUs.
pub fn want(session: &Session, tid: u32, extent: Extent, cpus: &CpuSet) {
    notify_thread(session, tid, extent, |extent| write_wanted(session, extent, cpus));
}

/// Notifies a thread to look where it may run, at the extent that it has by now.
fn notify_thread(session: &Session, tid: u32, mut extent: Extent, write: impl Fn(Extent)) {
    /// A thread that is stopped on its way is not waited for any longer: naps.
    const PATIENCE: u32 = 10_000;
    loop {
        write(extent);
        if session.entry(extent).rebound.fetch_add(1, AcqRel) & GONE_ON == 0 {
            return;
        }
        let next = (0..PATIENCE).find_map(|_| {
            let now = session.thread_of(tid).filter(|&now| now != extent);
            if now.is_none() {
                sys::nap();
            }
            now
        });
        match next {
            Some(next) => extent = next,
            None => return,
        }
    }
}

fn write_wanted(session: &Session, extent: Extent, cpus: &CpuSet) {
    let mut words = [0u64; WORDS];
    words[0] = 1;
    words[CPUS..].copy_from_slice(&cpus.0);
    session.write(extent.offset() + exact::thread::WANTED, &words);
}

/// Where another thread of a virtual machine may run, whether it has noticed or not.
pub fn wanted(session: &Session, extent: Extent) -> (CpuSet, Policy) {
    // In this order: what the thread notices in between, it has written down before it says so.
    let has_noticed = session.entry(extent).rebound.load(Acquire) & !GONE_ON == 0;
    let (cpus, policy) = current(session, extent);
    if has_noticed { (cpus, policy) } else { (read(session, extent.offset() + exact::thread::WANTED).0, policy) }
}

/// Lets others know where the calling thread may run by now: at one of two places in turn, so that they can read
/// the other one meanwhile.
fn publish(session: &Session, extent: Extent, place: &Words) {
    let changes = &session.entry(extent).places;
    let next = changes.load(Relaxed).wrapping_add(1).max(1);
    session.write(extent.offset() + exact::thread::now(next), place);
    changes.store(next, Release);
}

/// What a thread has published last.
fn current(session: &Session, extent: Extent) -> (CpuSet, Policy) {
    /// A thread that changes its place all the time is not waited for any longer.
    const PATIENCE: u32 = 1000;
    let changes = &session.entry(extent).places;
    let mut tries = 0;
    loop {
        let seen = changes.load(Acquire);
        let place = read(session, extent.offset() + exact::thread::now(seen));
        tries += 1;
        if changes.load(Acquire) == seen || tries == PATIENCE {
            return place;
        }
    }
}

/// Takes notice of what another thread did.
pub fn take_notice(thread: &mut Thread) {
    let session = &runtime().session;
    let told = thread.first;
    let count = &session.entry(told).rebound;
    loop {
        let seen = count.load(Acquire);
        if seen == 0 {
            return;
        }
        if is_virtual() {
            let (cpus, _) = read(session, told.offset() + exact::thread::WANTED);
            settle(thread, cpus, thread.place.policy);
        } else {
            changed(thread);
        }
        // Only now: until then `wanted` must answer with what was asked for.
        if count.compare_exchange(seen, 0, AcqRel, Acquire).is_ok() {
            return;
        }
    }
}
