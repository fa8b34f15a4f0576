//! Reports for people and programs: [`text`] for terminals, [`html`] pages, [`json`], [`csv`]. The only place that formats figures.

pub mod csv;
pub mod html;
pub mod json;
mod numbers;
pub mod text;
