//! What the preloaded library does for programs that load it, and the agent for those that do not load it: static ones,
//! and sanitizers.

pub mod environment;
pub mod executable;

use crate::allocator::Allocator;
use alloc::boxed::Box;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::{Acquire, Release};
use environment::Environment;
use executable::Mapped;

/// A program that is complete in itself.
pub struct StaticProgram {
    /// What is hidden of its environment.
    pub environment: Environment,
    /// Its own allocator, where that has symbols.
    pub allocator: Option<Allocator>,
}

/// The program of this process, if it is one.
static PROGRAM: AtomicPtr<StaticProgram> = AtomicPtr::new(core::ptr::null_mut());

/// The program of this process is one.
pub fn set(program: StaticProgram) {
    PROGRAM.store(Box::leak(Box::new(program)), Release);
}

/// The program of this process, if it is one.
pub fn get() -> Option<&'static StaticProgram> {
    // SAFETY: null, or leaked by `set` and only read since.
    unsafe { PROGRAM.load(Acquire).as_ref() }
}

/// The program's own allocator, where no preloaded library sees what it does.
pub fn allocator() -> Option<&'static Allocator> {
    get()?.allocator.as_ref()
}

impl StaticProgram {
    /// The program of this file that is about to begin at `entry` with the first stack `stack`, if it is one, and if it
    /// was started with the preloaded library's variables. One with the runtime of a sanitizer counts as such: that
    /// wants to be loaded before all other libraries, and has its own allocator. Its heap is one object.
    pub fn find(stack: u64, entry: u64, file: &Mapped) -> Option<Self> {
        if executable::has_sanitizer(file.bytes()) {
            return Some(StaticProgram { environment: Environment::take(stack)?, allocator: None });
        }
        if !executable::is_static(file.bytes()) {
            return None;
        }
        let environment = Environment::take(stack)?;
        let allocator = environment.channel().and_then(|channel| Allocator::find(&channel, file.bytes(), entry));
        Some(StaticProgram { environment, allocator })
    }
}
