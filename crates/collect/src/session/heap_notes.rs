//! What the interposer in the target reports: heap blocks, memory that came and went, threads that were bound.
//!
//! Its events must be seen in order with the kernel's: a block is allocated, then touched, then freed. So they are
//! copied out of the channel first ([`HeapNotes`]) and merged by time with the records of the same batch.

use super::bindings::RangePolicy;
use super::marks::name_of;
use super::threads::ThreadBinding;
use crate::heap_channel::{Call, HeapEvent};
use numalens_event::request::Request;
use numalens_profile::ids::Page;
use numalens_topology::CpuSet;
use std::ops::Range;

/// Flags of `mbind`, from linux/mempolicy.h: what is there already moves as well.
const MPOL_MF_MOVE: u32 = 1 << 1;
const MPOL_MF_MOVE_ALL: u32 = 1 << 2;

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
        /// Bytes of a runtime's frames at the beginning of `stack`.
        frames: usize,
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
    fn new(time: u64, pid: u32, tid: u32, what: What) -> Self {
        HeapNote { time, pid: pid as i32, tid, what }
    }

    /// Whether it leaves open what becomes of a block or mapping.
    pub fn is_open(&self) -> bool {
        matches!(self.what, What::MayEnd { .. })
    }

    /// Whether another one says what this one leaves open.
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
        if let HeapEvent::Exec { pid, waits: true, .. } | HeapEvent::ProcessExit { pid, waits: true, .. } = event {
            self.waiting.push(pid);
        }
        let of_block = self.allocated(&event).or_else(|| of_memory(&event));
        self.notes.extend(of_block.or_else(|| of_placement(&event)).or_else(|| of_program(&event)));
    }

    /// The note of an allocation, whose call stack is here from now on.
    fn allocated(&mut self, event: &HeapEvent<'_>) -> Option<HeapNote> {
        let &HeapEvent::Alloc { time_ns, pid, tid, call, address, size, weight, ip, sp, bp, stack, .. } = event else {
            return None;
        };
        let &HeapEvent::Alloc { protection, flags, offset, before_ns: before, own_mapping, frames, .. } = event else {
            return None;
        };
        let start = self.stacks.len();
        self.stacks.extend_from_slice(frames);
        self.stacks.extend_from_slice(stack);
        let frames = frames.len();
        let map = (call == Call::Mmap).then_some((protection, flags, offset));
        let stack = start..self.stacks.len();
        let what = What::Alloc { call, address, size, weight, ip, sp, bp, stack, frames, map, before, own_mapping };
        Some(HeapNote::new(time_ns, pid, tid, what))
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

    /// The call stack of an event.
    pub fn stack(&self, range: &Range<usize>) -> &[u8] {
        self.stacks.get(range.clone()).unwrap_or(&[])
    }
}

/// The note of an event of blocks and mappings that are there.
fn of_memory(event: &HeapEvent<'_>) -> Option<HeapNote> {
    let (time_ns, pid, tid, what) = match *event {
        HeapEvent::Free { time_ns, pid, tid, address, inner } => (time_ns, pid, tid, What::Free { address, inner }),
        HeapEvent::MayEnd { time_ns, pid, tid, address } => (time_ns, pid, tid, What::MayEnd { address }),
        HeapEvent::Kept { time_ns, pid, tid, address } => (time_ns, pid, tid, What::Kept { address }),
        HeapEvent::Name { time_ns, pid, tid, address, name } => {
            (time_ns, pid, tid, What::Named { address, name: name_of(name) })
        }
        HeapEvent::Munmap { time_ns, pid, tid, address, size } => (time_ns, pid, tid, What::Unmapped { address, size }),
        HeapEvent::Mremap { time_ns, pid, tid, old, old_size, new, new_size } => {
            (time_ns, pid, tid, What::Moved { old, old_size, new, new_size })
        }
        _ => return None,
    };
    Some(HeapNote::new(time_ns, pid, tid, what))
}

/// The note of an event that says where threads or pages are to be.
fn of_placement(event: &HeapEvent<'_>) -> Option<HeapNote> {
    let (time_ns, pid, tid, what) = match *event {
        HeapEvent::ThreadPlaced { time_ns, pid, tid, placed, cpus, ask } => {
            let cpus = (!ask).then(|| cpu_set(cpus));
            (time_ns, pid, tid, What::Placed { tid: if placed == 0 { tid } else { placed }, cpus })
        }
        HeapEvent::Policy { time_ns, pid, tid, .. } => (time_ns, pid, tid, What::PolicyChanged),
        HeapEvent::Mbind { time_ns, pid, tid, address, size, mode, flags, begun_ns, nodes, ask } => {
            let range = Page::of(address).address()..Page::behind(address.saturating_add(size)).address();
            let policy = if ask { Some(RangePolicy::Several) } else { RangePolicy::new(mode, nodes) };
            let moves = flags & (MPOL_MF_MOVE | MPOL_MF_MOVE_ALL) != 0;
            (time_ns, pid, tid, What::Bound { range, policy, moving_since: moves.then_some(begun_ns) })
        }
        HeapEvent::MigratePages { time_ns, pid, tid, target, begun_ns }
        | HeapEvent::MovePages { time_ns, pid, tid, target, begun_ns, .. } => {
            let target = if target == 0 { pid as i32 } else { target as i32 };
            (time_ns, pid, tid, What::PagesMoved { target, since: begun_ns })
        }
        _ => return None,
    };
    Some(HeapNote::new(time_ns, pid, tid, what))
}

/// The note of an event of a program, and of what it says itself.
fn of_program(event: &HeapEvent<'_>) -> Option<HeapNote> {
    let (time_ns, pid, tid, what) = match *event {
        HeapEvent::Request { time_ns, pid, tid, request, name } => {
            (time_ns, pid, tid, What::Asked { request, name: name_of(name) })
        }
        HeapEvent::Region { time_ns, pid, tid, call, begun_ns: begun, ended_ns: ended, of } => {
            (time_ns, pid, tid, What::Parallel { call, begun, ended, of })
        }
        HeapEvent::ProcessStart { time_ns, pid, tid, .. } => (time_ns, pid, tid, What::Began),
        HeapEvent::Exec { time_ns, pid, tid, .. } | HeapEvent::ProcessExit { time_ns, pid, tid, .. } => {
            (time_ns, pid, tid, What::Leaves)
        }
        _ => return None,
    };
    Some(HeapNote::new(time_ns, pid, tid, what))
}

fn cpu_set(words: &[u64]) -> CpuSet {
    (0..)
        .zip(words)
        .flat_map(|(index, &word)| (0..64).filter(move |bit| word >> bit & 1 != 0).map(move |bit| index * 64 + bit))
        .collect()
}
