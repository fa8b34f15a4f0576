//! The exact engine's part inside the program.
//!
//! Freestanding: no libc, no std, no vector registers. It is mapped into the program at its exec ([`inject`]), takes
//! over before the first instruction ([`boot`]) and from then on runs a translation of the program that counts
//! (`numalens-translator`), in the same threads. Counters lie in memory shared with the collector
//! (`numalens_event::exact`).
//!
//! | module | what it does |
//! |---|---|
//! | [`static_program`], [`allocator`] | what the preloaded library does elsewhere: its variables hidden and passed on, heap blocks |
//! | [`requests`] | what the program asks for by `include/numalens.h` |
//! | [`inject`] | puts the agent into a program at its exec |
//! | [`boot`] | from the injector's registers to the first translated fragment |
//! | [`program`] | what a file would be when executed |
//! | [`machine`] | the virtual machine that the program sees |
//! | [`sys`] | the agent's own system calls |
//! | [`lines`] | who accessed each cache line last |
//! | [`arenas`], [`reclaim`] | the memory of translations, and when it can be used again |
//! | [`give_way`] | what of the agent's memory moves where the program wants the place |
//! | [`blocks`], [`words`] | what was counted where a block begins or ends belongs to whom had the memory until then |
//! | [`cache`] | a private cache for each thread |
//! | [`heap`], [`lock`] | memory and mutual exclusion of the agent itself |
//!
//! The crate also builds for ordinary targets: the collector injects with the same code, and the tests run there.
#![no_std]

extern crate alloc;

pub mod allocator;
pub mod blocks;
pub mod boot;
pub mod code;
pub mod collector;
pub mod counting;
pub mod dispatch;
pub mod entry;
pub mod failure;
pub mod far;
pub mod heap;
pub mod inject;
pub mod interposer;
pub mod lock;
pub mod machine;
pub mod maps;
pub mod pages;
pub mod placement;
pub mod program;
pub mod rank;
pub mod requests;
pub mod runtime;
pub mod session_file;
pub mod signals;
pub mod static_program;
pub mod sys;
pub mod syscalls;
pub mod thread;
pub mod thread_context;
pub mod user;

/// The agent's heap.
#[cfg_attr(feature = "blob", global_allocator)]
pub static HEAP: heap::Heap = heap::Heap::new();
