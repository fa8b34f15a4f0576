//! Global and static data of an ELF module: which variable lies at an address.
//!
//! Names come from .symtab, else from the separate debug file (by build id, then by debug link), else from .dynsym.
//! They stay as the linker has them; demangling is for views. What no symbol covers is named by its section, as the
//! gap between two symbols: `.bss` of a stripped program is one object per gap, and objects never overlap.

use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use object::{Object, ObjectSymbol, SymbolKind};

use crate::unwind::{Module, open_regular};

/// A variable, or a stretch of a section without one. Addresses as stated in the file (svma).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DataSymbol<'a> {
    /// The symbol, mangled; or the section's name (`.bss`).
    pub name: &'a str,
    /// First address.
    pub start: u64,
    /// Bytes.
    pub size: u64,
    /// False when `name` is a section's.
    pub named: bool,
}

/// The data symbols of one module.
#[derive(Debug, Default)]
pub struct DataSymbols {
    /// By address; where symbols nest, the outer one first.
    symbols: Vec<Symbol>,
    names: String,
    sections: Vec<(Range<u64>, String)>,
}

#[derive(Clone, Debug)]
struct Symbol {
    range: Range<u64>,
    /// The farthest end of this symbol and all before it.
    reach: u64,
    name: Range<usize>,
}

impl DataSymbols {
    /// Reads the symbols of `module`. A module without any has its sections.
    pub fn load(module: &Module) -> Self {
        let sections = module.sections().iter().filter(|section| !section.executable);
        let sections = sections.map(|section| (section.svma.clone(), section.name.clone())).collect();
        Self::of_kind(module, SymbolKind::Data, sections)
    }

    /// The same of its thread-local variables, by their distance from the beginning of a copy.
    pub fn thread_local(module: &Module) -> Self {
        let size = module.thread_locals().map_or(0, |locals| locals.size);
        Self::of_kind(module, SymbolKind::Tls, vec![(0..size, "thread-local data".to_owned())])
    }

    fn of_kind(module: &Module, kind: SymbolKind, sections: Vec<(Range<u64>, String)>) -> Self {
        let mut found = module.with_names(|elf| collect(elf.symbols(), kind, &sections)).unwrap_or_default();
        if found.is_empty() {
            found = debug_file(module)
                .and_then(|debug| debug.with_names(|elf| collect(elf.symbols(), kind, &sections)))
                .unwrap_or_default();
        }
        if found.is_empty() {
            found = module.with_names(|elf| collect(elf.dynamic_symbols(), kind, &sections)).unwrap_or_default();
        }
        Self::from_symbols(found, sections)
    }

    fn from_symbols(mut found: Vec<Found>, sections: Vec<(Range<u64>, String)>) -> Self {
        // One name per place: the largest, then the one the program's own code most likely uses.
        found.sort_by(|a, b| {
            let key =
                |f: &Found| (f.range.start, std::cmp::Reverse(f.range.end), f.local, leading_underscores(&f.name));
            key(a).cmp(&key(b)).then_with(|| a.name.cmp(&b.name))
        });
        found.dedup_by(|later, kept| later.range == kept.range);
        // Symbols without a size (assembly, GHC) reach to the next one or the end of their section.
        for at in 0..found.len() {
            if found[at].range.is_empty() {
                let start = found[at].range.start;
                let section_end = sections.iter().find(|(range, _)| range.contains(&start)).map_or(start, |s| s.0.end);
                let next = found[at + 1..].iter().map(|next| next.range.start).find(|&next| next > start);
                found[at].range.end = next.map_or(section_end, |next| next.min(section_end));
            }
        }
        let mut names = String::new();
        let mut reach = 0;
        let symbols = found
            .into_iter()
            .filter(|symbol| !symbol.range.is_empty())
            .map(|symbol| {
                let from = names.len();
                names.push_str(&symbol.name);
                reach = reach.max(symbol.range.end);
                Symbol { range: symbol.range, reach, name: from..names.len() }
            })
            .collect();
        Self { symbols, names, sections }
    }

    /// The variable at a stated address, else the unnamed stretch of its section; `None` outside of data sections.
    pub fn lookup(&self, svma: u64) -> Option<DataSymbol<'_>> {
        let next = self.symbols.partition_point(|symbol| symbol.range.start <= svma);
        for symbol in self.symbols[..next].iter().rev().take_while(|symbol| symbol.reach > svma) {
            if symbol.range.contains(&svma) {
                return Some(self.describe(symbol));
            }
        }
        let (section, name) = self.sections.iter().find(|(range, _)| range.contains(&svma))?;
        let before = next.checked_sub(1).map_or(0, |last| self.symbols[last].reach);
        let after = self.symbols.get(next).map_or(u64::MAX, |symbol| symbol.range.start);
        let (start, end) = (section.start.max(before), section.end.min(after));
        Some(DataSymbol { name, start, size: end - start, named: false })
    }

    fn describe(&self, symbol: &Symbol) -> DataSymbol<'_> {
        DataSymbol {
            name: &self.names[symbol.name.clone()],
            start: symbol.range.start,
            size: symbol.range.end - symbol.range.start,
            named: true,
        }
    }

    /// All variables, by address.
    pub fn iter(&self) -> impl Iterator<Item = DataSymbol<'_>> {
        self.symbols.iter().map(|symbol| self.describe(symbol))
    }
}

/// Data of a loaded module in memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DataRange {
    /// Addresses in the process, the zero-filled part beyond the file included, to the byte.
    pub addresses: Range<u64>,
    /// False for constants.
    pub writable: bool,
}

/// Where the data of `module` lies when it is loaded with `bias` (see [`Module::bias`]): its segments without code,
/// including .bss, which the kernel shows as a mapping without a file.
pub fn data_ranges(module: &Module, bias: u64) -> Vec<DataRange> {
    module
        .segments()
        .iter()
        .filter(|segment| !segment.executable && segment.memory_size > 0)
        .filter_map(|segment| {
            let start = segment.svma.wrapping_add(bias);
            let addresses = start..start.checked_add(segment.memory_size)?;
            Some(DataRange { addresses, writable: segment.writable })
        })
        .collect()
}

struct Found {
    range: Range<u64>,
    local: bool,
    name: String,
}

fn leading_underscores(name: &str) -> usize {
    name.bytes().take_while(|&byte| byte == b'_').count()
}

fn collect<'a, S: ObjectSymbol<'a>>(
    symbols: impl Iterator<Item = S>,
    kind: SymbolKind,
    sections: &[(Range<u64>, String)],
) -> Vec<Found> {
    symbols
        // The reader takes no thread-local one for a definition.
        .filter(|symbol| symbol.is_definition() || kind == SymbolKind::Tls && !symbol.is_undefined())
        .filter(|symbol| symbol.kind() == kind)
        .filter_map(|symbol| {
            let name = String::from_utf8_lossy(symbol.name_bytes().ok().filter(|name| !name.is_empty())?).into_owned();
            let start = symbol.address();
            let section = sections.iter().find(|(range, _)| range.contains(&start))?;
            // A damaged size must not swallow what follows the section.
            let end = start.saturating_add(symbol.size()).min(section.0.end);
            Some(Found { range: start..end, local: symbol.is_local(), name })
        })
        .collect()
}

/// The separate debug file of `module`, by build id or debug link; only one that provably belongs to it.
fn debug_file(module: &Module) -> Option<Module> {
    let mut candidates = Vec::new();
    if let Some((first, rest)) = module.build_id().and_then(|id| id.split_first()) {
        let hex: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
        candidates.push(PathBuf::from(format!("/usr/lib/debug/.build-id/{first:02x}/{hex}.debug")));
    }
    let link = module.with_elf(|elf| Some(elf.gnu_debuglink().ok()??.0.to_vec())).flatten();
    if let (Some(link), Some(directory)) = (link, module.path().parent()) {
        let link = Path::new(std::ffi::OsStr::from_bytes(&link)).file_name()?.to_owned();
        candidates.push(directory.join(&link));
        candidates.push(directory.join(".debug").join(&link));
        candidates.push(Path::new("/usr/lib/debug").join(directory.strip_prefix("/").ok()?).join(&link));
    }
    candidates.into_iter().find_map(|path| {
        let debug = Module::new(&path, open_regular(&path)?, 0)?;
        let belongs = match (module.build_id(), debug.build_id()) {
            (Some(ours), Some(theirs)) => ours == theirs,
            _ => debug.sections() == module.sections(),
        };
        belongs.then_some(debug)
    })
}

#[cfg(test)]
mod tests;
