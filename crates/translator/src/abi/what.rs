//! How generated code describes accesses that are counted out of line, and asks to be translated again.

use crate::SiteId;
use numalens_isa::Kind;

/// What the operands in the context mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Operation {
    /// One access.
    One = 0,
    /// The elements that a repeated string instruction has done.
    String = 1,
    /// One access at the first active element.
    FirstActive = 2,
    /// One access at the address if any element is active.
    AnyActive = 3,
    /// One access per active element, each at its own index.
    Elements = 4,
    /// One access at the address plus the bit number.
    Bits = 5,
    /// One access of each member of a group; the descriptor says what they do.
    Group = 6,
    /// The fragment of the site's group is to be translated again, and there is nothing to count; or, with
    /// [`RetranslateReason::Direct`], its direct table is to be looked at, and the arguments are those of
    /// [`Operation::Group`] but for the third: the number of a counter, plus 1, or 0. The second site is the number of
    /// a [`RetranslateReason`].
    Again = 7,
    /// One access for each row of a tile; the lanes are the tile's number.
    Tile = 8,
    /// An access in each page that an image of the processor's state reaches into; the lanes are the number of an
    /// [`numalens_isa::ImageForm`].
    Image = 9,
    /// No access: a word for whoever watches the address ([`crate::Watch::Pointee`]).
    Probe = 10,
}

/// Why a fragment is to be translated again: see [`crate::Cache::retranslate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum RetranslateReason {
    /// The group changes its page too often.
    Page = 0,
    /// The loop has too few iterations.
    ShortLoop = 1,
    /// The group is megamorphic, and the class of its pages changes too often as well.
    Class = 2,
    /// The loop has had many iterations: see `counting/tier_up.rs`.
    LongLoop = 3,
    /// The direct table of the group must be looked at; or it has none any more, as it does not pay.
    Direct = 4,
}

/// A description of accesses, packed in 31 bits so that it is an immediate operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct What {
    /// How the arguments are to be read.
    pub operation: Operation,
    /// What each access does.
    pub kind: Kind,
    /// Bytes of one element, a power of two up to 64.
    pub size: u8,
    /// Elements of a mask, or of a gather: 1 to 64; the number of a tile, or of an [`numalens_isa::ImageForm`]. Of one
    /// access: how many times `size` it has, up to 127.
    pub lanes: u8,
    /// Bytes of an index: 4 or 8; of a bit number: 2, 4, 8.
    pub index_size: u8,
    /// Scale of an index.
    pub scale: u8,
    /// Addresses are modulo 2^32.
    pub narrow: bool,
    /// A string instruction reads at rsi, by the first site.
    pub source: bool,
    /// A string instruction does `kind` at rdi, by the second site, or the first when there is no source.
    pub destination: bool,
    /// The source of a string instruction is relative to FS.
    pub has_fs: bool,
    /// A string instruction is about to begin: see [`crate::count::Pages::before_string_write`].
    pub before: bool,
}

pub(crate) const KINDS: [Kind; 3] = [Kind::Read, Kind::Write, Kind::ReadWrite];
const OPERATIONS: [Operation; 11] = [
    Operation::One,
    Operation::String,
    Operation::FirstActive,
    Operation::AnyActive,
    Operation::Elements,
    Operation::Bits,
    Operation::Group,
    Operation::Again,
    Operation::Tile,
    Operation::Image,
    Operation::Probe,
];

impl What {
    /// One access of `kind`.
    pub fn one(kind: Kind) -> What {
        What {
            operation: Operation::One,
            kind,
            size: 1,
            lanes: 1,
            index_size: 1,
            scale: 1,
            narrow: false,
            source: false,
            destination: false,
            has_fs: false,
            before: false,
        }
    }

    /// One access of `kind` and so many bytes; 0: unknown.
    pub fn sized(kind: Kind, bytes: u32) -> What {
        let shift = bytes.trailing_zeros().min(6);
        What { size: 1 << shift, lanes: (bytes >> shift).min(127) as u8, ..What::one(kind) }
    }

    /// For an immediate operand.
    pub fn pack(self) -> i32 {
        (self.operation as i32 & 7)
            | (self.operation as i32 >> 3) << 24
            | i32::from(kind_bits(self.kind)) << 3
            | (self.size.trailing_zeros() as i32) << 5
            | i32::from(self.lanes) << 8
            | (self.index_size.trailing_zeros() as i32) << 15
            | (self.scale.trailing_zeros() as i32) << 17
            | i32::from(self.narrow) << 19
            | i32::from(self.source) << 20
            | i32::from(self.destination) << 21
            | i32::from(self.has_fs) << 22
            | i32::from(self.before) << 23
    }

    /// The inverse of [`What::pack`]; `None` for what it cannot have made.
    pub fn unpack(packed: u64) -> Option<What> {
        let bits = |from: u32, count: u32| packed >> from & ((1 << count) - 1);
        Some(What {
            operation: *OPERATIONS.get((bits(0, 3) | bits(24, 1) << 3) as usize)?,
            kind: *KINDS.get(bits(3, 2) as usize)?,
            size: 1 << bits(5, 3),
            lanes: bits(8, 7) as u8,
            index_size: 1 << bits(15, 2),
            scale: 1 << bits(17, 2),
            narrow: bits(19, 1) == 1,
            source: bits(20, 1) == 1,
            destination: bits(21, 1) == 1,
            has_fs: bits(22, 1) == 1,
            before: bits(23, 1) == 1,
        })
    }
}

pub(crate) fn kind_bits(kind: Kind) -> u16 {
    match kind {
        Kind::Read => 0,
        Kind::Write => 1,
        Kind::ReadWrite => 2,
    }
}

/// A fragment would be better translated in another manner: for [`crate::Cache::retranslate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retranslation {
    /// The address in the cache where the group's fragment goes on.
    pub(crate) at: u64,
    /// The first of its sites.
    pub(crate) site: SiteId,
    pub(crate) why: RetranslateReason,
}
