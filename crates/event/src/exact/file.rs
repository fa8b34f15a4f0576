//! Where the parts of the file stand.

use super::commons::Commons;

/// First word of the file: "numaexct", little endian.
pub const MAGIC: u64 = 0x7463_7865_616d_756e;
/// Version of everything in [`super`].
pub const VERSION: u32 = 21;
/// Bytes of the whole file: sparse.
pub const FILE_BYTES: u64 = 1 << 62;
/// Where the [`super::Placement`] stands.
pub const PLACEMENT_OFFSET: u64 = 1 << 14;
/// Where the agent's image begins.
pub const IMAGE_OFFSET: u64 = 4 << 20;
/// Most bytes of the image.
pub const MOST_IMAGE_BYTES: u64 = 64 << 20;
/// Where stands what threads begin with in their own memory ([`super::thread::SITES_FROM_GS`] bytes), which they map
/// copy-on-write: see [`super::SessionHeader::pattern`].
pub const PATTERN_OFFSET: u64 = 1 << 29;
/// Where pages stand that processes have in common, the agents', and behind them a [`Commons`].
pub const COMMON_OFFSET: u64 = 1 << 32;
/// Words of that table.
pub const COMMON_ENTRIES: usize = 1 << 25;
/// Bytes of both.
pub const COMMON_BYTES: u64 = COMMONS_AT + size_of::<Commons>() as u64;
/// Where the [`Commons`] stands, from [`COMMON_OFFSET`] on.
pub const COMMONS_AT: u64 = COMMON_ENTRIES as u64 * 8;
/// Where the directory begins.
pub const DIRECTORY_OFFSET: u64 = 1 << 30;
/// Bytes of an extent.
pub const EXTENT_BYTES: u64 = 1 << 40;
/// Most extents of a file.
pub const MOST_EXTENTS: u32 = 1 << 21;
