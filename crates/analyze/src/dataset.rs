//! A profile as analyses read it: loaded once, kept for the next question. Knows no section.

pub mod caveats;
pub mod clusters;
pub mod load;
pub mod shelf;
pub mod source;
pub mod study;
pub mod usages;
