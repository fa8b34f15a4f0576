//! How machines are built.

use numalens_translator::{CacheSets, Changes, Each, Scheme};

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
    pub each: Option<Each>,
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
        each: None,
        own_processor: false,
        direct: true,
        persists: false,
    };
}

/// What can be kept of every access: nothing, which is counted out of line, each part alone, all of them.
pub const EACH: [Each; 5] = {
    let none = Each { lines: false, cache: None, words: false };
    let sets = CacheSets { sets: 64, ways: 3, line_log2: 6 };
    [
        none,
        Each { lines: true, ..none },
        Each { cache: Some(sets), ..none },
        Each { words: true, ..none },
        Each { lines: true, cache: Some(sets), words: true },
    ]
};

impl Default for Options {
    fn default() -> Self {
        Options::USUAL
    }
}
