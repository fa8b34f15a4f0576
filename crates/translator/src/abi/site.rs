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

/// A group of sites that are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// How; none: looked up and counted immediately.
    pub last_page: Option<LastPageSlot>,
    /// The first of its sites.
    pub first: crate::SiteId,
    /// How many there are, one after the other.
    pub members: u32,
}

/// What counts a group that keeps to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastPageSlot {
    /// Its record.
    pub id: crate::LastPageId,
    /// The number of the execution counter that counts its accesses.
    pub executions: u32,
}

impl Site {
    /// The address of a plain operand, from the general registers before its instruction and the base of FS; none where
    /// it does not follow from those.
    pub fn effective_address(&self, registers: &[u64; 16], fs_base: u64) -> Option<u64> {
        let Address { base, index, scale, displacement, fs, gs, narrow, byte_index } = self.address;
        if self.shape != Shape::Plain || gs {
            return None;
        }
        let register = |number: Option<u8>| number.map_or(0, |number| registers[usize::from(number & 15)]);
        let index = if byte_index { register(index) & 0xff } else { register(index) };
        let offset =
            register(base).wrapping_add(index.wrapping_mul(u64::from(scale))).wrapping_add_signed(displacement);
        let offset = if narrow { offset & 0xffff_ffff } else { offset };
        Some(if fs { fs_base.wrapping_add(offset) } else { offset })
    }

    pub(crate) fn new(ip: u64, access: &Access) -> Self {
        let &Access { kind, size, shape, stack, address, .. } = access;
        Site { ip, kind, size, shape, stack, address }
    }
}
