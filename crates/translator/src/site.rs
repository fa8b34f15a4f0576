//! Sites: what is known about one memory operand of one instruction.

use numalens_isa::{Access, Kind};
pub use numalens_isa::{Address, Shape};

/// One memory operand of one instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// The address of the instruction in the program.
    pub ip: u64,
    /// What one access does. A read-modify-write counts once at the site, and in both counters of the page.
    pub kind: Kind,
    /// Bytes of one access; 0 where the instruction alone does not tell (`xsave`).
    pub size: u32,
    /// How many accesses there are, and where.
    pub shape: Shape,
    /// Relative to rsp, or what `push`, `call` and the like do.
    pub stack: bool,
    /// The address, where the registers before the instruction give it.
    pub address: Address,
}

impl Site {
    pub(crate) fn new(ip: u64, access: &Access) -> Self {
        let &Access { kind, size, shape, stack, address, .. } = access;
        Site { ip, kind, size, shape, stack, address }
    }
}
