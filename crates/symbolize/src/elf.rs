//! The bytes of an ELF file: mapped, parsed, and their sections unpacked within bounds.
//!
//! Every file here is untrusted: it may be truncated, damaged or hostile. What `object` reads is checked by it; this
//! module adds the bounds on memory (a compressed section states its own size, which a damaged file can set to
//! anything).

use lzma_rust2::XzReader;
use memmap2::Mmap;
use numalens_profile::place::{self, Links};
use object::{CompressionFormat, Object, ObjectSection, SectionFlags, elf::SHF_EXECINSTR};
use std::borrow::Cow;
use std::fmt::Write;
use std::io::{self, Read};
use std::ops::Deref;
use std::path::{Path, PathBuf};

/// zlib cannot do better than about 1032 to 1; zstd can, but not on debug information.
const BEST_COMPRESSION: u64 = 1100;
/// The symbols-only file in `.gnu_debugdata` may unpack to this much (those of Fedora's browsers take some 10 MB).
const LARGEST_MINI_DEBUG: usize = 256 << 20;
/// Memory to unpack it with: what `xz -9` needs, and as much is taken at once whatever comes out.
const MOST_DICTIONARY_KIB: u32 = 66 << 10;

/// The content of a file, and where it came from.
pub(crate) struct Bytes {
    pub(crate) path: PathBuf,
    content: Content,
}

enum Content {
    Mapped(Mmap),
    Owned(Vec<u8>),
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.content {
            Content::Mapped(map) => map,
            Content::Owned(bytes) => bytes,
        }
    }
}

impl Bytes {
    /// Maps the regular file at `path`, without reading it.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = place::open(path, Links::Follow)?;
        if file.metadata()?.len() == 0 {
            return Ok(Self::owned(path.to_path_buf(), Vec::new()));
        }
        // SAFETY: the mapping is private and read-only, so nothing here changes it. Someone else may write to the file
        // meanwhile: the readers take every byte as untrusted and copy what they return, so that they may see wrong
        // names then (and end by SIGBUS if it is cut short at that moment). Linkers and package managers replace files
        // rather than write into them; to read whole files instead would take gigabytes for large programs.
        let map = unsafe { Mmap::map(&file)? };
        Ok(Bytes { path: path.to_path_buf(), content: Content::Mapped(map) })
    }

    /// The same of a file that is known by another path: `shown`.
    pub(crate) fn open_as(path: &Path, shown: &Path) -> io::Result<Self> {
        Ok(Bytes { path: shown.to_path_buf(), ..Self::open(path)? })
    }

    pub(crate) fn owned(path: PathBuf, content: Vec<u8>) -> Self {
        Bytes { path, content: Content::Owned(content) }
    }

    /// The file as ELF.
    ///
    /// # Errors
    /// What is wrong with it, to put behind the file's name.
    pub(crate) fn parse(&self) -> Result<object::File<'_>, String> {
        if !self.starts_with(b"\x7fELF") {
            return Err("not an ELF file".into());
        }
        object::File::parse(&**self).map_err(|error| error.to_string())
    }
}

/// Whether a section has instructions.
pub(crate) fn is_code<'data>(section: &impl ObjectSection<'data>) -> bool {
    matches!(section.flags(), SectionFlags::Elf { sh_flags, .. } if sh_flags.0 & SHF_EXECINSTR.0 != 0)
}

/// The build id of `file` in hexadecimal; empty when it has none.
pub(crate) fn build_id(file: &object::File) -> String {
    hex(file.build_id().ok().flatten().unwrap_or_default())
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        // Writing to a string cannot fail.
        let _ = write!(out, "{byte:02x}");
        out
    })
}

/// The content of the section `name`, unpacked; empty when there is none.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn section<'data>(file: &object::File<'data>, name: &str) -> Result<Cow<'data, [u8]>, String> {
    let Some(section) = file.section_by_name(name) else { return Ok(Cow::Borrowed(&[])) };
    let explain = |why: &dyn std::fmt::Display| format!("section {name}: {why}");
    let data = section.compressed_data().map_err(|error| explain(&error))?;
    let most = (data.data.len() as u64).saturating_mul(BEST_COMPRESSION);
    if data.format != CompressionFormat::None && data.uncompressed_size > most {
        return Err(explain(&"states a size that it cannot unpack to"));
    }
    data.decompress().map_err(|error| explain(&error))
}

/// Whether the file has DWARF of its own, not only the headers of sections that were taken out.
pub(crate) fn has_debug_info(file: &object::File) -> bool {
    let filled = |name| file.section_by_name(name).is_some_and(|s| s.file_range().is_some_and(|(_, size)| size > 0));
    filled(".debug_info") || filled(".zdebug_info")
}

/// The file of symbols that distributions embed in stripped binaries (`.gnu_debugdata`, xz), if there is one.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn mini_debug(bytes: &Bytes, file: &object::File) -> Result<Option<Bytes>, String> {
    let packed = section(file, ".gnu_debugdata")?;
    if packed.is_empty() {
        return Ok(None);
    }
    let unpacked = unpack_xz(&packed).map_err(|error| format!("section .gnu_debugdata: {error}"))?;
    Ok(Some(Bytes::owned(bytes.path.clone(), unpacked)))
}

/// What an xz stream holds, in bounded memory.
fn unpack_xz(packed: &[u8]) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    let reader = XzReader::new_mem_limit(packed, false, MOST_DICTIONARY_KIB);
    reader.take(LARGEST_MINI_DEBUG as u64 + 1).read_to_end(&mut out)?;
    if out.len() > LARGEST_MINI_DEBUG {
        return Err(io::Error::other("unpacks to more than any such section holds"));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "some symbols" by `xz -9`, as distributions make it.
    const PACKED: &[u8] = &[
        0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00, 0x00, 0x04, 0xe6, 0xd6, 0xb4, 0x46, 0x02, 0x00, 0x21, 0x01, 0x1c, 0x00,
        0x00, 0x00, 0x10, 0xcf, 0x58, 0xcc, 0x01, 0x00, 0x0b, 0x73, 0x6f, 0x6d, 0x65, 0x20, 0x73, 0x79, 0x6d, 0x62,
        0x6f, 0x6c, 0x73, 0x00, 0x3a, 0x40, 0xdd, 0xcf, 0xf1, 0xd6, 0x86, 0xaa, 0x00, 0x01, 0x24, 0x0c, 0xa6, 0x18,
        0xd8, 0xd8, 0x1f, 0xb6, 0xf3, 0x7d, 0x01, 0x00, 0x00, 0x00, 0x00, 0x04, 0x59, 0x5a,
    ];

    #[test]
    fn damaged_streams_are_errors() {
        assert_eq!(unpack_xz(PACKED).unwrap(), b"some symbols");
        for at in 0..PACKED.len() {
            for bit in 0..8 {
                let mut damaged = PACKED.to_vec();
                damaged[at] ^= 1 << bit;
                // Every byte is checked by a sum, but what stands after the stream is not looked at.
                assert!(unpack_xz(&damaged).map_or(true, |out| out == b"some symbols"), "{at} {bit}");
            }
            assert!(unpack_xz(&PACKED[..at]).map_or(true, |out| out == b"some symbols"), "{at}");
        }
    }

    #[test]
    fn a_stream_that_asks_for_gigabytes_is_refused() {
        // The size of the dictionary stands in the block's header, in front of its sum: that of 4 GiB.
        let mut greedy = PACKED.to_vec();
        greedy[16] = 40;
        let sum = crc32fast::hash(&greedy[12..20]);
        greedy[20..24].copy_from_slice(&sum.to_le_bytes());
        let error = unpack_xz(&greedy).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory, "{error}");
    }
}
