//! Whose stack memory is, and was.
//!
//! The kernel names the stack of a process's first thread. Those of the others are plain mappings that hold one
//! thread's stack pointer, and are handed on: the C library keeps the stacks of threads that have ended for the next
//! ones.
//!
//! ```text
//!   mapping   |  thread 1 ====|   thread 2 ==|  3 ==|        4 ====|
//!   touched   ^ by who makes 1     ^ 2's                ^ by who makes 4: the latest before, 3
//! ```
//! Where several threads at a time have their stack pointers in one mapping, these are stacks of coroutines or
//! goroutines in a heap. Go's runtime has even those with which threads begin in its heap, and switches to others: of
//! its programs only what has one at the very top, as the C library places them, is a thread's.

use super::process::LiveProcess;
use super::threads::Threads;
use super::vmas::Vma;
use numalens_profile::ids::*;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::ops::Range;

/// A stack is this large at most; what is larger is a heap.
const LARGEST: u64 = 256 << 20;

/// What the C library has above the first stack pointer of a thread, at most: its own data and thread-local variables.
const TOP: u64 = 64 << 10;

/// Threads by the stack pointers with which they began, or were seen first.
#[derive(Default)]
pub struct Stacks {
    /// By process and stack pointer, in the order in which they began.
    threads: FxHashMap<ProcessId, BTreeMap<u64, Vec<ThreadId>>>,
    /// By thread.
    places: FxHashMap<ThreadId, u64>,
}

impl Stacks {
    /// A thread's stack pointer is seen; the first one counts.
    pub fn seen(&mut self, process: ProcessId, thread: ThreadId, sp: u64) {
        if sp != 0 && !self.places.contains_key(&thread) {
            self.places.insert(thread, sp);
            self.threads.entry(process).or_default().entry(sp).or_default().push(thread);
        }
    }
}

/// Who has a mapping as a stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum StackHolder {
    /// A thread, or the last one before, or else the first one afterwards.
    One(ThreadId),
    Several,
    Nobody,
}

impl Threads {
    /// When a thread lived, as far as it is known.
    fn life(&self, thread: ThreadId) -> (u64, u64) {
        let row = &self.rows()[thread.0 as usize];
        let ends = self.get(row.tid).filter(|live| live.id == thread).and_then(|live| live.ends_ns);
        (row.start_ns, row.end_ns.or(ends).unwrap_or(u64::MAX))
    }

    /// Whose stack a range was at a time.
    fn holder(&self, process: ProcessId, range: &Range<u64>, time_ns: u64) -> StackHolder {
        let Some(threads) = self.stacks.threads.get(&process) else { return StackHolder::Nobody };
        let mut latest: Option<(u64, ThreadId)> = None;
        let mut next: Option<(u64, ThreadId)> = None;
        let mut alive = 0;
        for (_, threads) in threads.range(range.clone()) {
            let begun = threads.partition_point(|&thread| self.life(thread).0 <= time_ns);
            // Whoever has the same place has it after the one before has ended, unless it is nobody's stack.
            let of_place = threads[begun.saturating_sub(2)..begun].iter().map(|&thread| (self.life(thread), thread));
            for ((start, end), thread) in of_place {
                alive += u32::from(end >= time_ns);
                latest = latest.max(Some((start, thread)));
            }
            if let Some(&thread) = threads.get(begun) {
                let start = (self.life(thread).0, thread);
                next = Some(next.map_or(start, |next| next.min(start)));
            }
        }
        match latest.or(next) {
            _ if alive > 1 => StackHolder::Several,
            Some((_, thread)) => StackHolder::One(thread),
            None => StackHolder::Nobody,
        }
    }
}

/// Whether a mapping may be the stack of a thread other than the first.
pub fn may_be_stack(vma: &Vma) -> bool {
    vma.path.as_os_str().is_empty() && vma.end - vma.start <= LARGEST
}

impl Threads {
    /// The thread whose stack a mapping of a process is, or was at a time.
    pub fn stack_owner(&self, process: &LiveProcess, vma: &Vma, time_ns: u64) -> Option<(ThreadId, u32)> {
        let pid = process.pid as u32;
        let first = self.get(pid).filter(|thread| thread.process == process.id);
        if vma.path.as_os_str() == "[stack]" {
            return first.map(|thread| (thread.id, pid));
        }
        if !may_be_stack(vma) {
            return None;
        }
        let place = stack_place(process, vma);
        let is_alive = |thread: ThreadId| {
            let (start, end) = self.life(thread);
            (start..=end).contains(&time_ns)
        };
        // Where they are now says more than where they were seen first.
        let inside = self.of_process(process.id).filter(|thread| place.contains(&thread.sp));
        let mut inside = inside.map(|thread| thread.id).filter(|&thread| is_alive(thread));
        let thread = match (inside.next(), inside.next()) {
            (Some(thread), None) => thread,
            (Some(_), Some(_)) => return None,
            (None, _) => match self.holder(process.id, &place, time_ns) {
                StackHolder::One(thread) => thread,
                StackHolder::Several | StackHolder::Nobody => return None,
            },
        };
        let is_first = first.is_some_and(|first| first.id == thread);
        (!is_first).then(|| (thread, self.rows()[thread.0 as usize].tid))
    }

    /// Who but the first thread of a process has had a range as a stack when it was accessed; `place`: where in it a
    /// stack pointer makes it one. With the thread's tid.
    pub fn stack_of_another(&self, accessed: &StackAccess, place: &Range<u64>) -> Option<(ThreadId, u32)> {
        let sp_of = |thread: &ThreadId| self.stacks.places.get(thread);
        let own = accessed.thread.filter(|thread| sp_of(thread).is_some_and(|sp| place.contains(sp)));
        let at = own.map_or(accessed.time_ns, |own| {
            let (start, end) = self.life(own);
            accessed.time_ns.clamp(start, end.max(start))
        });
        let first = self.get(accessed.pid as u32).map(|thread| thread.id);
        match self.holder(accessed.process, place, at) {
            StackHolder::One(thread) if Some(thread) != first => Some((thread, self.rows()[thread.0 as usize].tid)),
            _ => None,
        }
    }

    /// A thread has ended, which is taken in when all that it has counted is.
    pub fn will_end(&mut self, tid: u32, id: ThreadId, time_ns: u64) {
        if let Some(thread) = self.get_mut(tid).filter(|thread| thread.id == id) {
            thread.ends_ns = Some(time_ns);
        }
    }
}

/// An access to a page that is known as an object's: stacks are handed on, and who has one may not have been known when
/// the page was touched first.
pub struct StackAccess {
    pub process: ProcessId,
    pub pid: i32,
    pub page: Page,
    pub object: ObjectId,
    pub thread: Option<ThreadId>,
    pub time_ns: u64,
}

/// Where in a mapping a stack pointer makes it a thread's stack.
pub fn stack_place(process: &LiveProcess, vma: &Vma) -> Range<u64> {
    let is_go = process.variables.is_go;
    let start = if is_go { vma.end.saturating_sub(TOP).max(vma.start) } else { vma.start };
    start..vma.end
}

#[cfg(test)]
mod tests {
    use super::super::threads::ThreadBinding;
    use super::*;
    use numalens_topology::CpuSet;

    fn begin(threads: &mut Threads, tid: u32, sp: u64, life: Range<u64>) -> ThreadId {
        let bound = ThreadBinding { cpus: CpuSet::default(), node: None, policy: String::new() };
        let thread = threads.begin(ProcessId(0), tid, "", life.start, bound, "start");
        threads.stack_seen(tid, sp);
        if life.end != u64::MAX {
            threads.end(tid, life.end);
        }
        thread
    }

    #[test]
    fn stacks_are_handed_on() {
        let mut threads = Threads::default();
        let one = begin(&mut threads, 11, 0x1f00, 10..20);
        let two = begin(&mut threads, 12, 0x1f00, 30..40);
        let three = begin(&mut threads, 13, 0x1f00, 50..u64::MAX);
        let at = |time| threads.holder(ProcessId(0), &(0x1000..0x2000), time);
        for (time, thread) in
            [(5, one), (10, one), (20, one), (25, one), (30, two), (45, two), (50, three), (99, three)]
        {
            assert_eq!(at(time), StackHolder::One(thread), "{time}");
        }
        assert_eq!(threads.holder(ProcessId(0), &(0x2000..0x3000), 30), StackHolder::Nobody);
        assert_eq!(threads.holder(ProcessId(1), &(0x1000..0x2000), 30), StackHolder::Nobody);
    }

    #[test]
    fn what_has_the_stacks_of_several_at_a_time_is_a_heap() {
        let mut threads = Threads::default();
        let one = begin(&mut threads, 11, 0x1f00, 10..40);
        begin(&mut threads, 12, 0x1800, 30..50);
        let at = |time| threads.holder(ProcessId(0), &(0x1000..0x2000), time);
        assert_eq!(at(20), StackHolder::One(one));
        assert_eq!(at(35), StackHolder::Several);
    }
}
