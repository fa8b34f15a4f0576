//! The exact engine's part inside the program.
//!
//! Freestanding: no libc, no std, no vector registers. It is mapped into the program at its exec ([`inject`]), takes
//! over before the first instruction ([`boot`]) and from then on runs a translation of the program that counts
//! (`numalens-translator`), in the same threads. Counters lie in memory shared with the collector
//! (`numalens_event::exact`).
//!
//! | module | what it does |
//! |---|---|
//! | [`sys`] | the agent's own system calls, memory and mutual exclusion; memory that the program names |
//! | [`entry`] | the border between the cache and the agent, in assembly |
//! | [`state`] | what the threads share, what is known of each, the session file, the program's mappings |
//! | [`pages`] | the table of pages: first touches, homes, what becomes of pages |
//! | [`counting`] | cache lines, words and misses of a private cache, where they are counted |
//! | [`code`] | the program's code and its translations: memory of them, code that changes |
//! | [`machine`], [`placement`] | the virtual machine that the program sees; where threads may run |
//! | [`blocks`], [`allocator`], [`static_program`] | blocks of the heap; what the preloaded library does elsewhere |
//! | [`runtimes`] | collectors of garbage |
//! | [`signals`] | the program's handlers see what they would see natively |
//! | [`syscalls`] | the program's system calls: one table, and who handles them |
//! | [`marks`], [`requests`] | phases of the program; what it asks for by `include/numalens.h` |
//! | [`dispatch`] | what happens when control leaves the cache; above all of these |
//! | [`boot`] | from the injector's registers to the first translated fragment |
//! | [`inject`], [`program`] | puts the agent into a program at its exec; what a file would be when executed |
//!
//! Each needs those above it. Files need each other in a circle only within one folder; what would close one goes down
//! to `state`, or comes back as a value that says what is to be done ([`signals::Resume`]).
//!
//! The crate also builds for ordinary targets: the collector injects with the same code, and the tests run there.
#![no_std]

extern crate alloc;

pub mod allocator;
pub mod blocks;
pub mod boot;
pub mod code;
pub mod counting;
pub mod dispatch;
pub mod entry;
pub mod far;
pub mod inject;
pub mod interposer;
pub mod machine;
pub mod marks;
pub mod pages;
pub mod placement;
pub mod program;
pub mod rank;
pub mod requests;
pub mod runtimes;
pub mod signals;
pub mod state;
pub mod static_program;
pub mod sys;
pub mod syscalls;
