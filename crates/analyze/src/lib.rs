//! One file per analysis: profile in, report out. Nothing here does I/O, prints or formats.
//!
//! [`Study::load`] reads what the wanted [`sections`] need, once; each section turns the study into [`Report`]s, whose
//! closed set of shapes every view can show. A [`Shelf`] keeps studies for whoever asks again. To add an analysis: its file, and a row in `sections`.

mod about;
mod access_matrix;
mod address_space;
pub mod advice;
mod allocation_matrix;
mod cache_lines;
mod call_tree;
mod clusters;
mod code;
mod code_matrix;
mod communication;
pub mod counts;
pub mod diff;
mod exclusivity;
mod facts;
mod filter;
mod first_touch;
mod flows;
mod functions;
mod huge_pages;
pub mod intervals;
mod line_sharing;
mod lines;
mod load;
mod machine;
mod margins;
pub mod metrics;
mod node_timeline;
mod objects;
mod pages;
pub mod paths;
mod phases;
mod pinning;
mod placed;
mod placements;
mod remote_frees;
pub mod report;
mod residency;
mod runtime;
pub mod sections;
mod sharing;
mod shelf;
mod study;
mod subjects;
mod summary;
mod threads;
mod tiers;
mod timeline;
mod usage;
pub mod whatif;

pub use about::{About, Unit};
pub use counts::{Counts, Tally};
pub use filter::Filter;
pub use load::{LoadError, Need, Options};
pub use placed::FirstTouches;
pub use report::Report;
pub use sections::Section;
pub use shelf::Shelf;
pub use study::Study;
