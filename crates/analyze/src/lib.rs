//! One file per analysis: profile in, report out. Nothing here does I/O, prints or formats.
//!
//! [`Study::load`] reads what the wanted [`sections`] need, once; each section turns the study into [`Report`]s, whose
//! closed set of shapes every view can show. To add an analysis: its file, and a row in `sections`.

mod about;
mod access_matrix;
mod allocation_matrix;
mod code;
mod code_matrix;
mod counts;
mod exclusivity;
mod facts;
mod first_touch;
mod functions;
pub mod intervals;
mod lines;
mod load;
mod machine;
pub mod metrics;
mod objects;
mod pages;
mod pinning;
mod placed;
mod placements;
pub mod report;
mod runtime;
pub mod sections;
mod study;
mod summary;
mod threads;
mod timeline;

pub use about::{About, Unit};
pub use counts::{Counts, Tally};
pub use load::{LoadError, Options};
pub use placed::FirstTouches;
pub use report::Report;
pub use sections::Section;
pub use study::Study;
