//! The agent's own fields in the fixed part of a thread's context.

use numalens_translator::context::OWNER;

/// The top of the agent's stack.
pub const STACK: u32 = OWNER;
/// Where control goes on in the cache.
pub const NEXT: u32 = OWNER + 0x08;
/// Not 0: signals wait to be delivered.
pub const PENDING: u32 = OWNER + 0x10;
/// The [`crate::state::thread::Thread`].
pub const THREAD: u32 = OWNER + 0x18;
/// Where control would go on if no signal waited.
pub const DELIVER_AT: u32 = OWNER + 0x20;
/// The program's stack pointer while accesses are counted out of line.
pub const COUNT_STACK: u32 = OWNER + 0x28;
/// The top of the signal stack.
pub const SIGNAL_STACK: u32 = OWNER + 0x30;
/// The program's frame pointer (or whatever is in rbp) while accesses are counted out of line.
pub const COUNT_FRAME: u32 = OWNER + 0x38;
/// Where in the cache the thread went on when it last came by ...
pub const GOES_ON: u32 = OWNER + 0x40;
/// ... and the [`crate::code::arenas::Epoch`] in which that was found.
pub const EPOCH: u32 = OWNER + 0x48;
