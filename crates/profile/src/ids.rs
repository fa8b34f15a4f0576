//! Typed ids: a thread cannot be mistaken for a site. All are dense indexes, unique within one profile.

use std::fmt;
use std::ops::Range;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident($int:ty);)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        pub struct $name(pub $int);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

ids! {
    /// A process of the recording; row `process` of [`crate::tables::Process`]. Not the kernel's pid, which may be
    /// reused.
    ProcessId(u32);
    /// A thread of the recording, unique over all its processes. Not the kernel's tid, which may be reused.
    ThreadId(u32);
    /// A machine instruction: module and address in it.
    SiteId(u32);
    /// A call stack: a node of the tree in [`crate::tables::Stack`].
    StackId(u32);
    /// A file (or an anonymous region) that code was loaded from.
    ModuleId(u32);
    /// A function of a module.
    FunctionId(u32);
    /// A row of [`crate::tables::Object`].
    ObjectId(u32);
    /// A page number: virtual address / 4096, whatever the size of the page that maps it.
    Page(u64);
    /// A time bin, counted from the start of the recording; its width stands in `meta` (`bin_ns`).
    Bin(u32);
}

/// log2 of the unit in which [`Page`] counts, 4 KiB.
pub const PAGE_SHIFT: u32 = 12;

impl Page {
    /// The unit.
    pub const BYTES: u64 = 1 << PAGE_SHIFT;

    /// The page that holds `address`.
    pub fn of(address: u64) -> Self {
        Page(address >> PAGE_SHIFT)
    }

    /// The first page that begins at `end` or behind it: where pages end that hold a range up to there.
    pub fn behind(end: u64) -> Self {
        Page::of(end.saturating_add(Self::BYTES - 1))
    }

    /// The page's first address.
    pub fn address(self) -> u64 {
        self.0 << PAGE_SHIFT
    }

    /// The page's addresses.
    pub fn addresses(self) -> Range<u64> {
        self.address()..self.address() + Self::BYTES
    }
}
