//! What the interposer in the target reports is taken in.

use super::Session;
use super::heap_notes::{HeapNote, HeapNotes, What};
use super::images::Images;
use super::objects::NewBlock;
use super::page_map::{CHUNK, Run};
use super::process::LiveProcess;
use super::remembered::Caller;
use super::touches::Touch;
use super::vmas::{Vma, sets_nothing_aside};
use crate::heap_channel::Call;
use crate::homes::{thread_affinity, thread_policy};
use numalens_event::request::Request;
use numalens_profile::ids::{ObjectId, Page, SiteId, StackId, ThreadId};
use numalens_profile::tables;
use numalens_profile::words::{self, Fault, SystemCall};
use std::ops::Range;
use std::path::Path;

const ANONYMOUS: u32 = libc::MAP_ANONYMOUS as u32;
/// What a protection gives, if any.
const ACCESS: u32 = (libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC) as u32;

/// Pages that are looked at between two questions for more.
const PAGES_AT_ONCE: usize = 1 << 12;

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

/// The call stack that wanted memory, and its innermost site, by what was copied: frames that a runtime has told, and
/// the native stack of the caller, if there is one.
fn wanted_at(
    live: &mut LiveProcess,
    images: &mut Images,
    caller: &Caller<'_>,
    (frames, bytes): (&[u8], &[u8]),
) -> (Option<StackId>, Option<SiteId>) {
    if caller.sp == 0 {
        return images.told_stack(live.pid, None, frames);
    }
    let stack = live.stack(images, caller, bytes, &[]);
    let site = Some(images.code.site(live.place(caller.ip)));
    if frames.is_empty() { (stack, site) } else { (images.told_stack(live.pid, stack, frames).0, site) }
}

/// Whether an allocation is a runtime's object, with the frames that wanted it.
pub fn is_of_runtime(call: Call, frames: usize) -> bool {
    call == Call::Declared && frames > 0
}

/// Takes in events of heaps.
pub struct HeapHandler<'a> {
    pub session: &'a mut Session,
}

impl HeapHandler<'_> {
    /// Takes in one event of the interposer.
    pub fn handle(&mut self, notes: &HeapNotes, note: &HeapNote) {
        let time_ns = self.session.since_start(note.time);
        self.session.come_to(time_ns);
        let pid = note.pid;
        if self.session.processes.get(pid).is_none() {
            // Its fork has not been seen yet, or it is not ours: the channel's memory is the target's to write.
            return;
        }
        match &note.what {
            What::Alloc { call, address, size, map, frames, before, .. } => {
                if let Some(map) = map {
                    self.mapped(pid, (*call, *address, *size), *map, time_ns);
                }
                let thread = self.session.thread_reports(pid, note.tid, time_ns);
                let new = self.allocated(notes, note, time_ns, thread);
                // What a runtime gives it has cleared.
                if let (true, Some((object, range))) = (is_of_runtime(*call, *frames), new) {
                    let since_ns = self.session.since_start(*before);
                    self.was_touched_for(pid, object, range, since_ns);
                }
            }
            What::Free { address, inner } => self.freed(note, time_ns, *address, *inner),
            What::Named { address, name } => self.block_named(pid, *address, name),
            &What::Parallel { call, begun, ended, of } => self.session.parallel(pid, of, call, begun, ended),
            What::Asked { request, name } => self.asked(note, time_ns, *request, name),
            What::Unmapped { address, size } => drop(self.unmapped(note, time_ns, *address, *size)),
            What::Moved { old, old_size, new, new_size } => {
                self.remapped(note, time_ns, *old..old.saturating_add(*old_size), *new..new.saturating_add(*new_size));
            }
            What::Placed { tid, cpus } => {
                if self.session.options.machine.is_virtual {
                    return;
                }
                let asked = || thread_affinity(*tid as i32).ok();
                let Some(cpus) = cpus.clone().filter(|cpus| !cpus.is_empty()).or_else(asked) else { return };
                let Some(id) = self.session.thread_reports(pid, *tid, time_ns) else { return };
                let policy = self.session.threads.get(*tid).map(|thread| thread.bound.policy.clone());
                let policy = policy.unwrap_or_else(|| self.session.options.anywhere().policy);
                let bound = self.session.options.binding(cpus, policy);
                self.session.threads.rebind(*tid, id, bound, time_ns);
            }
            What::PolicyChanged => self.policy_changed(pid, note.tid, time_ns),
            What::Observed { bound } => self.session.threads.bind(note.tid, bound.clone(), time_ns, "observed"),
            What::Bound { range, policy, moving_since } => {
                if self.session.options.machine.is_virtual {
                    return;
                }
                // What was touched before was placed by another policy.
                self.session.settle();
                let since = moving_since.map(|since| self.session.since_start(since));
                let Some(live) = self.session.processes.get_mut(pid) else { return };
                live.policies.bindings.set(range.clone(), *policy);
                if let Some(since) = since {
                    live.walk.moved_on_purpose(since);
                }
            }
            What::PagesMoved { target, since } => {
                let since = self.session.since_start(*since);
                if let Some(live) = self.session.processes.get_mut(*target) {
                    live.walk.moved_on_purpose(since);
                }
            }
            What::Began => {
                self.session.processes.heap_observed(pid);
            }
            // Samples are not held back until it is known.
            What::MayEnd { .. } | What::Kept { .. } | What::Leaves => {}
        }
    }

    /// What was touched of an object's memory since a runtime began to give it was touched for the object.
    fn was_touched_for(&mut self, pid: i32, object: ObjectId, range: Range<u64>, since_ns: u64) {
        // Faults of this batch came before.
        self.session.settle();
        let (bin, told) = (self.session.bin(since_ns), self.session.objects.place_of(object));
        let (start, end) = (Page::of(range.start), Page::behind(range.end));
        let mut next = Some(start);
        while let Some(from) = next.take() {
            let Some(live) = self.session.processes.get(pid) else { return };
            let (pages, rest) = live.pages.some_pages(from, PAGES_AT_ONCE);
            for page in pages.into_iter().filter(|page| (start..end).contains(page)) {
                let state = self.session.processes.get(pid).and_then(|live| live.pages.get(page));
                let Some(touch) = state.map(|state| state.touch) else { continue };
                if self.session.pages.touches.get(touch).bin >= bin {
                    let live = self.session.processes.get_mut(pid);
                    self.session.pages.touched_for(live, page, touch, object, Some(told));
                }
            }
            next = rest.filter(|page| *page < end);
        }
    }

    /// Takes in a mapping. Whether it is a block: no file, no reserved addresses, and not what Go's runtime maps for
    /// its heap.
    fn is_mapped_as_block(
        &mut self,
        note: &HeapNote,
        time_ns: u64,
        range: Range<u64>,
        (protection, flags): (u32, u32),
    ) -> bool {
        // Blocks that were there have made room, as far as they were.
        self.blocks_unmapped(note, time_ns, range.clone());
        let Some(live) = self.session.processes.get_mut(note.pid) else { return false };
        if flags & ANONYMOUS == 0 {
            return false;
        }
        if protection & ACCESS == 0 && !range.is_empty() {
            live.reserved.add(range);
            return false;
        }
        !live.variables.is_in_gos_heap(range.start)
    }

    /// Enters the block that an event reports, and says where it lies. A file that was mapped is none, nor are
    /// addresses that were reserved, before they have access; both end those whose memory they take.
    /// `thread`: who has reported it.
    pub fn allocated(
        &mut self,
        notes: &HeapNotes,
        note: &HeapNote,
        time_ns: u64,
        thread: Option<ThreadId>,
    ) -> Option<(ObjectId, Range<u64>)> {
        let &What::Alloc { call: how, address, size, weight, ip, sp, bp, ref stack, frames, map, own_mapping, .. } =
            &note.what
        else {
            return None;
        };
        let end = address.saturating_add(size).checked_next_multiple_of(Page::BYTES).unwrap_or(u64::MAX);
        if let Some((protection, flags, _)) = map
            && !self.is_mapped_as_block(note, time_ns, address..end, (protection, flags))
        {
            return None;
        }
        let bytes = notes.stack(stack);
        let live = self.session.processes.get_mut(note.pid)?;
        let places = match how {
            Call::Protect => live.reserved.take(address..end),
            _ => std::iter::once(address..address.saturating_add(size)).collect(),
        };
        let first = places.first()?.clone();
        let thread = thread?;
        // The frame of the caller is entered at its call: one byte before the return address.
        let caller = Caller { ip: ip.wrapping_sub(1), sp, bp, registers: None };
        let told = bytes.split_at(frames.min(bytes.len()));
        let (stack, site) = wanted_at(live, &mut self.session.images, &caller, told);
        let around = if is_of_runtime(how, frames) { own_mapping } else { 0 };
        let whole_pages = own_mapping != 0 || matches!(how, Call::Mmap | Call::Protect);
        let (process, within) = (live.id, how == Call::Declared);
        let mut of_first = None;
        for place in places {
            let (address, size) = (place.start, place.end - place.start);
            let weight = if how == Call::Protect { size } else { weight };
            let new =
                NewBlock { process, thread, time_ns, address, size, weight, site, stack, whole_pages, within, around };
            let object = self.session.objects.allocate(&mut live.blocks, &new);
            of_first.get_or_insert(object);
            if let Some(call) = call(how) {
                self.session.output.add_allocation(tables::Allocation {
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
        let end = if around > 0 { live.blocks.at(first.start).map_or(first.end, |block| block.end) } else { first.end };
        if let (Some((_, flags, _)), Some(object)) = (map, of_first) {
            let brought_in = flags & (libc::MAP_POPULATE | libc::MAP_LOCKED) as u32 != 0;
            let by = brought_in.then_some((site, stack));
            self.remaps(note.pid, address..address.saturating_add(size), by, time_ns, (thread, object));
        }
        of_first.map(|object| (object, first.start..end))
    }

    /// The program has named a block.
    pub fn block_named(&mut self, pid: i32, address: u64, name: &str) {
        if let Some(block) = self.session.processes.get(pid).and_then(|live| live.blocks.at(address)) {
            self.session.objects.name(block, name);
        }
    }

    /// The program asks for something.
    fn asked(&mut self, note: &HeapNote, time_ns: u64, request: Request, name: &str) {
        let Some(process) = self.session.processes.get(note.pid).map(|live| live.id) else { return };
        let thread = self.session.threads.at(process, note.tid, time_ns);
        self.session.requested(process, thread, time_ns, request, name);
        if request == Request::Moved {
            let mut seen = HeapNotes::default();
            self.session.observe_placements(true, note.time, &mut seen);
            seen.iter().for_each(|note| self.session.handle_heap(&seen, note));
            if let Some(live) = self.session.processes.get_mut(note.pid) {
                live.walk.moved_on_purpose(time_ns);
            }
        }
    }

    /// A block was freed.
    pub fn freed(&mut self, note: &HeapNote, time_ns: u64, address: u64, inner: bool) {
        let Some(live) = self.session.processes.get_mut(note.pid) else { return };
        if inner {
            self.session.objects.release_within(&mut live.blocks, address, time_ns);
            return;
        }
        let released = self.session.objects.release(&mut live.blocks, address, time_ns);
        self.log_release(note, time_ns, words::Call::Free, address, released);
    }

    /// Blocks were unmapped.
    pub fn blocks_unmapped(&mut self, note: &HeapNote, time_ns: u64, range: Range<u64>) {
        let Some(live) = self.session.processes.get_mut(note.pid) else { return };
        live.reserved.take(range.clone());
        let whole = live.blocks.outer(range.start);
        let whole = whole.filter(|(start, block)| *start == range.start && block.end <= range.end);
        let released = whole.map(|(_, block)| (block.object, block.end - range.start));
        self.session.objects.unmap(&mut live.blocks, range.clone(), time_ns);
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
        let (Some((object, size)), Some(live)) = (released, self.session.processes.get(note.pid)) else { return };
        let Some(thread) = self.session.threads.at(live.id, note.tid, time_ns) else { return };
        self.session.output.add_allocation(tables::Allocation {
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

    fn mapped(
        &mut self,
        pid: i32,
        (call, address, size): (Call, u64, u64),
        (protection, flags, offset): (u32, u32, u64),
        time_ns: u64,
    ) {
        if call == Call::Mmap {
            self.makes_room(pid, Page::of(address)..Page::behind(address.saturating_add(size)), time_ns);
        }
        if flags & ANONYMOUS == 0 {
            // A file's mapping comes from the kernel, with its name.
            return;
        }
        let shared = flags & libc::MAP_SHARED as u32 != 0;
        let vma = Vma::reported(address, address.saturating_add(size), offset, protection, shared, 0, Path::new(""));
        if let Some(live) = self.session.processes.get_mut(pid)
            && live.vmas.find(address).is_none()
        {
            live.map(&mut self.session.images, vma);
        }
    }

    /// Something is mapped where pages were whose end nobody has told: those of a block that the C library has unmapped
    /// itself, which a forked child has from its parent as well. What was placed there since, or within the same bin,
    /// stays.
    fn makes_room(&mut self, pid: i32, mapped: Range<Page>, time_ns: u64) {
        let is_pending = self.session.pending.faults.iter().any(|one| one.pid == pid && mapped.contains(&one.page));
        if is_pending {
            self.session.settle();
        }
        let bin = self.session.bin(time_ns);
        let Some(live) = self.session.processes.get_mut(pid) else { return };
        self.session.pages.made_room(live, mapped, bin);
    }

    /// A thread has changed its memory policy: asks which one it has now.
    fn policy_changed(&mut self, pid: i32, tid: u32, time_ns: u64) {
        if self.session.options.machine.is_virtual {
            return;
        }
        let Some(cpus) = self.session.threads.get(tid).map(|thread| thread.bound.cpus.clone()) else { return };
        if let Ok(policy) = thread_policy(pid, tid as i32) {
            self.session.threads.bind(tid, self.session.options.binding(cpus, policy), time_ns, "set_mempolicy");
        }
    }

    /// `mremap`: pages keep their homes and their first touches at another address.
    fn remapped(&mut self, note: &HeapNote, time_ns: u64, old: Range<u64>, new: Range<u64>) {
        let pid = note.pid;
        let moved = self.session.processes.get(pid).and_then(|live| live.vmas.find(old.start).cloned());
        let bindings =
            self.session.processes.get(pid).map(|live| live.policies.bindings.within(&old)).unwrap_or_default();
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
        if let (Some(mut vma), Some(live)) = (moved, self.session.processes.get_mut(pid)) {
            (vma.start, vma.end) = (new.start, new.end);
            live.map(&mut self.session.images, vma);
            live.policies.bindings.put(&bindings, &old, &new);
        }
    }

    fn block_moved(&mut self, pid: i32, time_ns: u64, old: &Range<u64>, new: &Range<u64>) {
        if let Some(live) = self.session.processes.get_mut(pid) {
            self.session.objects.moved(&mut live.blocks, old.clone(), new.clone(), time_ns);
            live.reserved.moved(old.clone(), new.clone());
        }
    }

    /// Enters pages that were at `old` and behind at the same distance from the start of `new`, as far as that reaches.
    fn place_moved(&mut self, pid: i32, time_ns: u64, pages: &[Run], old: u64, new: &Range<u64>) {
        let bin = self.session.bin(time_ns);
        let (from, to, end) = (Page::of(old).0, Page::of(new.start).0, Page::behind(new.end).0);
        let Some(live) = self.session.processes.get_mut(pid) else { return };
        for run in pages {
            let touch = self.session.pages.touches.intern(Touch {
                bin,
                moved: true,
                to_another: false,
                ..self.session.pages.touches.get(run.state.touch)
            });
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
        self.session.settle();
        let bin = self.session.bin(time_ns);
        let Some(live) = self.session.processes.get_mut(note.pid) else { return Vec::new() };
        let end = address.saturating_add(size);
        live.unmap(address, end);
        live.policies.bindings.set(address..end, None);
        if address < end {
            live.policies.brought_in.remove(address..end);
        }
        let gone = self.session.pages.gone(live, Page::of(address), Page::behind(end), bin);
        self.blocks_unmapped(note, time_ns, address..end);
        gone
    }

    /// Fresh memory, whose pages the kernel brings in as it is mapped (MAP_POPULATE, MAP_LOCKED): no fault reports
    /// them, but the call that maps them does. Brought in at once by a thread's call from this site and stack, or not.
    fn remaps(
        &mut self,
        pid: i32,
        range: Range<u64>,
        brought_in: Option<(Option<SiteId>, Option<StackId>)>,
        time_ns: u64,
        (thread, object): (ThreadId, ObjectId),
    ) {
        if range.is_empty() {
            return;
        }
        let touch = brought_in.and_then(|(site, stack)| {
            let process = self.session.processes.get(pid)?.id;
            let node = self.session.threads.of_process(process).find(|known| known.id == thread)?.bound.node;
            let (bin, pinned) = (self.session.bin(time_ns), node.is_some());
            let touch = Touch::first(process, thread, node, site?, stack, bin, pinned, Fault::Anonymous, Some(object));
            Some(self.session.pages.touches.intern(Touch { call: Some(SystemCall::Mmap), ..touch }))
        });
        let Some(live) = self.session.processes.get_mut(pid) else { return };
        match touch {
            Some(touch) => live.policies.brought_in.insert(range, touch),
            None => live.policies.brought_in.remove(range),
        }
    }
}

#[cfg(test)]
mod tests;
