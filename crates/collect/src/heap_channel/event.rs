//! What the library reports, in the collector's terms.

use numalens_event::layout::{PAYLOAD_BYTES, WIDE_WORDS};
use numalens_event::record::{Call, FLAG_ASK, Kind, Record};
use numalens_event::request::Request;

/// One event. Times are ns of CLOCK_MONOTONIC; `pid` and `tid` are the writer's. Threads that a `vfork` child runs on
/// its parent's memory appear as the parent.
#[derive(Clone, Copy, PartialEq, Debug)]
#[allow(missing_docs)]
pub enum HeapEvent<'a> {
    /// Memory came to be.
    Alloc {
        time_ns: u64,
        pid: u32,
        tid: u32,
        call: Call,
        address: u64,
        /// Bytes asked for.
        size: u64,
        /// Bytes of allocations that this one stands for: `size` itself when all of its kind are recorded, more
        /// when it was sampled; the sum over the recorded ones estimates the sum over all.
        weight: u64,
        /// Whether it was sampled. Only then `weight` is an estimate.
        sampled: bool,
        /// Return address into the caller: look up `ip - 1` for the calling instruction.
        ip: u64,
        /// The caller's stack pointer after the return.
        sp: u64,
        /// The caller's frame pointer register.
        bp: u64,
        /// The stack from `sp` up, at most 1024 bytes, fewer at the end of a stack.
        stack: &'a [u8],
        /// Frames as a runtime tells them: for each, innermost first, a method and a bytecode.
        frames: &'a [u8],
        /// Of an mmap: its protection, flags and file offset. Zeros otherwise.
        protection: u32,
        flags: u32,
        offset: u64,
        /// Of any other, in an exact recording: the time before the call, and the bytes of the mapping that the block
        /// has to itself, from the page on that it begins in. Zeros: not known, none.
        before_ns: u64,
        own_mapping: u64,
    },
    /// A recorded heap allocation is about to be released.
    Free {
        time_ns: u64,
        pid: u32,
        tid: u32,
        address: u64,
        /// It is one that the program itself has declared ([`Call::Declared`]).
        inner: bool,
    },
    /// An allocation or mapping may go from now on. Whether it does is reported later, with the same time. Only in an
    /// exact recording.
    MayEnd { time_ns: u64, pid: u32, tid: u32, address: u64 },
    /// It does not.
    Kept { time_ns: u64, pid: u32, tid: u32, address: u64 },
    /// A mapping went.
    Munmap { time_ns: u64, pid: u32, tid: u32, address: u64, size: u64 },
    /// A mapping moved or changed its size.
    Mremap { time_ns: u64, pid: u32, tid: u32, old: u64, old_size: u64, new: u64, new_size: u64 },
    /// A thread runs its first instruction. A [`HeapEvent::ThreadPlaced`] follows.
    ThreadStart { time_ns: u64, pid: u32, tid: u32, creator: u32, routine: u64 },
    /// A thread's allowed CPUs, read back from the kernel after a change, and at its start.
    ThreadPlaced {
        time_ns: u64,
        pid: u32,
        tid: u32,
        /// The thread that was placed; 0 when the library did not know which.
        placed: u32,
        /// One bit for each CPU.
        cpus: &'a [u64],
        /// The mask is missing or too short: ask the kernel (about all threads, when `placed` is 0).
        ask: bool,
    },
    /// The calling thread's memory policy, as given to `set_mempolicy`.
    Policy { time_ns: u64, pid: u32, tid: u32, mode: u32, nodes: &'a [u64], ask: bool },
    /// The policy of a range, as given to `mbind`.
    Mbind {
        time_ns: u64,
        pid: u32,
        tid: u32,
        address: u64,
        size: u64,
        mode: u32,
        flags: u32,
        begun_ns: u64,
        nodes: &'a [u64],
        ask: bool,
    },
    /// The program asks for something, with a name.
    Request { time_ns: u64, pid: u32, tid: u32, request: Request, name: &'a [u8] },
    /// The program names the block at `address`.
    Name { time_ns: u64, pid: u32, tid: u32, address: u64, name: &'a [u8] },
    /// Parallel regions of OpenMP, of thread `of`, that the call before `call` began, from `begun_ns` to `ended_ns`.
    Region { time_ns: u64, pid: u32, tid: u32, call: u64, begun_ns: u64, ended_ns: u64, of: u32 },
    /// `migrate_pages` moved pages of process `target` from `begun_ns` to `time_ns`.
    MigratePages { time_ns: u64, pid: u32, tid: u32, target: u32, begun_ns: u64 },
    /// `move_pages` moved up to `count` pages of process `target` from `begun_ns` to `time_ns`.
    MovePages { time_ns: u64, pid: u32, tid: u32, target: u32, count: u64, begun_ns: u64 },
    /// The library has come up in a program: from here on its heap is observed.
    ProcessStart { time_ns: u64, pid: u32, tid: u32, parent: u32 },
    /// A forked process reports something for the first time; what its parent had allocated lives in it too.
    ForkChild { time_ns: u64, pid: u32, tid: u32, parent: u32 },
    /// The program is about to be replaced; when `waits`, until [`super::HeapChannel::acknowledge`].
    Exec { time_ns: u64, pid: u32, tid: u32, waits: bool },
    /// It was not: the program goes on.
    ExecFailed { time_ns: u64, pid: u32, tid: u32, errno: i32 },
    /// The process is about to end; when `waits`, after [`super::HeapChannel::acknowledge`]. Destructors of other
    /// libraries may still report something afterwards.
    ProcessExit {
        time_ns: u64,
        pid: u32,
        tid: u32,
        /// Known when the process ends by `_exit`, `_Exit` or `quick_exit`.
        status: Option<i32>,
        waits: bool,
    },
}

/// A ticket to remember: who waits, and for which answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Waiting {
    pub(super) pid: u32,
    pub(super) ticket: u32,
}

/// The private copy of a slot, with room to show its payload as bytes.
pub(super) struct Slot {
    pub(super) words: [u64; WIDE_WORDS],
    bytes: [u8; PAYLOAD_BYTES],
}

impl Slot {
    pub(super) fn new() -> Self {
        Slot { words: [0; WIDE_WORDS], bytes: [0; PAYLOAD_BYTES] }
    }

    /// Reads the first `words` words as an event. `None`: not a record of this version.
    pub(super) fn event(&mut self, words: usize) -> Option<(HeapEvent<'_>, Option<Waiting>)> {
        let record = Record::new(self.words.get(..words)?)?;
        let (time_ns, pid, tid) = (record.time_ns(), record.pid(), record.tid());
        let [a, b, c, d] = record.operands();
        let (payload, length) = record.payload();
        let ask = record.flags() & FLAG_ASK != 0;
        let mut waiting = None;
        let mut ticket = || {
            let ticket = a as u32;
            waiting = (ticket != 0).then_some(Waiting { pid, ticket });
            ticket != 0
        };
        if matches!(record.kind(), Kind::Alloc | Kind::Request | Kind::Name) {
            for (bytes, word) in self.bytes.chunks_exact_mut(8).zip(payload) {
                bytes.copy_from_slice(&word.to_ne_bytes());
            }
        }
        let event = match record.kind() {
            Kind::Alloc => allocation(&record, &self.bytes[..length])?,
            Kind::Free => HeapEvent::Free { time_ns, pid, tid, address: a, inner: b != 0 },
            Kind::MayEnd => HeapEvent::MayEnd { time_ns, pid, tid, address: a },
            Kind::Kept => HeapEvent::Kept { time_ns, pid, tid, address: a },
            Kind::Munmap => HeapEvent::Munmap { time_ns, pid, tid, address: a, size: b },
            Kind::Mremap => HeapEvent::Mremap { time_ns, pid, tid, old: a, old_size: b, new: c, new_size: d },
            Kind::ThreadStart => HeapEvent::ThreadStart { time_ns, pid, tid, creator: a as u32, routine: b },
            Kind::ThreadPlaced => HeapEvent::ThreadPlaced { time_ns, pid, tid, placed: a as u32, cpus: payload, ask },
            Kind::Policy => HeapEvent::Policy { time_ns, pid, tid, mode: a as u32, nodes: payload, ask },
            Kind::Mbind => {
                let (mode, flags) = (c as u32, (c >> 32) as u32);
                HeapEvent::Mbind {
                    time_ns,
                    pid,
                    tid,
                    address: a,
                    size: b,
                    mode,
                    flags,
                    begun_ns: d,
                    nodes: payload,
                    ask,
                }
            }
            Kind::Request => {
                let request = Request::from_number(a as u32)?;
                HeapEvent::Request { time_ns, pid, tid, request, name: &self.bytes[..length] }
            }
            Kind::Name => HeapEvent::Name { time_ns, pid, tid, address: a, name: &self.bytes[..length] },
            Kind::Region => HeapEvent::Region { time_ns, pid, tid, call: a, begun_ns: b, ended_ns: c, of: d as u32 },
            Kind::MigratePages => HeapEvent::MigratePages { time_ns, pid, tid, target: a as u32, begun_ns: b },
            Kind::MovePages => HeapEvent::MovePages { time_ns, pid, tid, target: a as u32, count: b, begun_ns: c },
            Kind::ProcessStart => HeapEvent::ProcessStart { time_ns, pid, tid, parent: a as u32 },
            Kind::ForkChild => HeapEvent::ForkChild { time_ns, pid, tid, parent: a as u32 },
            Kind::Exec => HeapEvent::Exec { time_ns, pid, tid, waits: ticket() },
            Kind::ExecFailed => HeapEvent::ExecFailed { time_ns, pid, tid, errno: a as i32 },
            Kind::ProcessExit => {
                let status = (b != u64::from(u32::MAX)).then_some(b as u32 as i32);
                HeapEvent::ProcessExit { time_ns, pid, tid, status, waits: ticket() }
            }
        };
        Some((event, waiting))
    }
}

/// An allocation, of which `payload` was copied: frames of a runtime, then the stack.
fn allocation<'a>(record: &Record<'_>, payload: &'a [u8]) -> Option<HeapEvent<'a>> {
    let (frames, stack) = payload.split_at(record.frame_bytes().min(payload.len()));
    let [address, size, c, d] = record.operands();
    let [ip, sp, bp] = record.caller();
    let call = record.call()?;
    let is_mapping = matches!(call, Call::Mmap | Call::Protect);
    Some(HeapEvent::Alloc {
        time_ns: record.time_ns(),
        pid: record.pid(),
        tid: record.tid(),
        call,
        address,
        size,
        weight: weight(size, record.mean()),
        sampled: record.mean() != 0,
        ip,
        sp,
        bp,
        stack,
        frames,
        protection: if is_mapping { c as u32 } else { 0 },
        flags: if is_mapping { (c >> 32) as u32 } else { 0 },
        offset: if is_mapping { d } else { 0 },
        before_ns: if is_mapping { 0 } else { c },
        own_mapping: if is_mapping { 0 } else { d },
    })
}

/// The bytes that a sampled allocation stands for: its size over the probability that it was recorded. A Poisson
/// process of one point every `mean` bytes hits an allocation of `size` bytes with probability 1 - exp(-size / mean).
pub(super) fn weight(size: u64, mean: u64) -> u64 {
    if mean == 0 || size == 0 {
        return size;
    }
    let size = size as f64;
    (size / -(-size / mean as f64).exp_m1()).round() as u64
}
