//! x86-64 code in, the same code counting its memory accesses out. No I/O, no operating system: bytes in, bytes out.
//!
//! # What comes out
//!
//! A *fragment* is a run of consecutive instructions of the program, through up to [`FragmentLimits::side_exits`]
//! conditional jumps that fall through, up to a jump, call, return or system call. Its translation lies in the *code
//! cache*, within 2 GiB of the program's own code, and consists of the program's instructions, byte for byte, with
//! only displacements changed, and counting code before each instruction that accesses memory. Translated code is
//! shared by all threads; what belongs to a thread is reached through GS, whose base is the [`context`] of the
//! thread. A program that uses GS itself is not supported: its instructions leave through [`Leave::Unsupported`], as
//! do those few that cannot be translated for other reasons ([`Obstacle`]).
//!
//! ```text
//!   program          code cache, hot half                     code cache, cold half
//!   cmp  rdi, rsi    cmp   rdi, rsi
//!   jae  out         jae   stub1  ........................... stub1: mov gs:[rax slot], rax
//!   mov  rax,[rdi]   lea   r11, [rdi]          counting              mov eax, exit id
//!   ...              shr   r11, 12                                   jmp gs:[DISPATCH]
//!                    mov   r11, [shadow + r11*8]
//!                    mov   r10d, r11d          class          cold1: (recompute the address, name the site)
//!                    shr   r11, 32             slot                  jmp gs:[COUNT]  -> comes back to `back`
//!                    test  r10d, r10d
//!                    jz    cold1
//!                    inc   qword gs:[PAGES + r11*8]
//!                    inc   qword gs:[SITES + site*stride + r10*8]
//!            back:   mov   rax, [rdi]
//! ```
//!
//! Above is the counting with flat tables. In loops, most accesses are counted by an inline *last-page cache* instead,
//! which needs no look-up while their page stays the same: `counting/last_page.rs` says how, [`Scheme`] where.
//!
//! `shadow` is one process-wide table of a [`PageEntry`] (8 bytes) per 4 KiB page of the address space: the *class* of
//! the page, where 0 means "ask" and leads to the cold path, and the *slot* of its counters. Each thread has two tables
//! at fixed offsets from GS: `pages`, two 64-bit counters per slot pair (reads, writes; the slot in the entry is the
//! index of the first, an even number), and `sites`, one 64-bit counter per site and class. A *site* is one memory
//! operand of one instruction, see [`Site`]; a read-modify-write is one site, counted once there and in both counters
//! of the page. How often instructions are executed follows from these counters and few more: `counting/executions.rs`.
//!
//! # How control leaves the cache
//!
//! Through the code pointers in the context, see [`context`]:
//! - `DISPATCH`, with an [`ExitId`] in eax: [`Cache::leave`] says what it means, and links the jump so that it comes
//!   only once.
//! - `LOOKUP_MISS`, with the program's target address in rax: an indirect jump, call or return whose target is not in
//!   the thread's lookup table. [`Cache::landing`] gives what to enter in the table and where to go on.
//! - `RETURN_MISS`: a return to an address that is not in the thread's table of those. [`Cache::returning`] gives what
//!   to enter.
//! - `SETTLE`: a group of accesses has changed its page; [`settle_last_page`], which this crate brings along.
//! - `COUNT`: accesses that are counted out of line ([`count::settle`] does it): unknown pages, repeated string
//!   instructions, gathers, masked vectors. Every register and flag must be preserved; go on at
//!   `context::COUNT_RETURN`.
//!
//! The generated code assumes that BMI2 and FSGSBASE exist.
//!
//! # Signals
//!
//! [`Cache::locate`] maps an address in the cache to the instruction of the program, the registers that are held in
//! spill slots there, and what the instruction has counted already.
#![no_std]

extern crate alloc;

mod abi;
mod cache;
pub mod count;
mod counting;
mod emit;
mod fragment;
mod ir;
pub mod persist;
mod translate;

pub use abi::config::{Config, FragmentLimits, Scheme};
pub use abi::context;
pub use abi::derived_count::DerivedCount;
pub use abi::direct_table::DirectTable;
pub use abi::each::{CacheSets, Each, LINE_MASKS_BYTES, line_masks};
pub use abi::env::{Changes, Env, Room, Watch};
pub use abi::error::Error;
pub use abi::ids::{ExitId, FragmentId, LastPageId, SiteId};
pub use abi::last_page::LastPage;
pub use abi::page_entry::{PageEntry, Shadow};
pub use abi::routines::{
    count_direct, count_elements, count_group, count_string, settle_last_page, settle_last_page_end, take_return,
    take_return_end, take_return_writes,
};
pub use abi::segment::{FetchCounter, Segment};
pub use abi::site::{Address, Group, LastPageSlot, Shape, Site};
pub use abi::way::Way;
pub use cache::evict::Unlinked;
pub use cache::{Cache, Landing, Leave};
pub use count::settle_derived;
pub use fragment::{Position, Unexecuted};
pub use ir::cpu_query::CpuQuery;
pub use ir::far::{FarReturn, FarTarget, Obstacle};
pub use ir::mark::State;
pub use ir::member::Unmade;
