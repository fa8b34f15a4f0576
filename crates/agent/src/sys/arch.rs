//! What `arch_prctl` is asked for (asm/prctl.h): the base registers of segments, and whether `cpuid` faults.

/// Sets the base of GS.
pub const SET_GS: u64 = 0x1001;
/// Sets the base of FS.
pub const SET_FS: u64 = 0x1002;
/// Tells the base of FS.
pub const GET_FS: u64 = 0x1003;
/// Tells the base of GS.
pub const GET_GS: u64 = 0x1004;
/// Has `cpuid` fault.
pub const SET_CPUID: u64 = 0x1012;
