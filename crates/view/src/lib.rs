//! Reports for people and programs: [`text`] for terminals, [`html`] pages, [`json`] (and by [`columns`]), [`csv`]. The
//! only place that formats figures. And call paths in the form of other programs: [`callgrind`], [`pprof`],
//! [`firefox`].

pub mod callgrind;
mod colors;
pub mod columns;
pub mod csv;
pub mod firefox;
pub mod html;
pub mod json;
pub mod numbers;
pub mod pprof;
pub mod text;
pub mod visible;
