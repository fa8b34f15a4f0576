//! Why there is no translation.

use crate::ExitId;
use core::fmt;

/// Why there is no translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The program jumped to where there is no code that can be read: the instruction would fault at `ip` with this
    /// address.
    Unreadable {
        /// The address of the first instruction of the fragment.
        ip: u64,
        /// The first byte that is missing.
        at: u64,
    },
    /// [`crate::Env::room`] had none.
    NoRoom {
        /// The address of the fragment.
        ip: u64,
    },
    /// An operand or a jump cannot reach its target from the room that [`crate::Env::room`] gave: it lies too far from
    /// the code.
    OutOfReach {
        /// The instruction.
        ip: u64,
        /// What it must reach.
        target: u64,
    },
    /// The site's counters would lie beyond 2 GiB from GS, or two billion exits have been used up.
    TooMany,
    /// There is no such exit: its fragment was evicted while a thread was inside, or the number is made up.
    NoExit(ExitId),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Unreadable { ip, at } => write!(f, "no code at {at:#x}, wanted for the block at {ip:#x}"),
            Error::NoRoom { ip } => write!(f, "no room in the code cache near {ip:#x}"),
            Error::OutOfReach { ip, target } => {
                write!(f, "the code cache near {ip:#x} is more than 2 GiB away from {target:#x}")
            }
            Error::NoExit(id) => write!(f, "exit {} of the code cache is not there any more", id.0),
            Error::TooMany => write!(f, "too many sites or exits for the tables"),
        }
    }
}
