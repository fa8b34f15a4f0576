//! Descriptors: constants in the cold half of a fragment, which routines in assembly read. Offsets in bytes.

/// What the settling routine must know of a group, in the cold half beside its stub.
pub(crate) mod group {
    /// Where control goes on (64 bits): what descriptors of other routines begin with as well.
    pub const BACK: u32 = 0;
    /// Offsets from GS: of the record (or of the header of the direct table), of the executions, of the group's row of
    /// site counters, of its first member's (32 bits each).
    pub const RECORD: u32 = 8;
    pub const EXECUTIONS: u32 = 12;
    pub const ROW: u32 = 16;
    pub const FIRST_ROW: u32 = 20;
    /// The first of the members' sites (32 bits).
    pub const SITE: u32 = 24;
    /// Bytes from the lowest operand to the highest (16 bits).
    pub const SPAN: u32 = 28;
    /// How many members read, write, are (8 bits each).
    pub const READS: u32 = 30;
    pub const WRITES: u32 = 31;
    pub const MEMBERS: u32 = 32;
    /// 1: at a constant address (8 bits).
    pub const CONSTANT: u32 = 33;
    /// For each member 16 bits: its kind in two, and its offset from the lowest operand.
    pub const OFFSETS: u32 = 34;
}

/// What [`super::routines::count_elements`] must know, in the cold half, behind [`group::BACK`].
pub(crate) mod elements {
    /// What is counted, among the counters of a page: reads, or writes, which are 8 bytes further (64 bits).
    pub const COUNTER: u32 = 8;
    /// Offset from GS of the site's row of counters; the [`crate::count::What`] and the site for who asks (32 bits
    /// each).
    pub const ROW: u32 = 16;
    pub const WHAT: u32 = 20;
    pub const SITE: u32 = 24;
    /// The least lower half of a page's word that may be counted in (32 bits).
    pub const LEAST: u32 = 28;
    /// A bit for each element that there is (16 bits).
    pub const LANES: u32 = 32;
    /// log2 of the scale; 1: indices have 64 bits (8 bits each).
    pub const SCALE: u32 = 34;
    pub const WIDE: u32 = 35;
}

/// What [`super::routines::count_string`] must know, in the cold half, behind [`group::BACK`].
pub(crate) mod string {
    /// Offsets from GS of the rows of the sites of source and destination; 0: there is none (32 bits each).
    pub const SOURCE: u32 = 8;
    pub const DESTINATION: u32 = 12;
    /// log2 of the bytes of an element (8 bits).
    pub const SIZE: u32 = 16;
}
