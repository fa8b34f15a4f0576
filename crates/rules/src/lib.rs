//! Rules that place a program's memory and threads: plain TOML that a person reads and edits.
//!
//! ```toml
//! version = 1
//!
//! [[rule]]
//! name = "table of main"
//! allocation = { frames = ["app@3f2a91+0x11d9"], at = "serial_init.c:41", size = "1 MiB.." }
//! do = "interleave"
//! nodes = "0-3"
//! ```
//!
//! A rule has a *matcher*, which says of what it speaks ([`Matcher`]), and an *action* ([`Action`]). Rules are tried in
//! the order in which they stand; the first that matches is applied. What is in the file and nobody knows is an error:
//! a word with a slip in it must not be a rule that does nothing.

mod action;
mod error;
mod matcher;
mod raw;
mod size;
mod write;

pub use action::{Action, Nodes};
pub use error::RulesError;
pub use matcher::{Allocation, Frame, Matcher, ObjectKind};
pub use size::SizeRange;

/// The version of the format that is read and written.
pub const VERSION: u32 = 1;

/// Rules at most: each allocation may have to be compared with all of them.
pub const MOST_RULES: usize = 4096;

/// A file of rules.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rules {
    /// In the order in which they are tried.
    pub rules: Vec<Rule>,
}

/// What is done with what.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// What people call it: reports of what it did name it. No two rules have the same.
    pub name: String,
    /// Lines of comment that are written above it; none is read back.
    pub notes: Vec<String>,
    /// Of what it speaks.
    pub matcher: Matcher,
    /// What is done.
    pub action: Action,
}

impl Rules {
    /// Reads a file's text. `file`: its name, for errors.
    ///
    /// # Errors
    /// Text that is no TOML, or has keys, words or values that no rule has; the line is told.
    pub fn parse(text: &str, file: &str) -> Result<Self, RulesError> {
        raw::read(text).map_err(|slip| slip.at(text, file))
    }
}
