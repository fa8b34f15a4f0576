//! What the owner of the shadow table is asked about accesses.

use crate::{PageEntry, SiteId};
use numalens_isa::Kind;

/// Accesses of one site within one page, or, with [`crate::Config::each`], one line of [`LINE`] bytes: as far as they
/// begin there. They lie side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Whose.
    pub site: SiteId,
    /// What each of them does.
    pub kind: Kind,
    /// The lowest of their addresses.
    pub address: u64,
    /// Bytes of each; 0: unknown. Only with [`crate::Config::each`].
    pub size: u32,
    /// How many.
    pub count: u64,
    /// They have been executed already: those of a repeated string instruction.
    pub done: bool,
}

impl Run {
    /// Whether it is an access that was counted and did not happen: `count` is -1, modulo 2^64.
    pub fn is_taken_back(&self) -> bool {
        self.count > i64::MAX as u64
    }
}

/// The owner of the shadow table.
pub trait Pages {
    /// The entry to count `run` with, or `None` when the owner counts it itself, now or later, or knows that it cannot
    /// succeed.
    fn entry(&mut self, run: &Run) -> Option<PageEntry>;

    /// A repeated string instruction is about to write `run`, upwards or downwards as the direction flag has it; how
    /// much of it, it may find out on the way.
    fn before_string_write(&mut self, run: &Run) {
        let _ = run;
    }

    /// The word of the program's memory at an address, if it can be read.
    fn peek(&mut self, address: u64) -> Option<u64> {
        let _ = address;
        None
    }

    /// The program has come to an address of which this word is wanted ([`crate::Watch::Pointee`]).
    fn probed(&mut self, word: u64) {
        let _ = word;
    }

    /// `run` was counted with `entry`. With [`crate::Config::each`] only.
    fn counted(&mut self, run: &Run, entry: PageEntry) {
        let _ = (run, entry);
    }
}

/// Bytes of the lines that [`Run`]s do not leave with [`crate::Config::each`].
pub const LINE: u64 = 64;
