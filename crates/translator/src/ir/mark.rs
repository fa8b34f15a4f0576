//! What program state stands behind an address of a fragment's code.

use alloc::vec::Vec;

/// How the state of the program can be had at an address in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The instruction at `ip` has not begun and nothing of it is counted: with the spilled registers put back, the
    /// thread stands at `ip`. A fault here is the program's own, at `ip`.
    Before,
    /// Some of the accesses of the instruction at `ip` are being counted: go on to the next [`State::Before`] (single
    /// steps). A fault here is due to an address that no program can map; put back registers, take back
    /// [`crate::Position::counted`] and deliver it at `ip`.
    Counting,
    /// The instruction at `ip` is counted as far as it is counted before it is executed, and is about to be executed or
    /// has been: go on as for [`State::Counting`]. A fault is the program's own: put back registers, take back
    /// [`crate::Position::counted`] and deliver it at `ip`.
    Counted,
    /// The system call has returned, `ip` is the instruction after it; the program's rcx must be set to `ip`.
    AfterSyscall,
    /// A repeated string instruction is about to begin or under way: with what it has done counted by
    /// [`crate::count::finish_string`] and the registers put back, the thread stands at `ip` (again, with fewer
    /// elements to do).
    String,
    /// On the way to `ip` through the dispatcher, or through a lookup to an `ip` that is not known here (0): go on.
    Leaving,
}

/// From where on in a half of a fragment the state of the program can be had in the same manner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MapEntry {
    /// From the start of the half.
    pub offset: u32,
    /// From the start of the fragment; of [`State::Leaving`] through an exit: its index in the fragment.
    pub instruction: u32,
    pub spilled: u16,
    pub saved: u16,
    pub state: State,
    /// Sites of the instruction that have been counted.
    pub counted: u8,
    /// The number of the segment whose execution has been counted, plus 1; 0: none.
    pub begun: u16,
    /// Groups that have been checked.
    pub checked: u16,
}

/// Adds an entry to a map, in place of one that covers nothing.
pub(crate) fn push_entry(entries: &mut Vec<MapEntry>, entry: MapEntry) {
    if let Some(last) = entries.last_mut() {
        if last.offset == entry.offset {
            *last = entry;
            return;
        }
        if (MapEntry { offset: entry.offset, ..*last }) == entry {
            return;
        }
    }
    entries.push(entry);
}
