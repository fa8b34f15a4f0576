//! Memory sampling by the processor: PEBS on Intel, IBS on AMD.
//!
//! The processor picks one memory access in so many, follows it, and reports its address, where the data came from and
//! how long it took. [`detect`] finds what this machine offers and says how to open it; [`DataSource`] and
//! [`ibs::decode`] turn what arrives into a [`MemoryAccess`].
//!
//! **Untested on hardware.** The decoders are tested on constructed records, written after
//! `include/uapi/linux/perf_event.h`, `arch/x86/events/intel/ds.c` and `arch/x86/events/amd/ibs.c` of Linux.

mod data_source;
mod detect;
pub mod ibs;

pub use data_source::{DataSource, Snoop, Tlb, TlbLevel, Weight};
pub use detect::{Absent, HardwareEvent, HardwareEvents, Sampled, Vendor, detect, why_absent};

use numalens_profile::words::{Access, Source};

/// What the hardware says about one access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryAccess {
    /// What the access did; `None` when the sampled operation touched no memory (IBS samples all operations), or only
    /// prefetched.
    pub access: Option<Access>,
    /// Which part of the memory system answered.
    pub source: Source,
    /// How the address was translated, where known.
    pub tlb: Option<Tlb>,
    /// Whether another cache had the line, where known.
    pub snoop: Option<Snoop>,
    /// An atomic instruction.
    pub locked: bool,
    /// Time until the data arrived, in core cycles, where measured.
    pub latency_cycles: Option<u32>,
    /// The virtual address, where the record has one of its own.
    pub address: Option<u64>,
    /// The physical address, where the kernel lets it be seen.
    pub physical_address: Option<u64>,
}
