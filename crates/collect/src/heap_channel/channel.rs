//! Making the channel and the environment that leads to it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use memmap2::{MmapOptions, MmapRaw};
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use numalens_event::exact::ClockAnchor;
use numalens_event::layout::{Control, HEADER_BYTES, Header, MAGIC, RingKind, Shape, VERSION};
use rustc_hash::FxHashMap;

use super::pace::{Credit, Pace};
use super::reader::RingState;
use crate::memory_file::memory_file;
use crate::refused::refused;
use crate::runtimes::RuntimeLog;

/// What the library records, and how long it waits.
#[derive(Clone, Debug)]
pub struct HeapOptions {
    /// Sizes of the rings. The memory is bounded by [`Shape::bytes`] and used as far as threads need it.
    pub shape: Shape,
    /// Allocations of at least so many bytes are recorded each (within the burst and rate below).
    pub large: u64,
    /// Mean bytes between two recorded smaller allocations of a thread.
    pub mean: u64,
    /// Smaller allocations recorded per second, all threads together, above which `mean` is doubled; it is halved
    /// again, down to what was asked for, below a quarter of this.
    pub sampled_per_second: u32,
    /// Large allocations that may be recorded each at once, all threads together.
    pub large_burst: u32,
    /// How many more every second.
    pub large_per_second: u32,
    /// Mean bytes between two recorded large allocations of a thread while there are more than that; it is doubled like
    /// `mean` when these are again more than `large_per_second`.
    pub large_mean: u64,
    /// Every block is reported.
    pub every: bool,
    /// How long a writer waits for room in a full ring.
    pub patience: Duration,
    /// How long a process waits for [`HeapChannel::acknowledge`] before it exits or replaces itself; `None`: not at
    /// all.
    pub handshake: Option<Duration>,
}

impl Default for HeapOptions {
    fn default() -> Self {
        HeapOptions {
            shape: Shape::default(),
            large: 32 << 10,
            mean: 256 << 10,
            sampled_per_second: 5_000,
            large_burst: 1024,
            large_per_second: 5_000,
            large_mean: 64 << 20,
            every: false,
            patience: Duration::ZERO,
            handshake: None,
        }
    }
}

/// The channel, mapped; see the module's documentation.
pub struct HeapChannel {
    channel: File,
    library: File,
    memory: Arc<MmapRaw>,
    pub(super) shape: Shape,
    pub(super) rings: Vec<RingState>,
    pub(super) tickets: FxHashMap<u32, u32>,
    pub(super) pace: Pace,
    pub(super) large_pace: Pace,
    pub(super) large: u64,
    pub(super) credit: Credit,
    pub(super) bell: Bell,
    runtime_log: Option<RuntimeLog>,
}

/// By which writers ask for attention.
pub struct Bell {
    memory: Arc<MmapRaw>,
    pub(super) seen: u32,
}

impl Bell {
    pub(super) fn header(&self) -> &Header {
        // SAFETY: the mapping is at least HEADER_BYTES long (Shape::bytes includes them), page-aligned, never
        // shrunk (sealed), and lives as long as self; Header consists of atomics, for which any bytes are valid and
        // concurrent writes by other processes are no data race.
        unsafe { &*self.memory.as_ptr().cast::<Header>() }
    }
}

impl HeapChannel {
    /// Makes the memory files.
    ///
    /// # Errors
    /// Those of `memfd_create` and `mmap`; `Unsupported` on machines for which the library is not built.
    pub fn create(options: &HeapOptions) -> io::Result<Self> {
        if numalens_interpose::LIBRARY.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "heap objects are observed on x86-64 Linux only; record without them",
            ));
        }
        let shape = options.shape;
        if shape.lanes_log2 > 6 || shape.note_slots_log2 >= 24 || shape.wide_slots_log2 >= 24 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("a heap channel of {shape:?} is too large"),
            ));
        }
        let channel = memory_file("numalens-channel", &[])?;
        channel.set_len(shape.bytes() as u64).map_err(|error| refused("ftruncate of the channel", &error))?;
        // Targets map it writable; they must not be able to shorten it under the reader.
        fcntl(
            &channel,
            FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL),
        )?;
        let library = memory_file("numalens-interpose", numalens_interpose::LIBRARY)?;
        fcntl(
            &library,
            FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_WRITE),
        )?;
        let memory = MmapOptions::new().len(shape.bytes()).map_raw(&channel);
        let memory = Arc::new(memory.map_err(|error| refused("mmap of the channel", &error))?);
        let rings = RingState::all(shape);
        let pace = Pace::new(options.mean, options.sampled_per_second);
        let large_pace = Pace::new(options.large_mean, options.large_per_second);
        let large = options.large;
        let credit = Credit::new(options.large_burst, options.large_per_second);
        let made = HeapChannel {
            channel,
            library,
            bell: Bell { memory: memory.clone(), seen: 0 },
            memory,
            shape,
            rings,
            tickets: FxHashMap::default(),
            pace,
            large_pace,
            large,
            credit,
            // Without it code that runtimes make has no names.
            runtime_log: RuntimeLog::create().ok(),
        };
        made.fill_header(options);
        Ok(made)
    }

    fn fill_header(&self, options: &HeapOptions) {
        let header = self.header();
        let set = |field: &AtomicU32, value: u32| field.store(value, Ordering::Relaxed);
        set(&header.version, VERSION);
        set(&header.lanes_log2, self.shape.lanes_log2);
        set(&header.note_slots_log2, self.shape.note_slots_log2);
        set(&header.wide_slots_log2, self.shape.wide_slots_log2);
        set(&header.collector_pid, std::process::id());
        header.large_credit.store(self.credit.burst, Ordering::Relaxed);
        header.large.store(options.large.max(1), Ordering::Relaxed);
        header.mean.store(options.mean, Ordering::Relaxed);
        header.large_mean.store(options.large_mean, Ordering::Relaxed);
        let log = self.runtime_log.as_ref().map_or(0, RuntimeLog::descriptor);
        header.runtime_log.store(log.into(), Ordering::Relaxed);
        set(&header.every, options.every.into());
        set(&header.patience_ms, in_milliseconds(options.patience));
        set(&header.handshake, u32::from(options.handshake.is_some()));
        set(&header.handshake_ms, in_milliseconds(options.handshake.unwrap_or_default()));
        set(&header.open, 1);
        header.magic.store(MAGIC, Ordering::Release);
    }

    /// Variables to set for the program to start. `existing_ld_preload` is the value that it would have had; the
    /// program sees that one, and neither of these.
    pub fn environment(&self, existing_ld_preload: Option<&OsStr>) -> Vec<(OsString, OsString)> {
        let path = |file: &File| format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        let library = path(&self.library);
        let mut preload = OsString::from(&library);
        if let Some(theirs) = existing_ld_preload.filter(|theirs| !theirs.is_empty()) {
            preload.push(":");
            preload.push(theirs);
        }
        vec![
            ("NUMALENS_CHANNEL".into(), format!("{}:{library}", path(&self.channel)).into()),
            ("LD_PRELOAD".into(), preload),
        ]
    }

    /// The clock of an exact recording: which one is in force, and both.
    pub fn clock(&self) -> (&AtomicU32, &[ClockAnchor; 2]) {
        (&self.header().clock_in_force, &self.header().clock)
    }

    /// The log in which runtimes tell of their code, once. It is open as long as somebody has it.
    pub fn take_runtime_log(&mut self) -> Option<RuntimeLog> {
        self.runtime_log.take()
    }

    pub(super) fn header(&self) -> &Header {
        self.bell.header()
    }

    /// The bell, for another thread to wait for.
    pub fn bell(&self) -> Bell {
        Bell { memory: self.memory.clone(), seen: self.bell.seen }
    }

    pub(super) fn control(&self, lane: usize, kind: RingKind) -> &Control {
        debug_assert!(lane < self.shape.lanes());
        let offset = self.shape.control_offset(lane, kind);
        // SAFETY: as for `header`; the controls of all lanes lie between the header and the slots, 64-byte aligned.
        unsafe { &*self.memory.as_ptr().add(offset).cast::<Control>() }
    }

    /// All slots of a ring, as words.
    pub(super) fn slots(&self, lane: usize, kind: RingKind) -> &[AtomicU64] {
        debug_assert!(lane < self.shape.lanes());
        let offset = self.shape.slots_offset(lane, kind);
        let words = kind.slot_words() << self.shape.slots_log2(kind);
        // SAFETY: as for `header`; Shape lays the rings out one after another within Shape::bytes, aligned to 64.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().add(offset).cast::<AtomicU64>(), words) }
    }
}

impl Drop for HeapChannel {
    /// Makes every writer silent and lets those who wait go on.
    fn drop(&mut self) {
        let header = self.header();
        header.open.store(0, Ordering::SeqCst);
        header.handshake.store(0, Ordering::SeqCst);
        for answer in &header.acknowledged {
            crate::futex::wake(answer);
        }
    }
}

const _: () = assert!(size_of::<Header>() <= HEADER_BYTES);

/// An anonymous file that programs may execute code from, with this content.
/// As the header has it: the longest there is where it does not fit.
fn in_milliseconds(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}
