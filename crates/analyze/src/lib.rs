//! One file per analysis: profile in, report out. Nothing here does I/O, prints or formats.
//!
//! [`Dataset::load`] reads what the wanted [`sections`] need, once; each section turns the dataset into [`Report`]s,
//! whose closed set of shapes every view can show. A [`DatasetCache`] keeps datasets for whoever asks again.
//!
//! Floors, from the ground up. A file imports from its own floor and from those below it, never from above:
//!
//! | floor | what lies there |
//! |---|---|
//! | `model/` | sums, provenance, metrics, the shapes of a report |
//! | `facts/` | tables folded to what analyses ask for, and what follows from such facts alone |
//! | `dataset/` | the facts of one profile: what is read, how it is kept for the next question |
//! | [`advice`] | patterns found in a dataset, and their remedies |
//! | [`sections`] | one file each; `sections.rs` has a row for each |
//! | [`diff`], [`whatif`], [`paths`], [`disassembly`], [`rollup`] | questions that are no section |
//!
//! To add an analysis: its file in `sections/`, and a row in `sections.rs`.

pub mod advice;
mod dataset;
pub mod diff;
pub mod disassembly;
mod facts;
mod model;
pub mod paths;
pub mod rollup;
pub mod sections;
pub mod whatif;

pub use dataset::Dataset;
pub use dataset::cache::DatasetCache;
pub use dataset::options::Options;
pub use dataset::source::LoadError;
pub use facts::code;
pub use facts::filter::Filter;
pub use facts::fold::Need;
pub use facts::placed::FirstTouches;
pub use model::about::{About, Unit};
pub use model::counts::Counts;
pub use model::patterns::{Pattern, Remedy};
pub use model::report::Report;
pub use model::tally::Tally;
pub use model::{counts, intervals, metrics, report, terms};
pub use sections::{Section, phases, verdict};
