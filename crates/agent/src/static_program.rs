//! What the preloaded library does for programs that load it, and the agent for those that load nothing: static ones.

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
    pub fn find(start: &Start) -> Option<Self> {
        let file = Mapped::program()?;
        if !executable::is_static(file.bytes()) {
            return None;
        }
        let environment = Environment::take(start.stack)?;
        let allocator = environment.channel().and_then(|channel| Allocator::find(&channel, file.bytes(), start.entry));
        Some(StaticProgram { environment, allocator })
    }
}
