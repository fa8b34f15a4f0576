//! The nouns of all analyses: sums, provenance, metrics and the shapes of a report. Knows no table and no file.

pub mod about;
pub mod by_id;
pub mod counts;
pub mod intervals;
pub mod metrics;
pub mod node;
pub mod object_group;
pub mod patterns;
pub mod report;
pub mod sharing;
pub mod tally;
pub mod terms;
pub mod wording;
