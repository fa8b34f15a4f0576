//! Perf records as the session wants them: decoded, owned, in one batch with shared storage.

use super::attr::EventKind;
use crate::hardware::{DataSource, MemoryAccess, Weight, ibs};
use perf_event_data::endian::Native;
use perf_event_data::parse::{ParseConfig, Parser};
use perf_event_data::{Comm, Exit, Fork, Lost, LostSamples, Mmap, Mmap2, RecordMetadata, Sample, Visitor};
use perf_event_open_sys::bindings as sys;
use std::ops::Range;

/// A decoded record; `time` is `CLOCK_MONOTONIC` in nanoseconds.
#[derive(Clone, Debug)]
pub struct Record {
    pub time: u64,
    pub cpu: u32,
    pub pid: u32,
    pub tid: u32,
    pub payload: Payload,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Payload {
    Sampled(Sampled),
    Mapped { start: u64, end: u64, offset: u64, prot: u32, shared: bool, inode: u64, path: Box<[u8]> },
    Named { name: Box<[u8]>, exec: bool },
    Forked { parent_pid: u32, parent_tid: u32 },
    Exited,
    SwitchedOut,
    SwitchedIn,
    Lost { count: u64 },
}

/// A sample of one of our events. Ranges index the batch's storage.
#[derive(Clone, Debug)]
pub struct Sampled {
    pub kind: EventKind,
    pub ip: u64,
    /// A fault of the kernel's: the thread is in a system call, whose instruction ends at `ip`.
    pub in_call: bool,
    /// Address of a fault or of a hardware sample; 0 for the clock.
    pub address: u64,
    pub period: u64,
    /// What the hardware says about the access.
    pub access: Option<MemoryAccess>,
    /// General registers in x86 encoding order; none when the kernel could not tell.
    pub registers: Option<[u64; 16]>,
    pub chain: Range<u32>,
    pub stack: Range<u32>,
}

/// The records of one drain, and the stacks that their samples point into.
#[derive(Default)]
pub struct Batch {
    pub records: Vec<Record>,
    /// Everything that happened until this moment is in this batch or an earlier one.
    pub horizon: u64,
    chains: Vec<u64>,
    stacks: Vec<u8>,
    /// Where the stack added last lies.
    last_stack: Range<u32>,
}

impl Batch {
    /// Return addresses found by the kernel through frame pointers, innermost first.
    pub fn chain(&self, sampled: &Sampled) -> &[u64] {
        self.chains.get(sampled.chain.start as usize..sampled.chain.end as usize).unwrap_or(&[])
    }

    /// The copied piece of user stack, from the stack pointer upwards.
    pub fn stack(&self, sampled: &Sampled) -> &[u8] {
        self.stacks.get(sampled.stack.start as usize..sampled.stack.end as usize).unwrap_or(&[])
    }

    /// Empties the batch and keeps its memory for the next one.
    pub fn clear(&mut self) {
        self.records.clear();
        self.chains.clear();
        self.stacks.clear();
        self.last_stack = 0..0;
    }

    /// Moves the records from index `from` on to the end of `other`.
    pub fn move_tail(&mut self, from: usize, other: &mut Batch) {
        for mut record in self.records.drain(from..) {
            if let Payload::Sampled(sampled) = &mut record.payload {
                let chain = self.chains.get(sampled.chain.start as usize..sampled.chain.end as usize).unwrap_or(&[]);
                sampled.chain = other.add_chain(chain);
                let stack = self.stacks.get(sampled.stack.start as usize..sampled.stack.end as usize).unwrap_or(&[]);
                sampled.stack = other.add_stack(stack);
            }
            other.records.push(record);
        }
    }

    /// Moves all records of `other` to the end of this one.
    pub fn take_from(&mut self, other: &mut Batch) {
        other.move_tail(0, self);
        other.clear();
    }

    fn add_chain(&mut self, chain: &[u64]) -> Range<u32> {
        let start = self.chains.len() as u32;
        // The kernel marks the change of context (user, kernel) by values near u64::MAX.
        self.chains.extend(chain.iter().filter(|&&at| at != 0 && at < sys::PERF_CONTEXT_MAX));
        start..self.chains.len() as u32
    }

    /// A loop that touches page after page does so from one and the same stack: it is kept once.
    fn add_stack(&mut self, stack: &[u8]) -> Range<u32> {
        let last = self.last_stack.clone();
        if !stack.is_empty() && self.stacks.get(last.start as usize..last.end as usize) == Some(stack) {
            return last;
        }
        let start = self.stacks.len() as u32;
        self.stacks.extend_from_slice(stack);
        self.last_stack = start..self.stacks.len() as u32;
        self.last_stack.clone()
    }

    /// Decodes `bytes`, one whole record of event `kind`, and appends it. Records that tell nothing are dropped;
    /// `false` means the record could not be read.
    pub fn push(&mut self, bytes: &[u8], kind: EventKind, config: &ParseConfig<Native>) -> bool {
        if let Some(switch) = context_switch(bytes) {
            self.records.push(switch);
            return true;
        }
        // The data source is the last field that we ask for; the parser offers it only in pieces.
        let last_word = bytes.last_chunk().map_or(0, |word| u64::from_ne_bytes(*word));
        let decode = Decode { batch: self, kind, last_word };
        Parser::new(bytes, config.clone()).parse_record(decode).is_ok()
    }
}

/// Finds the event id of a raw record, so that the right layout can be chosen: with
/// `PERF_SAMPLE_IDENTIFIER` it is the first word of a sample and the last of any other record.
pub fn identifier(bytes: &[u8]) -> Option<u64> {
    let kind = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?);
    let at = if kind == sys::PERF_RECORD_SAMPLE { 8 } else { bytes.len().checked_sub(8)? };
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// Decodes a context switch; `None` for other records. perf-event-data 0.1.8 reports an error for every one of them.
/// Behind the header of 8 bytes stands only what our `sample_type` adds: pid, tid, time, CPU, id.
fn context_switch(bytes: &[u8]) -> Option<Record> {
    let word = |at: usize| bytes.get(at..at + 4).and_then(|four| Some(u32::from_ne_bytes(four.try_into().ok()?)));
    if word(0)? != sys::PERF_RECORD_SWITCH {
        return None;
    }
    let out = word(4)? & sys::PERF_RECORD_MISC_SWITCH_OUT != 0;
    let time = u64::from(word(16)?) | u64::from(word(20)?) << 32;
    let payload = if out { Payload::SwitchedOut } else { Payload::SwitchedIn };
    Some(Record { time, cpu: word(24)?, pid: word(8)?, tid: word(12)?, payload })
}

struct Decode<'b> {
    batch: &'b mut Batch,
    kind: EventKind,
    last_word: u64,
}

impl Decode<'_> {
    fn add(self, metadata: &RecordMetadata, pid: u32, tid: u32, payload: Payload) {
        let id = metadata.sample_id();
        self.batch.records.push(Record { time: id.time().unwrap_or(0), cpu: id.cpu().unwrap_or(0), pid, tid, payload });
    }
}

impl<'a> Visitor<'a> for Decode<'_> {
    type Output = ();

    fn visit_unimplemented(self, _: RecordMetadata) {}

    fn visit_mmap(self, map: Mmap<'a>, metadata: RecordMetadata) {
        let payload = Payload::Mapped {
            start: map.addr,
            end: map.addr.saturating_add(map.len),
            offset: map.pgoff,
            prot: libc::PROT_READ as u32,
            shared: false,
            inode: 0,
            path: map.filename.as_ref().into(),
        };
        self.add(&metadata, map.pid, map.tid, payload);
    }

    fn visit_mmap2(self, map: Mmap2<'a>, metadata: RecordMetadata) {
        let payload = Payload::Mapped {
            start: map.addr,
            end: map.addr.saturating_add(map.len),
            offset: map.pgoff,
            prot: map.prot,
            shared: map.flags & libc::MAP_SHARED as u32 != 0,
            inode: map.ino().unwrap_or(0),
            path: map.filename.as_ref().into(),
        };
        self.add(&metadata, map.pid, map.tid, payload);
    }

    fn visit_comm(self, comm: Comm<'a>, metadata: RecordMetadata) {
        let exec = u32::from(metadata.misc()) & sys::PERF_RECORD_MISC_COMM_EXEC != 0;
        let payload = Payload::Named { name: comm.comm.as_ref().into(), exec };
        self.add(&metadata, comm.pid, comm.tid, payload);
    }

    fn visit_fork(self, fork: Fork, metadata: RecordMetadata) {
        let payload = Payload::Forked { parent_pid: fork.ppid, parent_tid: fork.ptid };
        self.add(&metadata, fork.pid, fork.tid, payload);
    }

    fn visit_exit(self, exit: Exit, metadata: RecordMetadata) {
        self.add(&metadata, exit.pid, exit.tid, Payload::Exited);
    }

    fn visit_lost(self, lost: Lost, metadata: RecordMetadata) {
        self.add(&metadata, 0, 0, Payload::Lost { count: lost.lost });
    }

    fn visit_lost_samples(self, lost: LostSamples, metadata: RecordMetadata) {
        self.add(&metadata, 0, 0, Payload::Lost { count: lost.lost });
    }

    fn visit_sample(self, sample: Sample<'a>, _: RecordMetadata) {
        let user = sample.regs_user();
        let registers = user.and_then(|user| x86_order(&user.regs));
        let (ip, in_call) = match (sample.ip().unwrap_or(0), user) {
            (ip, Some(user)) if self.kind == EventKind::Fault && ip >> 63 != 0 => {
                (user.regs.get(IP).copied().unwrap_or(0), true)
            }
            (ip, _) => (ip, false),
        };
        let chain = self.batch.add_chain(sample.callchain().unwrap_or(&[]));
        let stack = self.batch.add_stack(sample.stack_user().unwrap_or(&[]));
        let sampled = Sampled {
            kind: self.kind,
            ip,
            in_call,
            address: sample.addr().unwrap_or(0),
            period: sample.period().unwrap_or(1),
            access: memory_access(&sample, self.last_word),
            registers,
            chain,
            stack,
        };
        self.batch.records.push(Record {
            time: sample.time().unwrap_or(0),
            cpu: sample.cpu().unwrap_or(0),
            pid: sample.pid().unwrap_or(0),
            tid: sample.tid().unwrap_or(0),
            payload: Payload::Sampled(sampled),
        });
    }
}

fn memory_access(sample: &Sample<'_>, last_word: u64) -> Option<MemoryAccess> {
    if let Some(raw) = sample.raw() {
        return ibs::decode(raw, false).ok().map(|operation| operation.memory);
    }
    sample.data_src()?;
    let mut access = DataSource(last_word).decode();
    access.latency_cycles = sample.weight().and_then(|weight| Weight::of_word(weight).access);
    Some(access)
}

/// Where the instruction pointer stands in the kernel's order.
const IP: usize = 8;

/// The registers asked for in `attr::REGISTERS`, from the kernel's order AX BX CX DX SI DI BP SP IP R8..R15.
fn x86_order(regs: &[u64]) -> Option<[u64; 16]> {
    let &[ax, bx, cx, dx, si, di, bp, sp, _ip, r8, r9, r10, r11, r12, r13, r14, r15] = regs else {
        return None;
    };
    Some([ax, cx, dx, bx, sp, bp, si, di, r8, r9, r10, r11, r12, r13, r14, r15])
}
