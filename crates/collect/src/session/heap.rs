//! What the interposer in the target tells: heap blocks, memory that came and went, threads that were bound.
//!
//! Its events must be seen in order with the kernel's: a block is allocated, then touched, then freed. So they are
//! copied out of the channel first ([`HeapNotes`]) and merged by time with the records of the same batch.

use super::bindings::RangePolicy;
use super::marks::name_of;
use super::objects::NewBlock;
use super::pages::{CHUNK, Run, Touch};
use super::process::{Caller, LiveProcess};
use super::threads::ThreadBinding;
use super::vmas::sets_nothing_aside;
use super::{Session, bound};
use crate::heap_channel::{Call, HeapEvent};
use numalens_event::request::Request;
use numalens_profile::ids::{ObjectId, Page};
use numalens_profile::tables;
use numalens_profile::words;
use numalens_topology::CpuSet;
use std::ops::Range;
use std::path::Path;

/// Flags of `mbind`, from linux/mempolicy.h: what is there already moves as well.
const MPOL_MF_MOVE: u32 = 1 << 1;
const MPOL_MF_MOVE_ALL: u32 = 1 << 2;

const ANONYMOUS: u32 = libc::MAP_ANONYMOUS as u32;
/// What a protection gives, if any.
const ACCESS: u32 = (libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC) as u32;

/// An event, copied.
#[derive(Clone, Debug)]
pub struct HeapNote {
    /// `CLOCK_MONOTONIC`.
    pub time: u64,
    pub pid: i32,
    pub tid: u32,
    pub(super) what: What,
}

#[derive(Clone, Debug)]
pub(super) enum What {
    Alloc {
        call: Call,
        address: u64,
        size: u64,
        weight: u64,
        ip: u64,
        sp: u64,
        bp: u64,
        stack: Range<usize>,
        map: Option<(u32, u32, u64)>,
        /// Before the call, where that is known.
        before: u64,
        /// Bytes of a mapping of its own.
        own_mapping: u64,
    },
    Free {
        address: u64,
        /// Of a block that the program itself declared.
        inner: bool,
    },
    /// What begins at an address ends here, or goes on: which of it is reported with the same time.
    MayEnd {
        address: u64,
    },
    Kept {
        address: u64,
    },
    /// The program names the block that begins here.
    Named {
        address: u64,
        name: String,
    },
    /// The program asks for something.
    Asked {
        request: Request,
        name: String,
    },
    /// OpenMP's regions, in the middle of a thread's time.
    Parallel {
        call: u64,
        begun: u64,
        ended: u64,
        of: u32,
    },
    Unmapped {
        address: u64,
        size: u64,
    },
    Moved {
        old: u64,
        old_size: u64,
        new: u64,
        new_size: u64,
    },
    Placed {
        tid: u32,
        cpus: Option<CpuSet>,
    },
    PolicyChanged,
    /// `None`: the range has no policy of its own any longer.
    Bound {
        range: Range<u64>,
        policy: Option<RangePolicy>,
        /// When the call began that moved what was there already.
        moving_since: Option<u64>,
    },
    /// Not the interposer's: we have looked.
    Observed {
        bound: ThreadBinding,
    },
    PagesMoved {
        target: i32,
        since: u64,
    },
    Began,
    Leaves,
}

/// The events of one drain, by time.
#[derive(Default)]
pub struct HeapNotes {
    notes: Vec<HeapNote>,
    stacks: Vec<u8>,
    /// Processes that wait to be let go.
    pub waiting: Vec<u32>,
}

impl HeapNote {
    /// Whether it leaves open what becomes of a block or mapping.
    pub fn is_open(&self) -> bool {
        matches!(self.what, What::MayEnd { .. })
    }

    /// Whether another one tells what this one leaves open.
    pub fn is_decided_by(&self, other: &HeapNote) -> bool {
        let What::MayEnd { address } = self.what else { return false };
        let of = match other.what {
            What::Kept { address } | What::Free { address, inner: false } | What::Unmapped { address, .. } => address,
            _ => return false,
        };
        of == address && (self.pid, self.tid, self.time) == (other.pid, other.tid, other.time)
    }
}

impl HeapNotes {
    /// Copies an event.
    pub fn push(&mut self, event: HeapEvent<'_>) {
        let (time, pid, tid, what) = match event {
            HeapEvent::Alloc {
                time_ns,
                pid,
                tid,
                call,
                address,
                size,
                weight,
                ip,
                sp,
                bp,
                stack,
                protection,
                flags,
                offset,
                before_ns: before,
                own_mapping,
                ..
            } => {
                let start = self.stacks.len();
                self.stacks.extend_from_slice(stack);
                let map = (call == Call::Mmap).then_some((protection, flags, offset));
                let stack = start..self.stacks.len();
                (
                    time_ns,
                    pid,
                    tid,
                    What::Alloc { call, address, size, weight, ip, sp, bp, stack, map, before, own_mapping },
                )
            }
            HeapEvent::Free { time_ns, pid, tid, address, inner } => (time_ns, pid, tid, What::Free { address, inner }),
            HeapEvent::MayEnd { time_ns, pid, tid, address } => (time_ns, pid, tid, What::MayEnd { address }),
            HeapEvent::Kept { time_ns, pid, tid, address } => (time_ns, pid, tid, What::Kept { address }),
            HeapEvent::Name { time_ns, pid, tid, address, name } => {
                (time_ns, pid, tid, What::Named { address, name: name_of(name) })
            }
            HeapEvent::Request { time_ns, pid, tid, request, name } => {
                (time_ns, pid, tid, What::Asked { request, name: name_of(name) })
            }
            HeapEvent::Region { time_ns, pid, tid, call, begun_ns, ended_ns, of } => {
                (time_ns, pid, tid, What::Parallel { call, begun: begun_ns, ended: ended_ns, of })
            }
            HeapEvent::Munmap { time_ns, pid, tid, address, size } => {
                (time_ns, pid, tid, What::Unmapped { address, size })
            }
            HeapEvent::Mremap { time_ns, pid, tid, old, old_size, new, new_size } => {
                (time_ns, pid, tid, What::Moved { old, old_size, new, new_size })
            }
            HeapEvent::ThreadPlaced { time_ns, pid, tid, placed, cpus, ask } => {
                let cpus = (!ask).then(|| cpu_set(cpus));
                (time_ns, pid, tid, What::Placed { tid: if placed == 0 { tid } else { placed }, cpus })
            }
            HeapEvent::Policy { time_ns, pid, tid, .. } => (time_ns, pid, tid, What::PolicyChanged),
            HeapEvent::Mbind { time_ns, pid, tid, address, size, mode, flags, begun_ns, nodes, ask } => {
                let range = address & !0xfff..address.saturating_add(size).saturating_add(0xfff) & !0xfff;
                let policy = if ask { Some(RangePolicy::Several) } else { RangePolicy::new(mode, nodes) };
                let moves = flags & (MPOL_MF_MOVE | MPOL_MF_MOVE_ALL) != 0;
                (time_ns, pid, tid, What::Bound { range, policy, moving_since: moves.then_some(begun_ns) })
            }
            HeapEvent::MigratePages { time_ns, pid, tid, target, begun_ns }
            | HeapEvent::MovePages { time_ns, pid, tid, target, begun_ns, .. } => {
                let target = if target == 0 { pid as i32 } else { target as i32 };
                (time_ns, pid, tid, What::PagesMoved { target, since: begun_ns })
            }
            HeapEvent::ProcessStart { time_ns, pid, tid, .. } => (time_ns, pid, tid, What::Began),
            HeapEvent::Exec { time_ns, pid, tid, waits } | HeapEvent::ProcessExit { time_ns, pid, tid, waits, .. } => {
                if waits {
                    self.waiting.push(pid);
                }
                (time_ns, pid, tid, What::Leaves)
            }
            HeapEvent::ThreadStart { .. } | HeapEvent::ForkChild { .. } | HeapEvent::ExecFailed { .. } => return,
        };
        self.notes.push(HeapNote { time, pid: pid as i32, tid, what });
    }

    /// Adds what was seen of a thread's placement.
    pub fn observed(&mut self, time: u64, pid: i32, tid: u32, bound: ThreadBinding) {
        self.notes.push(HeapNote { time, pid, tid, what: What::Observed { bound } });
    }

    /// The events, by time after [`HeapNotes::hold_back_after`].
    pub fn iter(&self) -> impl Iterator<Item = &HeapNote> {
        self.notes.iter()
    }

    /// Empties them and keeps their memory for the next drain.
    pub fn clear(&mut self) {
        self.notes.clear();
        self.stacks.clear();
        self.waiting.clear();
    }

    /// Keeps what happened until `horizon`, in order of time, and moves the rest to the end of `rest`.
    pub fn hold_back_after(&mut self, horizon: u64, rest: &mut HeapNotes) {
        self.notes.sort_by_key(|note| note.time);
        let ready = self.notes.partition_point(|note| note.time <= horizon);
        for mut note in self.notes.drain(ready..) {
            if let What::Alloc { stack, .. } = &mut note.what {
                let start = rest.stacks.len();
                rest.stacks.extend_from_slice(self.stacks.get(stack.clone()).unwrap_or(&[]));
                *stack = start..rest.stacks.len();
            }
            rest.notes.push(note);
        }
    }

    /// Takes in the events of `fresh` and returns them, by time; their call stacks are here from now on.
    pub fn take_in(&mut self, mut fresh: HeapNotes) -> Vec<HeapNote> {
        let base = self.stacks.len();
        self.stacks.append(&mut fresh.stacks);
        for note in &mut fresh.notes {
            if let What::Alloc { stack, .. } = &mut note.what {
                *stack = stack.start + base..stack.end + base;
            }
        }
        fresh.notes
    }

    /// Bytes of all that is in it.
    pub fn memory(&self) -> usize {
        size_of_val(&self.notes[..]) + self.bytes()
    }

    /// Bytes of call stacks.
    pub fn bytes(&self) -> usize {
        self.stacks.len()
    }

    /// Keeps the call stacks of these events, which are all that are still needed.
    pub fn keep<'a>(&mut self, notes: impl Iterator<Item = &'a mut HeapNote>) {
        let all = std::mem::take(&mut self.stacks);
        for note in notes {
            if let What::Alloc { stack, .. } = &mut note.what {
                let start = self.stacks.len();
                self.stacks.extend_from_slice(all.get(stack.clone()).unwrap_or(&[]));
                *stack = start..self.stacks.len();
            }
        }
    }

    fn stack(&self, range: &Range<usize>) -> &[u8] {
        self.stacks.get(range.clone()).unwrap_or(&[])
    }
}

fn cpu_set(words: &[u64]) -> CpuSet {
    (0..)
        .zip(words)
        .flat_map(|(index, &word)| (0..64).filter(move |bit| word >> bit & 1 != 0).map(move |bit| index * 64 + bit))
        .collect()
}

/// None of a block that was carved out of other memory: that is in the table already.
fn call(call: Call) -> Option<words::Call> {
    Some(match call {
        Call::Malloc => words::Call::Malloc,
        Call::Calloc => words::Call::Calloc,
        Call::Realloc => words::Call::Realloc,
        Call::Aligned => words::Call::Aligned,
        Call::New => words::Call::New,
        Call::Mmap | Call::Protect => words::Call::Mmap,
        Call::Declared => return None,
    })
}

impl Session {
    /// Takes in one event of the interposer.
    pub fn handle_heap(&mut self, notes: &HeapNotes, note: &HeapNote) {
        let time_ns = self.since_start(note.time);
        self.come_to(time_ns);
        let pid = note.pid;
        if !self.live.contains_key(&pid) {
            // Its fork has not been seen yet, or it is not ours: the channel's memory is the target's to write.
            return;
        }
        match &note.what {
            What::Alloc { address, size, map, .. } => {
                if let Some(map) = map {
                    self.mapped(pid, *address, *size, *map);
                }
                self.allocated(notes, note, time_ns);
            }
            What::Free { address, inner } => self.freed(note, time_ns, *address, *inner),
            What::Named { address, name } => self.block_named(pid, *address, name),
            &What::Parallel { call, begun, ended, of } => self.parallel(pid, of, call, begun, ended),
            What::Asked { request, name } => self.asked(note, time_ns, *request, name),
            What::Unmapped { address, size } => drop(self.unmapped(note, time_ns, *address, *size)),
            What::Moved { old, old_size, new, new_size } => {
                self.remapped(note, time_ns, *old..old.saturating_add(*old_size), *new..new.saturating_add(*new_size));
            }
            What::Placed { tid, cpus } => {
                if self.options.machine.is_virtual {
                    return;
                }
                let asked = || crate::homes::thread_affinity(*tid as i32).ok();
                let Some(cpus) = cpus.clone().filter(|cpus| !cpus.is_empty()).or_else(asked) else { return };
                let Some(thread) = self.threads.get(*tid) else { return };
                let bound = bound(&self.options.machine, cpus, thread.bound.policy.clone());
                self.threads.bind(*tid, bound, time_ns, "sched_setaffinity");
            }
            What::PolicyChanged => self.policy_changed(pid, note.tid, time_ns),
            What::Observed { bound } => self.threads.bind(note.tid, bound.clone(), time_ns, "observed"),
            What::Bound { range, policy, moving_since } => {
                if self.options.machine.is_virtual {
                    return;
                }
                // What was touched before was placed by another policy.
                self.settle();
                let since = moving_since.map(|since| self.since_start(since));
                let Some(live) = self.live.get_mut(&pid) else { return };
                live.bindings.set(range.clone(), *policy);
                if let Some(since) = since {
                    live.moved_on_purpose(since);
                }
            }
            What::PagesMoved { target, since } => {
                let since = self.since_start(*since);
                if let Some(live) = self.live.get_mut(target) {
                    live.moved_on_purpose(since);
                }
            }
            What::Began => {
                let Some(live) = self.live.get(&pid) else { return };
                self.processes[live.id.0 as usize].heap_observed = true;
            }
            // Samples are not held back until it is known.
            What::MayEnd { .. } | What::Kept { .. } | What::Leaves => {}
        }
    }

    /// Enters the block that an event tells of, and says where it lies. A file that was mapped is none, nor are
    /// addresses that were reserved, before they have access; both end those whose memory they take.
    pub(super) fn allocated(
        &mut self,
        notes: &HeapNotes,
        note: &HeapNote,
        time_ns: u64,
    ) -> Option<(ObjectId, Range<u64>)> {
        let &What::Alloc { call: how, address, size, weight, ip, sp, bp, ref stack, map, own_mapping, .. } = &note.what
        else {
            return None;
        };
        let end = address.saturating_add(size).checked_next_multiple_of(4096).unwrap_or(u64::MAX);
        if let Some((protection, flags, _)) = map {
            // Blocks that were there have made room, as far as they were.
            self.blocks_unmapped(note, time_ns, address..end);
            if flags & ANONYMOUS == 0 {
                return None;
            }
            if protection & ACCESS == 0 && address < end {
                self.live.get_mut(&note.pid)?.reserved.insert(address..end);
                return None;
            }
        }
        let bytes = notes.stack(stack);
        let live = self.live.get_mut(&note.pid)?;
        let places = match how {
            Call::Protect => live.take_reserved(address..end),
            _ => std::iter::once(address..address.saturating_add(size)).collect(),
        };
        let first = places.first()?.clone();
        let thread = self.threads.at(live.id, note.tid, time_ns)?;
        // The frame of the caller is entered at its call: one byte before the return address.
        let at_call = ip.wrapping_sub(1);
        let caller = Caller { ip: at_call, sp, bp, registers: None };
        let stack = live.stack(&mut self.images, &caller, bytes, &[]);
        let site = Some(self.images.code.site(live.place(at_call)));
        let whole_pages = own_mapping != 0 || matches!(how, Call::Mmap | Call::Protect);
        let (process, within) = (live.id, how == Call::Declared);
        let mut of_first = None;
        for place in places {
            let (address, size) = (place.start, place.end - place.start);
            let weight = if how == Call::Protect { size } else { weight };
            let new = NewBlock { process, thread, time_ns, address, size, weight, site, stack, whole_pages, within };
            let object = self.objects.allocate(&mut live.blocks, &new);
            of_first.get_or_insert(object);
            if let Some(call) = call(how) {
                self.output.add_allocation(tables::Allocation {
                    process,
                    time_ns,
                    thread,
                    object: Some(object),
                    call,
                    address,
                    bytes: size,
                    weight: if map.is_some_and(|map| sets_nothing_aside(map.1)) { 0 } else { weight.max(size) },
                });
            }
        }
        if let (Some((_, flags, _)), Some(object)) = (map, of_first) {
            let brought_in = flags & (libc::MAP_POPULATE | libc::MAP_LOCKED) as u32 != 0;
            let by = brought_in.then_some((site, stack));
            self.remaps(note.pid, address..address.saturating_add(size), by, time_ns, (thread, object));
        }
        of_first.map(|object| (object, first))
    }

    /// The program has named a block.
    pub(super) fn block_named(&mut self, pid: i32, address: u64, name: &str) {
        if let Some(block) = self.live.get(&pid).and_then(|live| live.blocks.at(address)) {
            self.objects.name(block, name);
        }
    }

    /// The program asks for something.
    fn asked(&mut self, note: &HeapNote, time_ns: u64, request: Request, name: &str) {
        let Some(process) = self.live.get(&note.pid).map(|live| live.id) else { return };
        let thread = self.threads.at(process, note.tid, time_ns);
        self.requested(process, thread, time_ns, request, name);
        if request == Request::Moved {
            let mut seen = HeapNotes::default();
            self.observe_placements(true, note.time, &mut seen);
            seen.iter().for_each(|note| self.handle_heap(&seen, note));
            if let Some(live) = self.live.get_mut(&note.pid) {
                live.moved_on_purpose(time_ns);
            }
        }
    }

    /// A block was freed.
    pub(super) fn freed(&mut self, note: &HeapNote, time_ns: u64, address: u64, inner: bool) {
        let Some(live) = self.live.get_mut(&note.pid) else { return };
        if inner {
            self.objects.release_within(&mut live.blocks, address, time_ns);
            return;
        }
        let released = self.objects.release(&mut live.blocks, address, time_ns);
        self.log_release(note, time_ns, words::Call::Free, address, released);
    }

    /// Blocks were unmapped.
    pub(super) fn blocks_unmapped(&mut self, note: &HeapNote, time_ns: u64, range: Range<u64>) {
        let Some(live) = self.live.get_mut(&note.pid) else { return };
        live.take_reserved(range.clone());
        let whole = live.blocks.outer(range.start);
        let whole = whole.filter(|(start, block)| *start == range.start && block.end <= range.end);
        let released = whole.map(|(_, block)| (block.object, block.end - range.start));
        self.objects.unmap(&mut live.blocks, range.clone(), time_ns);
        self.log_release(note, time_ns, words::Call::Munmap, range.start, released);
    }

    fn log_release(
        &mut self,
        note: &HeapNote,
        time_ns: u64,
        how: words::Call,
        address: u64,
        released: Option<(ObjectId, u64)>,
    ) {
        let (Some((object, size)), Some(live)) = (released, self.live.get(&note.pid)) else { return };
        let Some(thread) = self.threads.at(live.id, note.tid, time_ns) else { return };
        self.output.add_allocation(tables::Allocation {
            process: live.id,
            time_ns,
            thread,
            object: Some(object),
            call: how,
            address,
            bytes: size,
            weight: size,
        });
    }

    fn mapped(&mut self, pid: i32, address: u64, size: u64, (protection, flags, offset): (u32, u32, u64)) {
        if flags & ANONYMOUS == 0 {
            // A file's mapping comes from the kernel, with its name.
            return;
        }
        let shared = flags & libc::MAP_SHARED as u32 != 0;
        let vma =
            LiveProcess::vma_of(address, address.saturating_add(size), offset, protection, shared, 0, Path::new(""));
        if let Some(live) = self.live.get_mut(&pid)
            && live.vmas.find(address).is_none()
        {
            live.map(&mut self.images, vma);
        }
    }

    /// `mremap`: pages keep their homes and their first touches at another address.
    fn remapped(&mut self, note: &HeapNote, time_ns: u64, old: Range<u64>, new: Range<u64>) {
        let pid = note.pid;
        let moved = self.live.get(&pid).and_then(|live| live.vmas.find(old.start).cloned());
        let bindings = self.live.get(&pid).map(|live| live.bindings.within(&old)).unwrap_or_default();
        if old.start == new.start {
            if new.end < old.end {
                self.unmapped(note, time_ns, new.end, old.end - new.end);
            }
            self.block_moved(pid, time_ns, &old, &new);
        } else {
            // What was mapped there made room.
            self.unmapped(note, time_ns, new.start, new.end - new.start);
            self.block_moved(pid, time_ns, &old, &new);
            let pages = self.unmapped(note, time_ns, old.start, old.end - old.start);
            self.place_moved(pid, time_ns, &pages, old.start, &new);
        }
        if let (Some(mut vma), Some(live)) = (moved, self.live.get_mut(&pid)) {
            (vma.start, vma.end) = (new.start, new.end);
            live.map(&mut self.images, vma);
            live.bindings.put(&bindings, &old, &new);
        }
    }

    fn block_moved(&mut self, pid: i32, time_ns: u64, old: &Range<u64>, new: &Range<u64>) {
        if let Some(live) = self.live.get_mut(&pid) {
            self.objects.moved(&mut live.blocks, old.clone(), new.clone(), time_ns);
            live.move_reserved(old.clone(), new.clone());
        }
    }

    /// Enters pages that were at `old` and behind at the same distance from the start of `new`, as far as that reaches.
    fn place_moved(&mut self, pid: i32, time_ns: u64, pages: &[Run], old: u64, new: &Range<u64>) {
        let bin = self.bin(time_ns);
        let (from, to, end) = (Page::of(old).0, Page::of(new.start).0, Page::of(new.end.saturating_add(4095)).0);
        let Some(live) = self.live.get_mut(&pid) else { return };
        for run in pages {
            let touch =
                self.touches.intern(Touch { bin, moved: true, to_another: false, ..self.touches.get(run.state.touch) });
            let (home, inferred) = (run.state.home, run.state.inferred);
            let first = run.page.0.saturating_sub(from) + to;
            let last = (first + run.count).min(end);
            // A huge page that comes to lie across the bounds of 2 MiB is split.
            if run.state.huge && first % CHUNK == 0 && last % CHUNK == 0 {
                let chunks = (first..last).step_by(CHUNK as usize);
                chunks.for_each(|chunk| live.pages.place_huge(Page(chunk), touch, home, inferred));
            } else {
                (first..last).for_each(|page| live.pages.place(Page(page), touch, home, inferred));
            }
        }
    }

    /// Memory is gone, and its pages with it. Returns them.
    fn unmapped(&mut self, note: &HeapNote, time_ns: u64, address: u64, size: u64) -> Vec<Run> {
        // Faults of this batch came before: their pages must be known before they are forgotten.
        self.settle();
        let bin = self.bin(time_ns);
        let Some(live) = self.live.get_mut(&note.pid) else { return Vec::new() };
        let id = live.id;
        let end = address.saturating_add(size);
        live.unmap(address, end);
        live.bindings.set(address..end, None);
        if address < end {
            live.brought_in.remove(address..end);
        }
        let gone = live.pages.forget(Page::of(address), Page::of(end.saturating_add(4095)));
        self.close_runs(id, &gone, Some(bin));
        self.blocks_unmapped(note, time_ns, address..end);
        gone
    }
}
