//! A file of code: an executable or a library, as the loader maps it.

use crate::exact::file::vdso;
use numalens_translator::persist::{ProgramCode, file_key};
use object::Endianness;
use object::elf::{ET_EXEC, FileHeader64, PF_X, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Files that are larger are translated by whoever executes them.
const MOST_BYTES: u64 = 1 << 30;

/// Code of a file, and where it stands in memory.
struct Piece {
    /// Its address as the file has it.
    address: u64,
    /// Where in the file.
    offset: u64,
    bytes: Vec<u8>,
}

/// The code of a file.
pub struct FileCode {
    pieces: Vec<Piece>,
    /// It is for one place.
    pub is_fixed: bool,
}

impl FileCode {
    /// That of the file at `path`, if it still is the one with this key.
    pub fn read(path: &Path, key: u64) -> Option<FileCode> {
        let mut file = File::open(path).ok()?;
        let found = file.metadata().ok()?;
        let times = [found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()].map(|time| time as u64);
        let [modified, modified_ns, changed, changed_ns] = times;
        let of = [found.dev(), found.ino(), found.size(), modified, modified_ns, changed, changed_ns];
        if !found.is_file() || found.size() > MOST_BYTES || file_key(of) != key {
            return None;
        }
        let mut bytes = Vec::with_capacity(found.size() as usize);
        file.by_ref().take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
        FileCode::parse(&bytes)
    }

    /// The kernel's, without the function that is not translated, by its offset.
    pub fn kernel(left_out: Option<u64>) -> Option<FileCode> {
        let mut code = FileCode::parse(vdso()?)?;
        let Some(left_out) = left_out else { return Some(code) };
        let holds = |piece: &Piece| (piece.offset..piece.offset + piece.bytes.len() as u64).contains(&left_out);
        if let Some(at) = code.pieces.iter().position(holds) {
            let before = &mut code.pieces[at];
            let mut bytes = before.bytes.split_off((left_out - before.offset) as usize);
            let (address, offset) = (before.address + before.bytes.len() as u64 + 1, left_out + 1);
            bytes.remove(0);
            code.pieces.push(Piece { address, offset, bytes });
        }
        Some(code)
    }

    /// That of an executable or library in memory.
    pub fn parse(bytes: &[u8]) -> Option<FileCode> {
        let header = FileHeader64::<Endianness>::parse(bytes).ok()?;
        let endian = header.endian().ok().filter(|endian| *endian == Endianness::Little)?;
        let code = header
            .program_headers(endian, bytes)
            .ok()?
            .iter()
            .filter(|segment| segment.p_type(endian) == PT_LOAD && segment.p_flags(endian).contains(PF_X));
        let pieces = code.filter_map(|segment| {
            let bytes = segment.data(endian, bytes).ok()?.to_vec();
            Some(Piece { address: segment.p_vaddr(endian), offset: segment.p_offset(endian), bytes })
        });
        Some(FileCode { pieces: pieces.collect(), is_fixed: header.e_type(endian) == ET_EXEC })
    }

    /// The address of what stands at a place of the file.
    pub fn address_of(&self, place: u64) -> Option<u64> {
        self.pieces.iter().find_map(|piece| {
            let within = place.checked_sub(piece.offset).filter(|&within| within < piece.bytes.len() as u64)?;
            Some(piece.address + within)
        })
    }
}

impl ProgramCode for FileCode {
    fn read(&self, address: u64, into: &mut [u8]) -> usize {
        let found = self.pieces.iter().find_map(|piece| {
            let within = usize::try_from(address.checked_sub(piece.address)?).ok()?;
            piece.bytes.get(within..).filter(|bytes| !bytes.is_empty())
        });
        let bytes = found.unwrap_or(&[]);
        let length = bytes.len().min(into.len());
        into[..length].copy_from_slice(&bytes[..length]);
        length
    }
}
