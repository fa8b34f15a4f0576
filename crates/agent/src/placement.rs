//! Where a thread may run: on a real machine asked at its start and whenever the program changes it, on a virtual one kept here
//! ([`crate::machine`]).
//!
//! Every change closes what was counted before: the thread goes on with counters of its own, in a new extent. A thread that another one
//! binds notices when it next leaves the code cache.

use crate::call;
use crate::machine::cpus::{CpuSet, NodeSet, bits};
use crate::machine::place::{Place, all_cpus};
use crate::machine::policy::{Policy, mode};
use crate::machine::{self, index_of};
use crate::pages::is_virtual;
use crate::runtime::runtime;
use crate::shared::Session;
use crate::sys;
use crate::thread::Thread;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use numalens_event::exact::{self, Extent, GONE_ON, end, kind};
use numalens_translator::area as fixed;

const CPU_WORDS: usize = exact::MOST_CPUS / 64;
/// Known, policy, its nodes, those named, the CPUs: as `exact::ThreadPlace`.
const WORDS: usize = CPUS + CPU_WORDS;
/// Where the CPUs begin.
const CPUS: usize = NODES + 2 * exact::NODE_WORDS;
/// Where the nodes begin.
const NODES: usize = 2;
const _: () = assert!(WORDS * 8 == size_of::<exact::ThreadPlace>());
/// The mode without its flags.
const MODE: u64 = 0xff;

/// Where the calling thread may run, as `exact::ThreadPlace` has it, and the index of the node that this binds it to; negative: none.
fn ask(session: &Session) -> ([u64; WORDS], i32) {
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

/// Notes where the calling thread may run in its new extent. On a virtual machine also for a thread that does not run yet: its place must be that
/// of its creator then, or of the program before.
pub fn begin(session: &Session, thread: &mut Thread) {
    let entry = session.entry(thread.extent);
    let place = if is_virtual() {
        let index = entry.index.load(Relaxed);
        thread.place = thread.place.clone().seated(session.placement(), index);
        thread.node = node_of(session, &thread.place);
        thread.area.set(fixed::PROCESSOR, machine::processor(&thread.place, session.placement()));
        to_words(session, &thread.place.cpus, &thread.place.policy)
    } else {
        let (place, node) = ask(session);
        thread.node = node;
        Some(place)
    };
    entry.node.store(thread.node, Relaxed);
    if let Some(place) = place {
        session.write(thread.extent.offset() + exact::thread::PLACE, &place);
    }
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
fn to_words(session: &Session, cpus: &CpuSet, policy: &Policy) -> Option<[u64; WORDS]> {
    if *policy == Policy::NONE && *cpus == all_cpus(session.placement()) {
        return None;
    }
    let mut words = [0u64; WORDS];
    words[..NODES].copy_from_slice(&[1, policy.word().into()]);
    words[NODES..NODES + exact::NODE_WORDS].copy_from_slice(&policy.nodes.0);
    words[NODES + exact::NODE_WORDS..CPUS].copy_from_slice(&policy.named.0);
    words[CPUS..].copy_from_slice(&cpus.0);
    Some(words)
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

/// The place of a program's first thread on a virtual machine: that of the thread that called exec, in the extent `caller`.
pub fn inherited(session: &Session, caller: Extent) -> Place {
    let (cpus, policy) = match caller {
        Extent(..exact::MOST_EXTENTS) => wanted(session, caller),
        _ => (all_cpus(session.placement()), Policy::NONE),
    };
    Place::among(cpus, policy)
}

/// The calling thread is about to be known by another extent. Takes over what others have told it at the one before since it was told so many things, which it
/// takes notice of when it next leaves the code cache; whoever comes later than this tells it at the new one.
pub fn carry_over(session: &Session, before: Extent, told: u32, now: Extent) {
    let by_now = session.entry(before).bound_anew.fetch_or(GONE_ON, AcqRel);
    if by_now == told {
        return;
    }
    if is_virtual() {
        write_wanted(session, now, &read(session, before.offset() + exact::thread::WANTED).0);
    }
    session.entry(now).bound_anew.fetch_add(1, Release);
}

/// The calling thread of a real machine may run elsewhere now.
pub fn changed(thread: &mut Thread) {
    if !is_virtual() {
        go_on(thread, 0);
    }
}

/// The calling thread of a virtual machine has these CPUs and this policy from now on.
pub fn settle(thread: &mut Thread, cpus: CpuSet, policy: Policy) {
    settle_as_told(thread, cpus, policy, 0);
}

/// `told`: as many things that others have told it are heeded by that.
fn settle_as_told(thread: &mut Thread, cpus: CpuSet, policy: Policy, told: u32) {
    if thread.place.cpus != cpus || thread.place.policy != policy {
        (thread.place.cpus, thread.place.policy) = (cpus, policy);
        go_on(thread, told);
    }
}

/// The calling thread goes on with new counters, where it is now.
fn go_on(thread: &mut Thread, told: u32) {
    let runtime = runtime();
    let session = &runtime.session;
    let before = thread.extent;
    let old = session.entry(before);
    let (process, index) = (runtime.process().extent, old.index.load(Relaxed));
    // Without a new extent all goes on under the old place.
    let Some(extent) = session.new_extent(kind::THREAD, process, 0, index) else { return };
    // Until the old one has its end nobody settles what was counted there.
    let threads = runtime.threads.lock();
    if thread.area.map_counters(&runtime.layout, session, extent).is_err() {
        session.entry(extent).end_ns.store(sys::now_ns(), Relaxed);
        return;
    }
    thread.extent = extent;
    begin(session, thread);
    carry_over(session, before, told, extent);
    old.end.store(end::REPLACED, Relaxed);
    old.end_ns.store(sys::now_ns(), Release);
    drop(threads);
    session.take_name(extent);
    session.entry(extent).id.store(thread.tid, Release);
}

/// Somebody bound the thread `tid` of a real machine, which may be one of the recording.
pub fn notify(tid: u32) {
    let session = &runtime().session;
    if let Some(extent) = session.thread_of(tid) {
        tell(session, tid, extent, |_| {});
    }
}

/// Somebody wants the thread `tid` of a virtual machine, which has been found at this extent, on these CPUs.
pub fn want(session: &Session, tid: u32, extent: Extent, cpus: &CpuSet) {
    tell(session, tid, extent, |extent| write_wanted(session, extent, cpus));
}

/// Tells a thread to look where it may run, at the extent that it has by now.
fn tell(session: &Session, tid: u32, mut extent: Extent, write: impl Fn(Extent)) {
    /// A thread that is stopped on its way is not waited for any longer: naps.
    const PATIENCE: u32 = 10_000;
    loop {
        write(extent);
        if session.entry(extent).bound_anew.fetch_add(1, AcqRel) & GONE_ON == 0 {
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
    let has_noticed = session.entry(extent).bound_anew.load(Acquire) & !GONE_ON == 0;
    let (cpus, policy) = read(session, extent.offset() + exact::thread::PLACE);
    if has_noticed { (cpus, policy) } else { (read(session, extent.offset() + exact::thread::WANTED).0, policy) }
}

/// Takes notice of what another thread did.
pub fn take_notice(thread: &mut Thread) {
    let session = &runtime().session;
    let told = thread.extent;
    let count = &session.entry(told).bound_anew;
    loop {
        let seen = count.load(Acquire);
        if seen == 0 {
            return;
        }
        if is_virtual() {
            let (cpus, _) = read(session, told.offset() + exact::thread::WANTED);
            settle_as_told(thread, cpus, thread.place.policy, seen);
        } else {
            go_on(thread, seen);
        }
        // Only now: until then `wanted` must answer with what was asked for. An extent that is over may as well do so for ever: what came later has been carried over.
        if thread.extent != told || count.compare_exchange(seen, 0, AcqRel, Acquire).is_ok() {
            return;
        }
    }
}
