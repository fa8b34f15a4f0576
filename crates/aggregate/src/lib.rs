#![no_std]
//! Counts that merge by addition, and time bins that coarsen.
//!
//! A recording does not know how long it will last, and must not grow with its length. Two laws make that possible:
//!
//! - **Merge**: facts with the same key add up, in any order ([`Facts::add`] is associative and commutative), so
//!   threads, time bins, processes and hosts merge with the same code.
//! - **Coarsen**: when the bins run out, neighbours merge two by two and bins become twice as wide
//!   ([`TimeBins`]); nothing is lost but resolution in time.
//!
//! ```text
//!   width w    | 0 | 1 | 2 | 3 | 4 | 5 |   limit 4 bins reached at time 4w
//!   width 2w   |   0   |   1   |   2   |   and so on: there are always more than limit/2, at most limit bins
//! ```

extern crate alloc;

mod bins;
mod facts;

pub use bins::TimeBins;
pub use facts::{Counts, Facts, settle};
