//! x86-64 instructions: which memory they touch. No I/O, no operating system, no allocation beyond the plans.
//!
//! # From a clock sample to the access that cost the time
//!
//! A clock sample tells where a thread stood and what its registers held, not which memory it was waiting for.
//! The interrupt is taken when the stalled instruction retires, so the sampled address is usually the instruction
//! *after* the access:
//!
//! ```text
//!     add   rdx, 8
//!     mov   rax, [rdi+rdx]     <- waited here
//!     add   rcx, rax           <- sampled here; rdi and rdx still hold the address
//!     jmp   ...
//! ```
//!
//! [`plan`] decodes the code around a sampled address once, [`Plan::resolve`] then turns the registers of each sample
//! at that address into the address of an access, in this order:
//!
//! 1. **Before**: the nearest access backwards in the basic block, if the registers that form its address can be had:
//!    nothing wrote them since, or what was done to them can be undone (`add rdx, 8`, `inc`, `lea`, `mov` of
//!    registers). When the sampled instruction is a repeated string instruction it is taken to be under way, and counts
//!    itself.
//! 2. **At**: the sampled instruction itself.
//! 3. **After**: the next access forwards whose registers are final or can be computed. Registers are emulated, a value
//!    loaded from memory is unknown. Jumps are followed; a conditional one goes where its flags say if they could be
//!    computed, else backward jumps are taken and forward ones are not. A pointer chase (`mov rax, [rax]`) ends here:
//!    its load destroyed its own address, but the next execution of the same load is known.
//! 4. **Before**, further back in the block than the nearest access, when nothing else was found.
//!
//! What counts as an access: explicit memory operands, and the implied ones of string instructions. The stack operands
//! of `push`, `pop`, `call`, `ret` do not, nor do `lea`, prefetches and `nop`s with a memory operand. Gathers and
//! scatters are accesses whose addresses stand in vector registers, which a sample does not have: they are passed over.
#![no_std]

extern crate alloc;

mod access;
mod boundaries;
pub mod convention;
mod fault;
pub mod flags;
mod image;
mod operand;
mod plan;
mod register;
mod request;
mod step;
mod tile;
mod usage;

pub use access::{Access, Address, Shape, accesses};
pub use fault::access_at;
pub use image::{Component, Image, ImageForm};
pub use plan::{Plan, plan, recover};
pub use register::{PAGE, PAGE_BITS, Register};
pub use request::{REQUEST, is_request};
pub use tile::Tile;
pub use usage::{STATUS_FLAGS, Usage, leaves_the_program};

/// The registers of a thread at one moment, as `perf_event_open` samples them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// rax rcx rdx rbx rsp rbp rsi rdi r8..r15: the order of the encoding.
    pub gpr: [u64; 16],
    /// The address of the next instruction.
    pub ip: u64,
    /// The base of FS, where it is known.
    pub fs_base: Option<u64>,
    /// The base of GS, where it is known.
    pub gs_base: Option<u64>,
}

impl Registers {
    /// A general register.
    pub fn general(&self, register: Register) -> u64 {
        self.gpr[register as usize]
    }
}

/// Where an access stands relative to the sampled instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Found {
    /// It retired before the sampled instruction.
    Before,
    /// It is the sampled instruction.
    At,
    /// It is executed after the sampled instruction.
    After,
}

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A load.
    Read,
    /// A store.
    Write,
    /// A read-modify-write.
    ReadWrite,
}

/// An access with its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveredAccess {
    /// The address of the access instruction.
    pub ip: u64,
    /// The virtual address of the first byte accessed.
    pub address: u64,
    /// Bytes accessed; 0 where the instruction alone does not tell (`xsave`).
    pub size: u32,
    /// What the access does.
    pub kind: Kind,
    /// Where the access stands.
    pub found: Found,
    /// Instructions between the sampled one and this one: 0 for [`Found::At`], 1 for a neighbour.
    pub distance: u32,
    /// The operand is relative to rsp, or to rbp where the function was seen to set up a frame pointer.
    pub stack: bool,
    /// The other side of an instruction with two memory operands: of `movs` the write (the read comes first), of `cmps`
    /// the second read.
    pub also: Option<(u64, Kind)>,
}
