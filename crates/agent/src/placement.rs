//! Where a thread may run: on a real machine asked at its start and whenever the program changes it, on a virtual one as `wish.rs` has it.
//!
//! Every change closes what was counted before: the thread goes on with counters of its own, in a new extent. A thread that another one
//! binds notices when it next leaves the code cache.

use crate::area::{Area, own};
use crate::call;
use crate::pages::is_virtual;
use crate::runtime::runtime;
use crate::shared::Session;
use crate::sys;
use crate::thread::Thread;
use crate::wish::Wish;
use core::sync::atomic::Ordering::{Relaxed, Release};
use numalens_event::exact::{self, Extent, end, kind};

const CPU_WORDS: usize = exact::MOST_CPUS / 64;
/// Known, policy, its nodes, the CPUs: as `exact::ThreadPlace`.
const WORDS: usize = 3 + CPU_WORDS;
const MPOL_BIND: u64 = 2;
/// The mode without its flags.
const MODE: u64 = 0xff;

/// Where the calling thread may run, as `exact::ThreadPlace` has it, and the index of the node that this binds it to; negative: none.
fn ask(session: &Session) -> ([u64; WORDS], i32) {
    let mut place = [0u64; WORDS];
    place[0] = 1;
    let mut nodes = [0u64; 16];
    // SAFETY: memory of our own, of the sizes given.
    unsafe {
        let _ = call!(__NR_sched_getaffinity, 0, CPU_WORDS * 8, place[3..].as_mut_ptr());
        let _ = call!(__NR_get_mempolicy, place[1..].as_mut_ptr(), nodes.as_mut_ptr(), 64 * nodes.len(), 0, 0);
    }
    place[1] &= MODE;
    place[2] = nodes[0];
    let placement = session.placement();
    if place[1] == MPOL_BIND && nodes[0].is_power_of_two() {
        let kernels = nodes[0].trailing_zeros() + 1;
        let index = placement.kernel_nodes.iter().position(|known| known.load(Relaxed) == kernels);
        if let Some(index) = index {
            return (place, index as i32);
        }
    }
    let mut found = None;
    for (word, bits) in place[3..].iter().enumerate() {
        for bit in (0..64).filter(|bit| bits >> bit & 1 != 0) {
            let node = placement.node_of_cpu[word * 64 + bit].load(Relaxed);
            if node == exact::NO_NODE || found.is_some_and(|found| found != node) {
                return (place, -1);
            }
            found = Some(node);
        }
    }
    (place, found.map_or(-1, i32::from))
}

/// Notes where the calling thread may run in its new extent; its node.
pub fn begin(session: &Session, extent: Extent) -> i32 {
    if session.placement().is_virtual.load(Relaxed) != 0 {
        return session.entry(extent).node.load(Relaxed);
    }
    let (place, node) = ask(session);
    session.entry(extent).node.store(node, Relaxed);
    let at = extent.offset() + exact::thread::PLACE;
    // SAFETY: words of our own.
    let _ = unsafe { call!(__NR_pwrite64, session.descriptor, place.as_ptr(), WORDS * 8, at) };
    node
}

/// The calling thread may run elsewhere now.
pub fn changed(thread: &mut Thread) {
    if !is_virtual() {
        go_on(thread, -1);
    }
}

/// The program wants the calling thread elsewhere on a virtual machine.
pub fn wanted(thread: &mut Thread, wish: Wish) {
    let session = &runtime().session;
    let node = wish.node(session, session.entry(thread.extent).index.load(Relaxed));
    thread.wish = wish;
    if node != thread.node {
        go_on(thread, node);
    }
}

/// The calling thread goes on with new counters: on a virtual machine on `node`, on a real one where it is.
fn go_on(thread: &mut Thread, node: i32) {
    let runtime = runtime();
    let session = &runtime.session;
    let old = session.entry(thread.extent);
    let (process, index) = (runtime.process().extent, old.index.load(Relaxed));
    // Without a new extent all goes on under the old place.
    let Some(extent) = session.new_extent(kind::THREAD, process, 0, index, node) else { return };
    let node = begin(session, extent);
    if thread.area.map_counters(&runtime.layout, session, extent).is_err() {
        session.entry(extent).end_ns.store(sys::now_ns(), Relaxed);
        return;
    }
    old.end.store(end::REPLACED, Relaxed);
    old.end_ns.store(sys::now_ns(), Release);
    (thread.extent, thread.node) = (extent, node);
    session.entry(extent).id.store(thread.tid, Release);
}

/// Somebody bound the thread `tid`, which may be one of this process: on a virtual machine, this is what it wanted.
pub fn notify(tid: u32, wish: Wish) {
    let threads = runtime().threads.lock();
    if let Some((_, area)) = threads.iter().find(|(known, _)| *known == tid) {
        area.set(own::WISH, wish.pack());
        area.set(own::BOUND_ANEW, 1);
    } else if wish != Wish::None {
        crate::wish::keep(tid, wish);
    }
}

/// Takes notice of what [`notify`] said.
pub fn take_notice(thread: &mut Thread, area: Area) {
    if area.get(own::BOUND_ANEW) != 0 {
        area.set(own::BOUND_ANEW, 0);
        match Wish::unpack(area.get(own::WISH)) {
            Wish::None => changed(thread),
            wish => wanted(thread, wish),
        }
    }
}
