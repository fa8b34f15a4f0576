//! The only contract across the process boundary: what a library inside the target writes into memory that
//! the collector shares with it.
//!
//! ```text
//!  channel (one memory file)
//!  +--------+-----------------+--------------------------------+--------------------------------+-----
//!  | header | controls, lanes | lane 0: notes | wides          | lane 1: notes | wides          | ...
//!  +--------+-----------------+--------------------------------+--------------------------------+-----
//! ```
//! A lane is used by the threads whose id falls on it (`tid mod lanes`). It has two rings: *notes*, slots of one cache
//! line for what is said in four words (a release, an unmapping), and *wides*, slots with room for a copied piece of
//! stack or a mask of CPUs. Two sizes, because releases are as frequent as allocations and a tenth of their size.
//!
//! - [`layout`]: where everything stands, as `repr(C)`; its twin in C is `crates/interpose/numalens_event.h`, and a
//!   test of that crate compares the two field by field.
//! - [`ring`]: how many writers, any of which may die at any instruction, hand slots to one reader.
//! - [`record`]: what the words of a slot mean.
//! - [`rank`]: what a launcher of MPI programs tells each of them.
//! - [`page`]: how large a page is, to both sides.
//! - [`request`]: what a program may ask for by `include/numalens.h`.
//! - [`runtime_log`]: what a runtime says of code that it makes, in a second memory file.
//!
//! The crate has no unsafe code and no I/O: whoever maps the memory presents it as words.
#![no_std]
#![forbid(unsafe_code)]

pub mod exact;
pub mod layout;
pub mod page;
pub mod rank;
pub mod record;
pub mod request;
pub mod ring;
pub mod runtime_log;
