//! Bits of the flags register that somebody sets, clears or looks at.

/// As it is with all flags clear: this bit is always set.
pub const NONE: u64 = 1 << 1;
/// The result was 0.
pub const ZERO: u64 = 1 << 6;
/// The next instruction ends with a trap.
pub const TRAP: u64 = 1 << 8;
/// Interrupts are taken: always, outside of the kernel.
pub const INTERRUPT: u64 = 1 << 9;
/// String instructions go down.
pub const DIRECTION: u64 = 1 << 10;
/// A return from an interrupt goes to another task.
pub const NESTED: u64 = 1 << 14;
/// Breakpoints of the processor are passed over once.
pub const RESUME: u64 = 1 << 16;
/// Accesses that are not aligned fault.
pub const ALIGNMENT: u64 = 1 << 18;
