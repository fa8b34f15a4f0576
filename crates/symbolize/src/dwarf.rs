//! Functions, lines and inlined calls from DWARF.
//!
//! `addr2line::Context` does the reading: it looks at the head of every unit once and parses lines and functions
//! of a unit when the first address in it is asked for, so the cost follows the addresses and not the size of the file.
//! This module gives it sections (of the file, of what `dwz` took out, of split files as they are asked for) and asks.

use crate::elf::{self, Bytes};
use crate::module::RawFrame;
use addr2line::gimli::{self, EndianSlice, RunTimeEndian, SectionId};
use addr2line::{Context, FrameIter, LookupContinuation, LookupResult, SplitDwarfLoad};
use object::Object;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use typed_arena::Arena;

type Reader<'a> = EndianSlice<'a, RunTimeEndian>;

/// Where split files come from.
pub(crate) trait SplitFiles {
    /// The file stated as `relative` in a compilation in the directory `dir`.
    fn open(&self, dir: &Path, relative: &Path) -> Option<Bytes>;
    /// The package that holds them all.
    fn package(&self) -> Option<Bytes>;
}

/// What DWARF says about some addresses.
#[derive(Default)]
pub(crate) struct Answer {
    /// One list per address, innermost first.
    pub(crate) frames: Vec<Vec<RawFrame>>,
    /// Split files that are stated and were not found.
    pub(crate) missing: BTreeSet<PathBuf>,
    /// The first error, when some addresses could not be read.
    pub(crate) error: Option<String>,
}

/// Asks the debug information in `debug` (and `common`) for each of `addresses`.
///
/// # Errors
/// Text, when the debug information as a whole cannot be read.
pub(crate) fn look_up(
    addresses: &[u64],
    debug: &Bytes,
    common: Option<&Bytes>,
    split: &dyn SplitFiles,
) -> Result<Answer, String> {
    let store = Store::default();
    let mut dwarf = store.load(&debug.parse()?, |id| Some(id.name()))?;
    if let Some(common) = common {
        dwarf.set_sup(store.load(&common.parse()?, |id| Some(id.name()))?);
    }
    dwarf.populate_abbreviations_cache(gimli::AbbreviationsCacheStrategy::Duplicates);
    let context = Context::from_dwarf(dwarf).map_err(|error| error.to_string())?;
    let mut loader = Loader { store: &store, split, package: None, missing: BTreeSet::new() };
    let mut answer = Answer::default();
    for &address in addresses {
        let frames = loader.find_frames(&context, address).and_then(collect).unwrap_or_else(|error| {
            answer.error.get_or_insert_with(|| error.to_string());
            Vec::new()
        });
        answer.frames.push(frames);
    }
    answer.missing = loader.missing;
    Ok(answer)
}

fn collect(mut frames: FrameIter<Reader>) -> gimli::Result<Vec<RawFrame>> {
    let mut out = Vec::new();
    while let Some(frame) = frames.next()? {
        let function = match &frame.function {
            Some(function) => Some(function.raw_name()?.into()),
            None => None,
        };
        let (file, line) =
            frame.location.map_or((None, None), |location| (location.file.map(String::from), location.line));
        out.push(RawFrame { function, file, line, start: None });
    }
    Ok(out)
}

/// Owns what the context borrows: it grows as split files are met, and goes when the module is done.
#[derive(Default)]
struct Store {
    files: Arena<Bytes>,
    sections: Arena<Vec<u8>>,
}

impl Store {
    /// The sections of `file` that the look-up uses, under the names that `name` gives them.
    fn load<'a>(
        &'a self,
        file: &object::File<'a>,
        name: impl Fn(SectionId) -> Option<&'static str>,
    ) -> Result<gimli::Dwarf<Reader<'a>>, String> {
        gimli::Dwarf::load(|id| self.section(file, id, &|id| name(id).filter(|_| is_used(id))))
    }

    fn section<'a>(
        &'a self,
        file: &object::File<'a>,
        id: SectionId,
        name: &impl Fn(SectionId) -> Option<&'static str>,
    ) -> Result<Reader<'a>, String> {
        let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
        let data = match name(id) {
            Some(name) => elf::section(file, name)?,
            None => Cow::Borrowed(&[][..]),
        };
        Ok(EndianSlice::new(
            match data {
                Cow::Borrowed(data) => data,
                Cow::Owned(data) => self.sections.alloc(data),
            },
            endian,
        ))
    }
}

/// Whether the look-up reads the section; the rest (locations of variables, macros, types) is left out, because a
/// compressed section costs its whole size.
fn is_used(id: SectionId) -> bool {
    use SectionId::*;
    matches!(
        id,
        DebugAbbrev
            | DebugAddr
            | DebugAranges
            | DebugInfo
            | DebugLine
            | DebugLineStr
            | DebugRanges
            | DebugRngLists
            | DebugStr
            | DebugStrOffsets
    )
}

/// Answers the context's requests for split files.
struct Loader<'a, 's> {
    store: &'a Store,
    split: &'s dyn SplitFiles,
    /// None before it was looked for.
    package: Option<Option<gimli::DwarfPackage<Reader<'a>>>>,
    missing: BTreeSet<PathBuf>,
}

impl<'a> Loader<'a, '_> {
    fn find_frames<'c>(
        &mut self,
        context: &'c Context<Reader<'a>>,
        address: u64,
    ) -> gimli::Result<FrameIter<'c, Reader<'a>>> {
        let mut step = context.find_frames(address);
        loop {
            match step {
                LookupResult::Output(frames) => return frames,
                LookupResult::Load { load, continuation } => step = continuation.resume(self.load(&load)),
            }
        }
    }

    fn load(&mut self, load: &SplitDwarfLoad<Reader<'a>>) -> Option<Arc<gimli::Dwarf<Reader<'a>>>> {
        if self.package.is_none() {
            self.package = Some(self.open_package());
        }
        if let Some(Some(package)) = &self.package
            && let Ok(Some(unit)) = package.find_cu(load.dwo_id, &load.parent)
        {
            return Some(Arc::new(unit));
        }
        let path = |reader: &Reader<'a>| PathBuf::from(OsStr::from_bytes(reader.slice()));
        let dir = load.comp_dir.as_ref().map(path).unwrap_or_default();
        let relative = load.path.as_ref().map(path).unwrap_or_default();
        let found = self.split.open(&dir, &relative).and_then(|bytes| self.read_split(bytes, load));
        if found.is_none() {
            self.missing.insert(dir.join(relative));
        }
        found.map(Arc::new)
    }

    fn open_package(&self) -> Option<gimli::DwarfPackage<Reader<'a>>> {
        let bytes = self.store.files.alloc(self.split.package()?);
        let file = bytes.parse().ok()?;
        let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
        let section =
            |id: SectionId| self.store.section(&file, id, &|id: SectionId| id.dwo_name()).map_err(|_| gimli::Error::Io);
        gimli::DwarfPackage::load(section, EndianSlice::new(&[], endian)).ok()
    }

    /// The DWARF in `bytes`; none when it is damaged or of another compilation.
    fn read_split(&self, bytes: Bytes, load: &SplitDwarfLoad<Reader<'a>>) -> Option<gimli::Dwarf<Reader<'a>>> {
        let bytes = self.store.files.alloc(bytes);
        let mut dwarf = self.store.load(&bytes.parse().ok()?, |id| id.dwo_name()).ok()?;
        let header = dwarf.units().next().ok()??;
        let unit = dwarf.unit(header).ok()?;
        (unit.dwo_id == Some(load.dwo_id)).then(|| {
            dwarf.make_dwo(&load.parent);
            dwarf
        })
    }
}
