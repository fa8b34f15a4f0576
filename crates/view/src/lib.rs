//! Reports for people and programs: [`text`] for terminals, [`json`], [`csv`]. The only place that formats figures.

pub mod csv;
pub mod json;
mod numbers;
pub mod text;
