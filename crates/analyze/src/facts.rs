//! Facts: tables of a profile, each folded to the sums that analyses ask for, and what follows from them alone.
//! Knows neither the loaded dataset nor a section.

pub mod ancestry;
pub mod cache_lines;
pub mod cache_misses;
pub mod call_stacks;
pub mod code;
pub mod code_fetches;
pub mod contended_lines;
pub mod counter_polls;
pub mod divided;
pub mod filter;
pub mod first_accesses;
pub mod fold;
pub mod handed_on;
pub mod imported_totals;
pub mod line_objects;
pub mod node_occupancy;
pub mod node_timeline;
pub mod objects;
pub mod page_sums;
pub mod page_use;
pub mod placed;
pub mod placement_targets;
pub mod policies;
pub mod runtime;
pub mod shared_use;
pub mod sites;
pub mod slots;
pub mod sorted;
pub mod sorted_sums;
pub mod totals;
pub mod usage;
pub mod waiting;
pub mod working_sets;
pub mod wrappers;
