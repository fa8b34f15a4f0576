//! The one way in which these tests run numalens: a [`Lab`] builds programs and records them, [`Recorded`] is what came
//! of it, [`command`] runs anything else, [`source`] knows the lines that programs mark.
//!
//! The tests are a part of the package whose program they test. Of another package (a `tests/` at the root, or a crate
//! that is a dependency of tests) cargo tells neither where the program is, `CARGO_BIN_EXE_numalens`, nor does it build
//! the program anew before a test of it runs: such tests would pass or fail for the program of an earlier day. So the
//! harness is a module of each test binary, not a crate.
//!
//! A test binary takes seconds to link, as it has the tables' libraries in it: there is one for each room, a folder
//! with a `main.rs`, and a test is a module there. Binaries run one after the other, the tests of one side by side. Two
//! are a binary of their own for that: `targets`, whose samples want the machine for themselves, and `corpus`, of which
//! `make corpus` runs what takes many minutes.

#![allow(dead_code, unused_imports, reason = "each test binary uses a part")]

pub mod command;
pub mod compile;
pub mod lab;
pub mod source;
pub mod targets;

pub use command::*;
pub use compile::*;
pub use lab::*;
pub use source::*;
