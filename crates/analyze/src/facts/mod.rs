//! Facts: tables of a profile, each folded to the sums that analyses ask for, and what follows from them alone.
//! Knows neither the loaded dataset nor a section.

pub mod ancestry;
pub mod cache_lines;
pub mod cache_misses;
pub mod code;
pub mod divided;
pub mod filter;
pub mod flows;
pub mod folds;
pub mod handed_on;
pub mod looks;
pub mod margins;
pub mod moments;
pub mod page_sums;
pub mod placed;
pub mod policies;
pub mod runtime;
pub mod seats;
pub mod shared_use;
pub mod slots;
pub mod sorted;
pub mod sorted_sums;
pub mod subjects;
pub mod usage;
pub mod waiting;
pub mod working_sets;
pub mod wrappers;
