//! What a program may ask for: the numbers of `include/numalens.h`, which a test compares with these.

crate::numbered! {
    /// A request. The first six and the last four are the agent's where there is one, else the preloaded library's; the
    /// others are the library's, or of programs that load none, the agent's.
    Request: u32 {
        /// Count from here on.
        Start = 1,
        /// Count no more.
        Stop = 2,
        /// A phase begins (its name).
        Begin = 3,
        /// A phase ends (its name).
        End = 4,
        /// Something happens (its name).
        Mark = 5,
        /// Somebody else has bound threads, or moved pages.
        Moved = 6,
        /// A block of an allocator of the program's own (address, bytes).
        Alloc = 7,
        /// It is given back (address).
        Free = 8,
        /// The name of a block (address, name).
        Name = 9,
        /// The preloaded library's: a block begins (address, bytes). What was accessed there before belongs to others.
        /// Bit 63 of the address is set for blocks that the program declares, which may begin where another one does.
        /// Answered in the register of the bytes with the time: the block is reported with a later one.
        Born = 10,
        /// The same: a block is about to end (address). Answered with its bytes, or 0 where none is known; and with the
        /// time.
        Dies = 11,
        /// The same: memory is about to be unmapped or moved (address, bytes). Answered with the time.
        Leaves = 12,
        /// The same: when memory was moved by the thread's latest `mremap`. Answered with the time: what has its old
        /// place came later, and what was at its new one had gone before.
        WhenMoved = 13,
    }
}

/// Bytes of a name that are kept.
pub const MOST_NAME_BYTES: usize = 120;
