//! How accesses are counted, for developers who ask why a program takes long.

/// How an access is counted, from cheap to dear.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Way {
    /// In a loop, together with all operands that advance: one comparison in each iteration.
    PageLimit = 1,
    /// In a group by its last page.
    LastPage,
    /// In a group at a constant address.
    ConstantPage,
    /// In a group by its direct page counters.
    Direct,
    /// In a group whose page is looked up whenever it is executed, as it changes too often.
    Megamorphic,
    /// In a group whose page is looked up: its code is executed seldom.
    Immediate,
    /// By itself, with its page looked up: it is in no group.
    Single,
    /// The same where flags are needed, and there is no place before it where they are not.
    SingleQuietly,
    /// Elements of vectors, and strings.
    Elements,
    /// By a call, outside of the code cache.
    Apart,
    /// By itself, with what is kept of every access: [`crate::Each`].
    Each,
}

impl Way {
    /// All of them, in order.
    pub const ALL: [Way; 11] = [
        Way::PageLimit,
        Way::LastPage,
        Way::ConstantPage,
        Way::Direct,
        Way::Megamorphic,
        Way::Immediate,
        Way::Single,
        Way::SingleQuietly,
        Way::Elements,
        Way::Apart,
        Way::Each,
    ];

    /// Whether it is counted together with others, or as they are.
    pub fn is_grouped(self) -> bool {
        (self as u32) <= Way::Immediate as u32
    }
}
