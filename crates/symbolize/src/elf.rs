//! The bytes of an ELF file: mapped, parsed, and their sections unpacked within bounds.
//!
//! Every file here is untrusted: it may be truncated, damaged or hostile. What `object` reads is checked by it; this
//! module adds the bounds on memory (a compressed section states its own size, which a damaged file can set to
//! anything).

use memmap2::Mmap;
use object::{CompressionFormat, Object, ObjectSection};
use std::borrow::Cow;
use std::fmt::Write;
use std::fs::File;
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};

/// zlib cannot do better than about 1032 to 1; zstd can, but not on debug information.
const BEST_COMPRESSION: u64 = 1100;
/// The symbols-only file in `.gnu_debugdata` may unpack to this much (those of Fedora's browsers take some 10 MB).
const LARGEST_MINI_DEBUG: usize = 256 << 20;

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
        // Asked for before opening: to open a pipe or a device can block or act.
        let kind = std::fs::metadata(path)?;
        if !kind.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        if kind.len() == 0 {
            return Ok(Self::owned(path.to_path_buf(), Vec::new()));
        }
        let file = File::open(path)?;
        // SAFETY: the mapping is private and read-only, so nothing here changes it. Someone else may write to the file
        // meanwhile: the readers take every byte as untrusted and copy what they return, so that they may see wrong
        // names then (and end by SIGBUS if it is cut short at that moment). Linkers and package managers replace files
        // rather than write into them; to read whole files instead would take gigabytes for large programs.
        let map = unsafe { Mmap::map(&file)? };
        Ok(Bytes { path: path.to_path_buf(), content: Content::Mapped(map) })
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
    let mut out = BoundedBuffer(Vec::new());
    lzma_rs::xz_decompress(&mut &*packed, &mut out).map_err(|error| format!("section .gnu_debugdata: {error:?}"))?;
    Ok(Some(Bytes::owned(bytes.path.clone(), out.0)))
}

struct BoundedBuffer(Vec<u8>);

impl io::Write for BoundedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > LARGEST_MINI_DEBUG {
            return Err(io::Error::other("unpacks to more than any such section holds"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
