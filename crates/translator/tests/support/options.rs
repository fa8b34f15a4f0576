//! How machines are built.

use numalens_translator::{Changes, Scheme};

/// All ways to count.
pub const SCHEMES: [Scheme; 4] = [Scheme::LastPage, Scheme::Loops, Scheme::LongLoops, Scheme::Flat];

/// How to build a machine.
#[derive(Clone, Copy)]
pub struct Options {
    pub low_shadow: bool,
    pub changes: Changes,
    pub instructions: usize,
    pub side_exits: usize,
    pub stack: bool,
    pub scheme: Scheme,
    pub each: bool,
    pub own_processor: bool,
    pub direct: bool,
    pub persists: bool,
}

impl Options {
    /// What most tests want.
    pub const USUAL: Options = Options {
        low_shadow: true,
        changes: Changes::Never,
        instructions: 64,
        side_exits: 4,
        stack: true,
        scheme: Scheme::LastPage,
        each: false,
        own_processor: false,
        direct: true,
        persists: false,
    };
}

impl Default for Options {
    fn default() -> Self {
        Options::USUAL
    }
}
