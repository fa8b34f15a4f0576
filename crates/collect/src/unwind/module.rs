//! One ELF file of a target: opened once, read in pieces, never mapped.
//!
//! Files are read with `pread`, not mapped: a target (or its owner, with `cp` over a library in use) can truncate a
//! file at any time, and a mapping would then kill the collector with SIGBUS. What unwinding needs is small
//! (.eh_frame of a C library is 100 KB) and copied once; symbols are read when first asked for. The open file keeps
//! the contents alive after deletion.

use std::fs::File;
use std::io::SeekFrom;
use std::ops::{Deref, Range};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use object::elf;
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Object, ObjectSection, ObjectSymbol, ReadCache, ReadRef};
use rustc_hash::FxHashMap;

use super::frames::{FrameTable, ProgramHeaders};
use super::open::open_regular;
use numalens_event::page::{self, PAGE};

/// More than this much unwind information or symbols in one file is taken for damage and left alone.
const LARGEST_SECTION: u64 = 1 << 30;

/// Bytes shared by all users of a module.
#[derive(Clone, Default)]
pub(crate) struct SharedBytes(pub(crate) Arc<[u8]>);

impl Deref for SharedBytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// One PT_LOAD of a module. Addresses as stated in the file (svma).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First address.
    pub svma: u64,
    /// Bytes in memory, zero-filled beyond `file_size`.
    pub memory_size: u64,
    /// Where the segment starts in the file.
    pub file_offset: u64,
    /// Bytes in the file.
    pub file_size: u64,
    /// Executable.
    pub executable: bool,
    /// Writable.
    pub writable: bool,
}

/// The thread-local variables of a module, of which each thread has a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadLocals {
    /// Where the first copy is, as stated in the file.
    pub svma: u64,
    /// Bytes of a copy.
    pub size: u64,
    /// A power of two.
    pub align: u64,
}

/// One allocated section of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Its name: `.text`, `.bss`.
    pub name: String,
    /// Addresses as stated in the file.
    pub svma: Range<u64>,
    /// Holds instructions.
    pub executable: bool,
}

/// Bytes of a [`Positioned`] file that are read at a time: names of symbols are asked for one by one, here and there.
const WINDOW: u64 = 32 << 10;
/// Windows that are kept: the names of all symbols of most files.
const WINDOWS: usize = 64;

/// Reads a file at its own position: several threads may read one module, and a descriptor has one offset.
pub(crate) struct Positioned<'a> {
    file: &'a File,
    at: u64,
    /// What was read of it, by offset / `WINDOW`.
    windows: FxHashMap<u64, Vec<u8>>,
}

impl<'a> Positioned<'a> {
    fn new(file: &'a File) -> Self {
        Positioned { file, at: 0, windows: FxHashMap::default() }
    }

    fn window(&mut self, number: u64) -> std::io::Result<&[u8]> {
        if !self.windows.contains_key(&number) {
            let mut window = vec![0; WINDOW as usize];
            let mut length = 0;
            while length < window.len() {
                match self.file.read_at(&mut window[length..], number * WINDOW + length as u64)? {
                    0 => break,
                    read => length += read,
                }
            }
            window.truncate(length);
            if self.windows.len() >= WINDOWS {
                self.windows.clear();
            }
            self.windows.insert(number, window);
        }
        Ok(self.windows.get(&number).map_or(&[], |window| window))
    }
}

impl std::io::Read for Positioned<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let at = self.at;
        let read = if buffer.len() as u64 >= WINDOW {
            self.file.read_at(buffer, at)?
        } else {
            let known = self.window(at / WINDOW)?.get((at % WINDOW) as usize..).unwrap_or(&[]);
            let read = known.len().min(buffer.len());
            buffer[..read].copy_from_slice(&known[..read]);
            read
        };
        self.at += read as u64;
        Ok(read)
    }
}

impl std::io::Seek for Positioned<'_> {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        let target = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(delta) => self.file.metadata()?.len().checked_add_signed(delta),
            SeekFrom::Current(delta) => self.at.checked_add_signed(delta),
        };
        self.at = target.ok_or(std::io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

/// Tables of names up to this size are read whole; of a larger one the names that are asked for.
const WHOLE_NAMES: u64 = 64 << 20;

/// A file whose tables of names are at hand: a program may have a million symbols, and their names lie in no order.
pub(crate) struct WithNames<'a> {
    cache: ReadCache<Positioned<'a>>,
    /// Where the tables begin in the file, and what is in them.
    names: Vec<(u64, Vec<u8>)>,
}

impl<'a> WithNames<'a> {
    fn new(file: &'a File) -> Self {
        let cache = ReadCache::new(Positioned::new(file));
        let mut names = Vec::new();
        let places = object::File::parse(&cache)
            .map_or([None; 2], |elf| [".strtab", ".dynstr"].map(|name| elf.section_by_name(name)?.file_range()));
        for place in places {
            if let Some((at, size @ 1..=WHOLE_NAMES)) = place {
                let mut bytes = vec![0; size as usize];
                if file.read_exact_at(&mut bytes, at).is_ok() {
                    names.push((at, bytes));
                }
            }
        }
        WithNames { cache, names }
    }

    /// What is at hand from `at` on.
    fn at_hand(&self, at: u64) -> Option<&[u8]> {
        self.names.iter().find_map(|(start, bytes)| bytes.get(usize::try_from(at.checked_sub(*start)?).ok()?..))
    }
}

impl<'a> ReadRef<'a> for &'a WithNames<'_> {
    fn len(self) -> Result<u64, ()> {
        ReadRef::len(&self.cache)
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        self.cache.read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        let Some(bytes) = self.at_hand(range.start) else { return self.cache.read_bytes_at_until(range, delimiter) };
        let most = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
        let bytes = &bytes[..bytes.len().min(most)];
        bytes.iter().position(|byte| *byte == delimiter).map(|end| &bytes[..end]).ok_or(())
    }
}

/// What tells two files apart, a file rewritten in place included.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct FileKey {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl FileKey {
    pub(crate) fn of(file: &File) -> Option<Self> {
        let meta = file.metadata().ok()?;
        Some(Self {
            device: meta.dev(),
            inode: meta.ino(),
            size: meta.size(),
            modified: (meta.mtime(), meta.mtime_nsec()),
        })
    }
}

/// One ELF file. Cheap to keep: headers and, once unwound through, its unwind tables.
pub struct Module {
    path: PathBuf,
    file: File,
    serial: u32,
    build_id: Option<Vec<u8>>,
    segments: Vec<Segment>,
    sections: Vec<Section>,
    thread_locals: Option<ThreadLocals>,
    frames: OnceLock<FrameTable>,
    functions: OnceLock<Vec<Range<u64>>>,
}

impl std::fmt::Debug for Module {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Module").field("path", &self.path).field("segments", &self.segments).finish_non_exhaustive()
    }
}

impl Module {
    /// Reads the headers of `file`; `None` when it is no 64-bit little-endian ELF image.
    pub(crate) fn new(path: &Path, file: File, serial: u32) -> Option<Self> {
        let cache = ReadCache::new(Positioned::new(&file));
        let header = elf::FileHeader64::<object::Endianness>::parse(&cache).ok()?;
        let endian = header.endian().ok()?;
        if endian != object::Endianness::Little {
            return None;
        }
        let headers = header.program_headers(endian, &cache).ok()?;
        let thread_locals = headers.iter().find(|segment| segment.p_type(endian) == elf::PT_TLS).map(|segment| {
            let align = segment.p_align(endian).max(1);
            // A damaged one is none.
            let align = if align.is_power_of_two() && align <= 1 << 20 { align } else { 1 };
            ThreadLocals { svma: segment.p_vaddr(endian), size: segment.p_memsz(endian), align }
        });
        let segments: Vec<Segment> = headers
            .iter()
            .filter(|segment| segment.p_type(endian) == elf::PT_LOAD)
            .map(|segment| Segment {
                svma: segment.p_vaddr(endian),
                memory_size: segment.p_memsz(endian),
                file_offset: segment.p_offset(endian),
                file_size: segment.p_filesz(endian),
                executable: segment.p_flags(endian).0 & elf::PF_X.0 != 0,
                writable: segment.p_flags(endian).0 & elf::PF_W.0 != 0,
            })
            .collect();
        let parsed = object::File::parse(&cache).ok();
        let build_id = parsed.as_ref().and_then(|elf| elf.build_id().ok().flatten()).map(<[u8]>::to_vec);
        let mut sections = Vec::new();
        for section in parsed.iter().flat_map(|elf| elf.sections()) {
            let object::SectionFlags::Elf { sh_flags, .. } = section.flags() else {
                continue;
            };
            let thread_local = sh_flags.0 & elf::SHF_TLS.0 != 0;
            let svma = section.address()..section.address().saturating_add(section.size());
            if sh_flags.0 & elf::SHF_ALLOC.0 != 0 && !thread_local && !svma.is_empty() {
                sections.push(Section {
                    name: section.name().unwrap_or("?").to_owned(),
                    svma,
                    executable: sh_flags.0 & elf::SHF_EXECINSTR.0 != 0,
                });
            }
        }
        sections.sort_by_key(|section| section.svma.start);
        drop(parsed);
        drop(cache);
        Some(Self {
            path: path.to_owned(),
            file,
            serial,
            build_id,
            segments,
            sections,
            thread_locals,
            frames: OnceLock::new(),
            functions: OnceLock::new(),
        })
    }

    /// Its thread-local variables, if it has some.
    pub fn thread_locals(&self) -> Option<ThreadLocals> {
        self.thread_locals.filter(|locals| (1..1 << 40).contains(&locals.size))
    }

    /// The path under which the module was first seen mapped.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a path leads to this file, or another copy of it, in our mount namespace and now.
    pub fn is_at(&self, path: &Path) -> bool {
        if path.as_os_str() == "[vdso]" {
            return true;
        }
        let Some(there) = open_regular(path) else { return false };
        FileKey::of(&there) == FileKey::of(&self.file)
            || self.build_id.is_some()
                && Module::new(path, there, 0).is_some_and(|module| module.build_id == self.build_id)
    }

    /// The linker's build id, when the file has one.
    pub fn build_id(&self) -> Option<&[u8]> {
        self.build_id.as_deref()
    }

    /// Dense number within its [`super::ModuleCache`].
    pub fn serial(&self) -> u32 {
        self.serial
    }

    /// The PT_LOAD segments in file order.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The allocated sections by address, thread-local ones left out (they only look like having an address).
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// The file itself, for readers of more than this type offers.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The lowest page-aligned address stated in the file: 0 for position-independent images.
    pub fn base_svma(&self) -> u64 {
        self.segments.iter().map(|segment| page::begin(segment.svma)).min().unwrap_or(0)
    }

    /// The stated address of a byte of the file at page-aligned `offset`, where a mapping starts. Two segments may
    /// share a page of the file at different addresses; one that starts there wins over one that reaches there, and one
    /// that is `executable` as asked over one that is not.
    pub fn svma_of_offset(&self, offset: u64, executable: bool) -> Option<u64> {
        let starts = |segment: &Segment| page::begin(segment.file_offset) == offset;
        let holds = |segment: &Segment| {
            let end = segment.file_offset.saturating_add(segment.file_size).checked_next_multiple_of(PAGE);
            page::begin(segment.file_offset) <= offset && end.is_some_and(|end| offset < end)
        };
        let segment = self
            .segments
            .iter()
            .filter(|segment| segment.file_size > 0 && (starts(segment) || holds(segment)))
            .max_by_key(|segment| (segment.executable == executable, starts(segment)))?;
        Some(offset.wrapping_sub(segment.file_offset).wrapping_add(segment.svma))
    }

    /// The load bias of a mapping of this module: `address = svma + bias`, wrapping.
    pub fn bias(&self, mapping_start: u64, file_offset: u64, executable: bool) -> Option<u64> {
        Some(mapping_start.wrapping_sub(self.svma_of_offset(file_offset, executable)?))
    }

    /// Bytes of the image at a stated address, as many as the segment's file part holds; `None` outside.
    pub fn read(&self, svma: u64, buffer: &mut [u8]) -> Option<usize> {
        let segment = self.segments.iter().find(|s| s.svma <= svma && svma - s.svma < s.file_size)?;
        let within = svma - segment.svma;
        let wanted = buffer.len().min(usize::try_from(segment.file_size - within).ok()?);
        let offset = segment.file_offset.checked_add(within)?;
        let read = self.file.read_at(&mut buffer[..wanted], offset).ok()?;
        (read > 0).then_some(read)
    }

    /// Parses the file once more and hands it to `use_it`.
    pub(crate) fn with_elf<T>(
        &self,
        use_it: impl FnOnce(&object::File<'_, &ReadCache<Positioned<'_>>>) -> T,
    ) -> Option<T> {
        let cache = ReadCache::new(Positioned::new(&self.file));
        let elf = object::File::parse(&cache).ok()?;
        Some(use_it(&elf))
    }

    /// The same for who asks for the names of all symbols.
    pub(crate) fn with_names<T>(&self, use_it: impl FnOnce(&object::File<'_, &WithNames<'_>>) -> T) -> Option<T> {
        let names = WithNames::new(&self.file);
        let elf = object::File::parse(&names).ok()?;
        Some(use_it(&elf))
    }

    /// Parses the file header once more and hands over the program headers.
    pub(crate) fn with_program_headers<T>(
        &self,
        use_them: impl FnOnce(object::Endianness, ProgramHeaders<'_>) -> T,
    ) -> Option<T> {
        let cache = ReadCache::new(Positioned::new(&self.file));
        let header = elf::FileHeader64::<object::Endianness>::parse(&cache).ok()?;
        let endian = header.endian().ok()?;
        Some(use_them(endian, header.program_headers(endian, &cache).ok()?))
    }

    /// Unwind tables, read at the first call.
    pub(crate) fn frames(&self) -> &FrameTable {
        self.frames.get_or_init(|| FrameTable::load(self).unwrap_or_default())
    }

    /// The function that holds `svma`, by the unwind tables first (they are exact about hand-written code and exist in
    /// stripped files), then by symbols.
    pub fn function_range(&self, svma: u64) -> Option<Range<u64>> {
        self.frames().function(svma).or_else(|| {
            let functions = self.functions.get_or_init(|| self.load_functions().unwrap_or_default());
            let at = functions.partition_point(|range| range.start <= svma).checked_sub(1)?;
            functions.get(at).filter(|range| range.contains(&svma)).cloned()
        })
    }

    fn load_functions(&self) -> Option<Vec<Range<u64>>> {
        self.with_elf(|elf| {
            let mut all: Vec<Range<u64>> = elf
                .symbols()
                .chain(elf.dynamic_symbols())
                .filter(|symbol| symbol.kind() == object::SymbolKind::Text && symbol.is_definition())
                .map(|symbol| symbol.address()..symbol.address().saturating_add(symbol.size()))
                .collect();
            all.sort_by_key(|range| (range.start, std::cmp::Reverse(range.end)));
            all.dedup_by_key(|range| range.start);
            // Hand-written code often has no size: such a symbol reaches to the next one.
            for at in 0..all.len() {
                if all[at].is_empty() {
                    let next = all.get(at + 1).map(|range| range.start);
                    let section = self.sections.iter().find(|s| s.svma.contains(&all[at].start));
                    all[at].end = next.or(section.map(|s| s.svma.end)).unwrap_or(all[at].start);
                }
            }
            all
        })
    }

    /// The uncompressed bytes of a section, unless it is absent or absurdly large.
    pub(crate) fn section_bytes(&self, name: &str) -> Option<(u64, SharedBytes)> {
        self.with_elf(|elf| {
            let section = elf.section_by_name(name)?;
            if section.compressed_data().ok()?.uncompressed_size > LARGEST_SECTION {
                return None;
            }
            let bytes = section.uncompressed_data().ok()?;
            (!bytes.is_empty()).then(|| (section.address(), SharedBytes(bytes.into())))
        })?
    }
}
