//! The end of a program that the agent cannot observe any more.

use crate::say;
use crate::state::session_file::ProcessMemory;
use crate::sys;
use core::fmt::{Arguments, Write};
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use numalens_event::exact::ProcessHeader;

/// The exit status of a program that the agent cannot observe, or not any more.
pub const FAILED: i32 = 125;

/// The header of the process, which has the same address in its forked children.
static HEADER: AtomicPtr<ProcessHeader> = AtomicPtr::new(core::ptr::null_mut());

/// From here on the collector is told why the agent gave up.
pub fn tell(memory: &ProcessMemory) {
    HEADER.store((&raw const *memory.header()).cast_mut(), Release);
}

/// Ends the program because the agent cannot go on.
pub fn give_up(why: Arguments<'_>) -> ! {
    let mut line = sys::Line::new();
    let _ = write!(line, "{why}");
    // SAFETY: null, or the header, which is mapped for ever and made of atomics.
    if let Some(header) = unsafe { HEADER.load(Acquire).as_ref() } {
        for (to, &byte) in header.failure.iter().zip(line.text()) {
            to.store(byte, Relaxed);
        }
    }
    say!("numalens: {why}");
    sys::exit_group(FAILED)
}
