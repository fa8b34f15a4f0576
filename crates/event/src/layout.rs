//! Where everything stands in the channel. Change nothing here without changing [`VERSION`] and
//! `crates/interpose/numalens_event.h`: the two sides are built together but may meet across a version
//! when a recording is started by one build and a child inherits the library of another.

use crate::exact::ClockAnchor;
use crate::page::PAGE;
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64};

/// First word of the channel: "numalens" in ASCII, little endian.
pub const MAGIC: u64 = 0x736e_656c_616d_756e;
/// Version of layout and records. A writer that finds another one stays silent.
pub const VERSION: u32 = 6;
/// Bytes from the start of the channel to the ring controls.
pub const HEADER_BYTES: usize = PAGE as usize;
/// Places for acknowledgements; ticket `t` is answered in place `t % ACKNOWLEDGEMENTS`.
pub const ACKNOWLEDGEMENTS: usize = 64;
/// 64-bit words of a note slot.
pub const NOTE_WORDS: usize = 8;
/// 64-bit words of a wide slot: 2 KiB of a stack fit, most of them whole.
pub const WIDE_WORDS: usize = 272;
/// Word of a wide slot where its payload begins.
pub const PAYLOAD_WORD: usize = 16;
/// Bytes of payload that a wide slot has room for.
pub const PAYLOAD_BYTES: usize = (WIDE_WORDS - PAYLOAD_WORD) * 8;

/// The channel's first bytes. The collector writes all but the counters and tickets before any target starts;
/// `mean`, `large_credit`, `open`, `handshake` and `reader_waiting` change while targets run.
#[repr(C)]
#[derive(Debug)]
pub struct Header {
    /// [`MAGIC`].
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: AtomicU32,
    /// 1 while the collector listens; 0 makes every writer silent.
    pub open: AtomicU32,
    /// log2 of the number of lanes.
    pub lanes_log2: AtomicU32,
    /// log2 of the note slots of one lane.
    pub note_slots_log2: AtomicU32,
    /// log2 of the wide slots of one lane.
    pub wide_slots_log2: AtomicU32,
    /// The collector's process, in its own pid namespace.
    pub collector_pid: AtomicU32,
    /// Allocations of at least so many bytes are recorded each, while `large_credit` lasts.
    pub large: AtomicU64,
    /// Mean bytes between two recorded allocations of one thread, for the smaller ones.
    pub mean: AtomicU64,
    /// The same for large ones when the credit is spent.
    pub large_mean: AtomicU64,
    /// Large allocations that may still be recorded each, by all threads together; the collector adds to it as time
    /// goes. A signed number: writers that find it spent at the same time may take it below 0 for a moment.
    pub large_credit: AtomicI32,
    /// 1: wait for the collector before exit and exec.
    pub handshake: AtomicU32,
    /// Longest such wait, in milliseconds.
    pub handshake_ms: AtomicU32,
    /// Futex word: counts the times that a writer wants the reader's attention.
    pub doorbell: AtomicU32,
    /// 1 while the reader sleeps on `doorbell`.
    pub reader_waiting: AtomicU32,
    /// Last ticket given to an exit or exec; 0 is never one.
    pub ticket: AtomicU32,
    /// Sampled allocations left out because the target's table of live ones was full.
    pub untracked: AtomicU64,
    /// Children started without the library: another user's, or their environment was too large to copy.
    pub unpassed: AtomicU64,
    /// Threads whose start could not be wrapped: their stacks are copied to the end of a page only.
    pub unwrapped: AtomicU64,
    /// Records that came after the reader had given up their slot.
    pub late: AtomicU64,
    /// 1: every block is reported, whatever the credit.
    pub every: AtomicU32,
    /// Longest wait for room in a full ring, in milliseconds; 0: what finds none is lost.
    pub patience_ms: AtomicU32,
    /// The collector's descriptor of the [log of runtimes](crate::runtime_log), which stands beside the channel in
    /// `/proc/PID/fd`.
    pub runtime_log: AtomicU64,
    /// Futex words: the last answered ticket of each place.
    pub acknowledged: [AtomicU32; ACKNOWLEDGEMENTS],
    /// Which of `clock` is in force.
    pub clock_in_force: AtomicU32,
    /// Fills the word.
    pub reserved_half: AtomicU32,
    /// The agents' clock, where an exact recording has one: then times are read from it, in order with what the agents
    /// say, and without a call. Zeros: `clock_gettime`.
    pub clock: [ClockAnchor; 2],
}

/// What the writers of one ring share; one cache line.
#[repr(C)]
#[derive(Debug)]
pub struct Control {
    /// Position that the next writer tries first. A hint: the slots themselves decide.
    pub head: AtomicU64,
    /// Records dropped because the ring was full.
    pub lost: AtomicU64,
    /// 1: a writer has waited as long as it may, and nobody made room. None waits until there is room again: a reader
    /// that has stopped costs one wait, not one for each block.
    pub waited_in_vain: AtomicU64,
    /// Fills the cache line.
    pub reserved: [AtomicU64; 5],
}

/// The two rings of a lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RingKind {
    /// Slots of [`NOTE_WORDS`].
    Notes,
    /// Slots of [`WIDE_WORDS`].
    Wides,
}

/// The sizes of a channel, from which every offset follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// log2 of the number of lanes, at most 6.
    pub lanes_log2: u32,
    /// log2 of the note slots of a lane.
    pub note_slots_log2: u32,
    /// log2 of the wide slots of a lane.
    pub wide_slots_log2: u32,
}

impl Default for Shape {
    /// 16 lanes of 8192 notes and 2048 wides: 80 MB when all lanes have been round once; memory never touched
    /// (a program with few threads uses few lanes) costs nothing.
    fn default() -> Self {
        Shape { lanes_log2: 4, note_slots_log2: 13, wide_slots_log2: 11 }
    }
}

impl Shape {
    /// Number of lanes.
    pub fn lanes(self) -> usize {
        1 << self.lanes_log2
    }

    /// Slots of one ring of this kind, as log2.
    pub fn slots_log2(self, kind: RingKind) -> u32 {
        match kind {
            RingKind::Notes => self.note_slots_log2,
            RingKind::Wides => self.wide_slots_log2,
        }
    }

    /// Bytes from the start of the channel to the control of a ring.
    pub fn control_offset(self, lane: usize, kind: RingKind) -> usize {
        HEADER_BYTES + (lane * 2 + kind as usize) * size_of::<Control>()
    }

    /// Bytes from the start of the channel to the first slot of a ring.
    pub fn slots_offset(self, lane: usize, kind: RingKind) -> usize {
        let notes = (NOTE_WORDS * 8) << self.note_slots_log2;
        let start = self.data_offset() + lane * self.lane_bytes();
        match kind {
            RingKind::Notes => start,
            RingKind::Wides => start + notes,
        }
    }

    /// Bytes of the whole channel.
    pub fn bytes(self) -> usize {
        self.data_offset() + self.lanes() * self.lane_bytes()
    }

    fn lane_bytes(self) -> usize {
        ((NOTE_WORDS * 8) << self.note_slots_log2) + ((WIDE_WORDS * 8) << self.wide_slots_log2)
    }

    fn data_offset(self) -> usize {
        (HEADER_BYTES + self.lanes() * 2 * size_of::<Control>()).next_multiple_of(PAGE as usize)
    }
}

impl RingKind {
    /// 64-bit words of a slot.
    pub fn slot_words(self) -> usize {
        match self {
            RingKind::Notes => NOTE_WORDS,
            RingKind::Wides => WIDE_WORDS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_tile_the_channel() {
        for shape in [
            Shape::default(),
            Shape { lanes_log2: 0, note_slots_log2: 0, wide_slots_log2: 0 },
            Shape { lanes_log2: 6, note_slots_log2: 3, wide_slots_log2: 5 },
        ] {
            let mut end = shape.control_offset(shape.lanes() - 1, RingKind::Wides) + size_of::<Control>();
            end = end.next_multiple_of(PAGE as usize);
            for lane in 0..shape.lanes() {
                for kind in [RingKind::Notes, RingKind::Wides] {
                    assert_eq!(shape.slots_offset(lane, kind), end);
                    end += (kind.slot_words() * 8) << shape.slots_log2(kind);
                }
            }
            assert_eq!(end, shape.bytes());
        }
    }

    #[test]
    fn the_default_channel_stays_within_its_budget() {
        assert!(Shape::default().bytes() <= 80 << 20);
        assert!(size_of::<Header>() <= HEADER_BYTES);
    }
}
