//! Signals: the program's handlers see what they would see natively, at a boundary between two of its instructions.
//!
//! Problem: a signal interrupts translated code anywhere: between the counting of an access and the access, with
//! program registers in spill slots, or in the agent itself. The handler must get a frame with the program's own
//! registers and instruction pointer, on the stack where the kernel would have put it, and may change it, return from
//! it, or never return.
//!
//! Mechanism: the kernel knows one handler only, ours, on a stack of the agent's
//! ([`crate::state::thread_context::SIGNAL_STACK`]). It looks at where the thread was:
//!
//! ```text
//!   at a boundary, or before anything was counted     deliver now
//!   between counting and executing                    keep the signal, set the trap flag, step to the next boundary
//!   in a repeated string instruction                  count what is done, then deliver: it restarts with the rest
//!   at a fault of the program's own access            take back what was counted for it, then deliver
//!   in the agent                                      keep the signal, set PENDING; see crate::entry
//! ```
//! *Deliver* copies the kernel's frame, vector state included, to where the program expects it, with the program's
//! registers put in, and changes the kernel's own frame so that returning from our handler begins the program's.
//! Signals are blocked while one is kept, except those that faults raise. rt_sigreturn is a copy of the program's frame
//! again, with the instruction pointer translated, executed by the agent.

mod arrival;
mod calls;
mod delivery;
mod frame;
mod held;
mod in_cache;
mod kept;
mod kernel;
mod numbers;
mod state;
mod taken_back;

pub use arrival::arrived;
pub use calls::{action, alternate_stack, mask, pending};
pub use delivery::{handler_is_no_code, return_to, sigreturn};
pub use frame::{SigInfo, UserContext};
pub use held::block_held;
pub use kept::{bad_access, forget};
pub use kernel::{begin_thread, block_all, clear_handlers, inherit, kill_process, open, set_mask};
pub use state::{Action, Actions, AlternateStack, ThreadSignals};

/// Where the program goes on when the agent's handler returns.
pub enum Resume {
    /// Where it was interrupted.
    AsItStands,
    /// At this address of the program's.
    At(u64),
    /// At the beginning of its handler, at this address of the program's.
    InHandler(u64),
}
