//! What the preloaded library does for programs that load it, and the agent for those that do not load it: static ones,
//! and sanitizers.

pub mod environment;
pub mod executable;

use crate::allocator::Allocator;
use crate::boot::Start;
use environment::Environment;
use executable::Mapped;

/// A program that is complete in itself.
pub struct StaticProgram {
    /// What is hidden of its environment.
    pub environment: Environment,
    /// Its own allocator, where that has symbols.
    pub allocator: Option<Allocator>,
}

impl StaticProgram {
    /// The program that is about to begin, if it is one, and if it was started with the preloaded library's variables.
    /// One with the runtime of a sanitizer counts as such: that wants to be loaded before all other libraries, and has
    /// its own allocator. Its heap is one object.
    pub fn find(start: &Start, file: &Mapped) -> Option<Self> {
        if executable::has_sanitizer(file.bytes()) {
            return Some(StaticProgram { environment: Environment::take(start.stack)?, allocator: None });
        }
        if !executable::is_static(file.bytes()) {
            return None;
        }
        let environment = Environment::take(start.stack)?;
        let allocator = environment.channel().and_then(|channel| Allocator::find(&channel, file.bytes(), start.entry));
        Some(StaticProgram { environment, allocator })
    }
}
