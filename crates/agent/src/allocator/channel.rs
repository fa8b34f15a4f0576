//! The channel of the preloaded library, written to from here: `crates/interpose/c/channel.c`, of which this is the
//! twin for programs without it.

use crate::call;
use crate::sys::{self, raw};
use core::ffi::CStr;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use numalens_event::layout::{
    Control, HEADER_BYTES, Header, MAGIC, PAYLOAD_BYTES, PAYLOAD_WORD, RingKind, Shape, VERSION,
};
use numalens_event::record::{Call, Kind};
use numalens_event::ring::{self, Position};

const FUTEX_WAKE: u32 = 1;

/// The channel, mapped.
pub struct Channel {
    base: u64,
    shape: Shape,
}

/// Where a call came from: the registers of its caller.
pub struct Caller {
    pub ip: u64,
    pub sp: u64,
    pub bp: u64,
}

/// What is published.
pub struct Record {
    pub kind: Kind,
    pub time_ns: u64,
    pub tid: u32,
    pub operands: [u64; 4],
}

impl Channel {
    /// Maps the channel at `path`; none: it is not there, or of another version.
    pub fn open(path: &CStr) -> Option<Self> {
        let file = sys::open(path, raw::O_RDWR)?;
        let bytes = sys::length(file).filter(|&bytes| bytes >= HEADER_BYTES as u64);
        let base = bytes.and_then(|bytes| sys::map_shared(bytes, file, 0).ok());
        sys::close(file);
        let (base, bytes) = base.zip(bytes)?;
        let mut channel = Channel { base, shape: Shape { lanes_log2: 0, note_slots_log2: 0, wide_slots_log2: 0 } };
        let header = channel.header();
        let [lanes_log2, note_slots_log2, wide_slots_log2] =
            [&header.lanes_log2, &header.note_slots_log2, &header.wide_slots_log2].map(|field| field.load(Relaxed));
        let is_one = header.magic.load(Relaxed) == MAGIC && header.version.load(Relaxed) == VERSION;
        let shape = Shape { lanes_log2, note_slots_log2, wide_slots_log2 };
        if is_one && lanes_log2 <= 6 && note_slots_log2 < 24 && wide_slots_log2 < 24 && shape.bytes() as u64 <= bytes {
            channel.shape = shape;
            return Some(channel);
        }
        sys::unmap(base, bytes);
        None
    }

    /// What the collector wants.
    pub fn header(&self) -> &Header {
        // SAFETY: the mapping begins with it, is never given up, and consists of atomics.
        unsafe { &*(self.base as *const Header) }
    }

    /// Whether somebody listens.
    pub fn is_open(&self) -> bool {
        self.header().open.load(Relaxed) == 1
    }

    /// Publishes something short.
    pub fn publish(&self, record: &Record) -> bool {
        self.write(RingKind::Notes, record, 0, |_| 0)
    }

    /// Publishes an allocation by `caller`, with as much of its stack as there is room for.
    pub fn publish_allocation(&self, record: &Record, call: Call, mean: u64, caller: &Caller) -> bool {
        self.write(RingKind::Wides, record, call as u8, |words| {
            for (word, value) in words[8..].iter().zip([caller.ip, caller.sp, caller.bp, mean, 0]) {
                word.store(value, Relaxed);
            }
            let mut stack = [0u8; PAYLOAD_BYTES];
            let length = crate::pages::stack::copy(caller.sp, &mut stack) & !7;
            put_payload(words, &stack[..length])
        })
    }

    /// Publishes something with a text, of which as much as fits.
    pub fn publish_text(&self, record: &Record, text: &[u8]) -> bool {
        self.write(RingKind::Wides, record, 0, |words| {
            words[8..PAYLOAD_WORD].iter().for_each(|word| word.store(0, Relaxed));
            put_payload(words, &text[..text.len().min(PAYLOAD_BYTES)])
        })
    }

    /// `fill` fills the words behind those that all records have, and says how many bytes of payload there are.
    fn write(&self, kind: RingKind, record: &Record, call: u8, fill: impl FnOnce(&[AtomicU64]) -> u32) -> bool {
        let tid = record.tid;
        let lane = tid as usize & (self.shape.lanes() - 1);
        let slots_log2 = self.shape.slots_log2(kind);
        // SAFETY: within the mapping, as `open` found out; atomics, for which any bytes are valid.
        let (control, slots) = unsafe {
            let control = &*((self.base + self.shape.control_offset(lane, kind) as u64) as *const Control);
            let slots = (self.base + self.shape.slots_offset(lane, kind) as u64) as *const AtomicU64;
            (control, core::slice::from_raw_parts(slots, kind.slot_words() << slots_log2))
        };
        let claim_of = |slot: usize| &slots[slot * kind.slot_words()];
        let reserve = || ring::reserve(slots_log2, &control.head, claim_of, tid);
        let Some(position) = reserve().or_else(|| self.wait_for_room(control, reserve)) else {
            control.lost.fetch_add(1, Relaxed);
            return false;
        };
        if control.waited_in_vain.load(Relaxed) != 0 {
            control.waited_in_vain.store(0, Relaxed);
        }
        let first = position.slot(slots_log2) * kind.slot_words();
        let words = &slots[first..first + kind.slot_words()];
        let payload = fill(words);
        let head = record.kind as u64 | u64::from(call) << 16 | u64::from(payload) << 32;
        let whose = u64::from(sys::process_id()) | u64::from(tid) << 32;
        for (word, value) in words[1..].iter().zip([head, record.time_ns, whose].into_iter().chain(record.operands)) {
            word.store(value, Relaxed);
        }
        let in_time = ring::publish(slots_log2, position, &words[0], tid);
        if !in_time {
            self.header().late.fetch_add(1, Relaxed);
        }
        // A quarter of the ring since the last time: a sleeping reader should come before it is full.
        if position.slot(slots_log2) & ((1 << slots_log2) / 4 - 1) == 0 {
            self.ring_the_bell();
        }
        in_time
    }

    /// Waits for somebody to empty a full ring while it is worth to.
    fn wait_for_room(&self, control: &Control, reserve: impl Fn() -> Option<Position>) -> Option<Position> {
        let header = self.header();
        if control.waited_in_vain.load(Relaxed) != 0 {
            return None;
        }
        let begun = sys::now_ns();
        let patience = u64::from(header.patience_ms.load(Relaxed)) * 1_000_000;
        while self.is_open()
            && sys::now_ns().saturating_sub(begun) < patience
            && sys::exists(header.collector_pid.load(Relaxed))
        {
            self.ring_the_bell();
            sys::nap();
            if let Some(position) = reserve() {
                return Some(position);
            }
        }
        control.waited_in_vain.store(1, Relaxed);
        None
    }

    fn ring_the_bell(&self) {
        let header = self.header();
        header.doorbell.fetch_add(1, SeqCst);
        if header.reader_waiting.load(SeqCst) != 0 {
            // SAFETY: a word of the channel.
            let _ = unsafe { call!(__NR_futex, header.doorbell.as_ptr(), FUTEX_WAKE, 1, 0, 0, 0) };
        }
    }
}

/// Puts bytes behind the words of a record, filled up to whole words; returns how many that are.
fn put_payload(words: &[AtomicU64], bytes: &[u8]) -> u32 {
    for (word, bytes) in words[PAYLOAD_WORD..].iter().zip(bytes.chunks(8)) {
        let mut eight = [0; 8];
        eight[..bytes.len()].copy_from_slice(bytes);
        word.store(u64::from_le_bytes(eight), Relaxed);
    }
    bytes.len().next_multiple_of(8) as u32
}
