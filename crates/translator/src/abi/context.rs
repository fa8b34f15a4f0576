//! The context of a thread: where GS points while translated code runs. Offsets in bytes.
//!
//! The first page is what this module names; the tables follow at offsets that [`crate::Config`] gives.

/// The address of the context itself.
pub const SELF: u32 = 0x00;
/// Code pointer. Entered by `jmp` with an [`crate::ExitId`] in eax; the program's rax stands in [`REGISTERS`]`[0]`,
/// every other register and the flags are the program's.
pub const DISPATCH: u32 = 0x08;
/// Code pointer. Entered by `jmp` with the program's target in rax; the program's rax and rcx stand in
/// [`REGISTERS`]`[0..2]`, every other register and the flags are the program's.
pub const LOOKUP_MISS: u32 = 0x10;
/// Code pointer. Entered by `jmp`; every register and flag must be as it was when control goes on at [`COUNT_RETURN`].
pub const COUNT: u32 = 0x18;
/// Must hold the address of the shadow table divided by 8.
pub const SHADOW_BASE: u32 = 0x30;
/// Sixteen general registers of the program in the order of the encoding (rax rcx rdx rbx rsp rbp rsi rdi r8..r15).
/// Generated code writes rax and rcx on its way out, and reads them after a landing; the rest is for who saves the
/// context.
pub const REGISTERS: u32 = 0x80;
/// For who saves the context.
pub const FLAGS: u32 = 0x100;
/// Sixteen slots in which generated code keeps the program's registers while it uses them: [`crate::State::spilled`].
pub const SPILL: u32 = 0x180;
/// What to count: a [`crate::count::What`].
pub const COUNT_WHAT: u32 = 0x200;
/// The sites to count for: two 32-bit numbers, the second only for string instructions with two operands.
pub const COUNT_SITES: u32 = 0x208;
/// The address in the cache where control goes on after counting.
pub const COUNT_RETURN: u32 = 0x210;
/// Four 64-bit arguments, see [`crate::count`].
pub const COUNT_ARGUMENTS: u32 = 0x218;
/// The index vector of a gather or scatter, up to 64 bytes.
pub const COUNT_VECTOR: u32 = 0x240;
/// rcx, rsi, rdi as they were before a repeated string instruction.
pub const STRING_BEFORE: u32 = 0x280;
/// Code pointer: must hold the address of [`crate::settle_last_page`].
pub const SETTLE: u32 = 0x2a0;
/// The base of FS of the thread. The owner sets it at the start and whenever a system call changes it; generated code
/// does where an instruction does.
pub const FS_BASE: u32 = 0x2a8;
/// Constant for generated code: must hold [`crate::Config::last_pages`].
pub const LAST_PAGES: u32 = 0x2b0;
/// Constant for generated code: must hold [`crate::Config::touched`].
pub const TOUCHED: u32 = 0x2b8;
/// Constant for generated code: must hold [`crate::Config::read_only`].
pub const READ_ONLY: u32 = 0x2c0;
/// Where [`crate::settle_last_page`] keeps the program's registers.
pub const SETTLE_SAVED: u32 = 0x2c8;
/// Code pointer. Entered with the program's target of a return in [`RETURN_IP`]; every register and flag is the
/// program's.
pub const RETURN_MISS: u32 = 0x300;
/// Code pointer: must hold the address of [`crate::take_return`].
pub const RETURN: u32 = 0x338;
/// The program's target of the return that is under way.
pub const RETURN_IP: u32 = 0x320;
/// Not 0: the thread is in a system call that it makes in the cache. Whoever lets it sets this; generated code sets it
/// to 0 behind the call.
pub const CALLING: u32 = 0x328;
/// With [`crate::Config::own_processor`]: the CPU that the program is told to be on, and its node above 12 bits (32
/// bits).
pub const PROCESSOR: u32 = 0x330;
/// Code pointer: must hold the address of [`crate::count_group`].
pub const COUNT_GROUP: u32 = 0x310;
/// Code pointer: must hold the address of [`crate::count_elements`].
pub const COUNT_ELEMENTS: u32 = 0x340;
/// Code pointer: must hold the address of [`crate::count_string`].
pub const COUNT_STRING: u32 = 0x348;
/// Code pointer: must hold the address of [`crate::count_direct`].
pub const COUNT_DIRECT: u32 = 0x350;
/// Direct tables below this number have begun in the thread, at some time; set by [`crate::count::settle`].
pub const DIRECT_IN_USE: u32 = 0x358;
/// The address of a word that is not 0 where there is something that the owner wants to hear of behind a system
/// call.
pub const NEWS: u32 = 0x360;
/// The table of return addresses: `1 << RETURNS_BITS` code pointers, which must start as copies of [`RETURN_MISS`]; and
/// for each of them 32 bits of what an address has beside its place there, see [`crate::Config::return_tag`].
pub const RETURNS: u32 = 0x40_0000;
/// See [`RETURNS`].
pub const RETURN_TAGS: u32 = 0x38_0000;
/// As many as `movzx` takes, which leaves the flags alone.
pub const RETURNS_BITS: u8 = 16;
/// With [`crate::Each::lines`], of the thread: where the record of 64 lines (64 bytes each) of the page would be whose
/// counters are at GS.
pub const LINE_COUNTS: u32 = 0x368;
/// And the turns of its lines, of 16 bytes.
pub const LINE_TURNS: u32 = 0x370;
/// What turns call the thread: 32 bits.
pub const LINE_THREAD: u32 = 0x378;
/// With [`crate::Each::cache`]: the address of the sets, [`crate::CacheSets`].
pub const CACHE_SETS: u32 = 0x380;
/// With [`crate::Each::words`], of the thread: as for [`LINE_COUNTS`], of 8 bytes for each of 1024 words.
pub const WORD_COUNTS: u32 = 0x388;
/// The address of the counters of misses, in the order of those of sites.
pub const CACHE_MISSES: u32 = 0x390;
/// And where those of the page would be whose counters are at GS.
pub const CACHE_PAGE_MISSES: u32 = 0x398;
/// The sites of the latest accesses that were looked up in place: [`cache_latest`].
pub const CACHE_LATEST: u32 = 0x3a0;
/// How many these are.
pub const MOST_CACHE_LATEST: u32 = 4;
/// Beside a site there: it has missed.
pub const CACHE_MISSED: u32 = 1 << 31;
/// From here to [`END`] for the owner of the context: generated code does not touch it.
pub const OWNER: u32 = 0x400;
/// The end of the fixed part.
pub const END: u32 = numalens_isa::PAGE as u32;

/// With [`crate::Each::lines`]: [`crate::line_masks`].
pub const LINE_MASKS: u32 = 0x3c_0000;

/// Where the site stands of the latest access that was looked up in the cache in place, of all that were the one with
/// this number in their instruction.
pub const fn cache_latest(number: u8) -> u32 {
    CACHE_LATEST + 4 * (number as u32 % MOST_CACHE_LATEST)
}

/// The slot of a register in [`REGISTERS`].
pub const fn register(number: u8) -> u32 {
    REGISTERS + 8 * number as u32
}

/// The slot of a register in [`SPILL`].
pub const fn spill(number: u8) -> u32 {
    SPILL + 8 * number as u32
}
