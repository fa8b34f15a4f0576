//! Functions from symbol tables: for code without debug information, and for what DWARF leaves unnamed.
//!
//! The tables are walked once and only the best symbol of each asked address is kept, so that memory follows the
//! addresses: a browser has a million symbols, a profile some thousand sites in it.
//!
//! The best symbol of an address is the one with the greatest start at or below it. If that one ends before the
//! address, an enclosing one is looked for in a second walk (assembly has entry points inside functions). A symbol
//! without size reaches to the next one. Between symbols there is no name: in a stripped library the exported function
//! before an address is most often not the function of the address. GHC is the exception: a function's continuations
//! follow it without symbols of their own, so there the gap is the function's.

use crate::elf::{self, Bytes};
use object::{Object, ObjectSection, ObjectSymbol, SectionIndex, SymbolKind};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::ops::Range;
use std::sync::Arc;

/// The function at an address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Symbol {
    /// As the linker knows it; shared by the addresses of one function.
    pub(crate) name: Arc<str>,
    /// Where the function begins.
    pub(crate) start: u64,
}

/// What symbol tables say about some addresses.
#[derive(Default)]
pub(crate) struct Answer {
    /// One per address.
    pub(crate) symbols: Vec<Option<Symbol>>,
    /// Whether the tables hold code of GHC's runtime or its libraries.
    pub(crate) haskell: bool,
    /// The first damage met.
    pub(crate) error: Option<String>,
}

/// A name that candidates share.
type SharedName = Arc<[u8]>;

/// A symbol as it stands in a table, with a borrowed or an own name.
#[derive(Clone)]
struct Candidate<Name> {
    start: u64,
    rank: Rank,
    end: End,
    name: Name,
}

#[derive(Clone, Copy)]
enum End {
    /// Up to the next symbol, within the section that ends here.
    Section(u64),
    At(u64),
}

/// Of names for one start: code before labels before data, then global names, then those with fewer leading underscores
/// (`malloc` before `__libc_malloc`), then shorter ones.
type Rank = (u8, u8, Reverse<usize>, Reverse<usize>);

/// How often a symbol may enclose an asked address in the second walk, all in all; a damaged table could enclose all by
/// all.
const MOST_ENCLOSURES: usize = 10_000_000;

/// The symbols of `addresses` (sorted) in the tables of `tables`.
pub(crate) fn look_up(addresses: &[u64], tables: &[&Bytes]) -> Answer {
    let mut answer = Answer { symbols: vec![None; addresses.len()], ..Answer::default() };
    // The best symbol that starts in (addresses[i - 1], addresses[i]], then, carried on, at or below addresses[i].
    let mut nearest: Vec<Option<Candidate<SharedName>>> = vec![None; addresses.len()];
    walk(tables, &mut answer, |candidate| {
        if let Some(slot) = nearest.get_mut(addresses.partition_point(|address| *address < candidate.start)) {
            candidate.replace_worse(slot);
        }
    });
    let mut before: Option<Candidate<SharedName>> = None;
    for slot in &mut nearest {
        match slot {
            Some(candidate) => before = Some(candidate.clone()),
            None => slot.clone_from(&before),
        }
    }
    let mut open = Vec::new();
    // What the address before is in: most are in the same.
    let mut known: Option<(SharedName, Symbol)> = None;
    for (index, (candidate, address)) in nearest.into_iter().zip(addresses).enumerate() {
        match candidate {
            Some(candidate) if candidate.holds(*address) => {
                let same = known.take().filter(|(of, _)| Arc::ptr_eq(of, &candidate.name));
                let (_, symbol) = known.insert(same.unwrap_or_else(|| (candidate.name.clone(), candidate.symbol())));
                answer.symbols[index] = Some(symbol.clone());
            }
            Some(candidate) => open.push((*address, index, candidate)),
            None => {}
        }
    }
    if !open.is_empty() {
        enclose(tables, &mut answer, open);
    }
    answer
}

/// Where the function at an address begins and ends, by the best symbol that covers it. One without a size ends where
/// the next begins.
pub(crate) fn extent(address: u64, tables: &[&Bytes]) -> Option<Range<u64>> {
    let mut ignored = Answer::default();
    let (mut best, mut next): (Option<Candidate<SharedName>>, u64) = (None, u64::MAX);
    walk(tables, &mut ignored, |candidate| {
        let (End::At(end) | End::Section(end)) = candidate.end;
        if (candidate.start..end).contains(&address) {
            candidate.replace_worse(&mut best);
        } else if candidate.start > address {
            next = next.min(candidate.start);
        }
    });
    best.map(|best| match best.end {
        End::At(end) => best.start..end,
        End::Section(end) => best.start..end.min(next),
    })
}

/// The second walk, for addresses behind the end of the symbol before them.
fn enclose(tables: &[&Bytes], answer: &mut Answer, open: Vec<(u64, usize, Candidate<SharedName>)>) {
    let mut best: Vec<Option<Candidate<SharedName>>> = vec![None; open.len()];
    let mut left = MOST_ENCLOSURES;
    let mut ignored = Answer::default();
    walk(tables, &mut ignored, |candidate| {
        let End::At(end) = candidate.end else { return };
        let first = open.partition_point(|(address, ..)| *address < candidate.start);
        let last = open.partition_point(|(address, ..)| *address < end);
        let count = last.saturating_sub(first).min(left);
        left -= count;
        for slot in best.iter_mut().skip(first).take(count) {
            candidate.replace_worse(slot);
        }
    });
    let files = tables.iter().filter_map(|table| table.parse().ok());
    let sections: Vec<Range<u64>> = files.flat_map(|file| code_sections(&file).into_values()).collect();
    for ((address, index, nearest), enclosing) in open.into_iter().zip(best) {
        let continued = answer.haskell && nearest.is_haskell() && nearest.reaches(address, &sections);
        answer.symbols[index] = enclosing.or(continued.then_some(nearest)).map(Candidate::symbol);
    }
}

impl Candidate<&[u8]> {
    /// Takes the place of what `slot` holds if it is the better name: the later start, the better rank, the earlier in
    /// the alphabet.
    fn replace_worse(&self, slot: &mut Option<Candidate<SharedName>>) {
        let worse = |best: &Candidate<SharedName>| {
            (best.start, best.rank, Reverse(&*best.name)) < (self.start, self.rank, Reverse(self.name))
        };
        if slot.as_ref().is_none_or(worse) {
            *slot = Some(Candidate { start: self.start, rank: self.rank, end: self.end, name: self.name.into() });
        }
    }
}

impl Candidate<SharedName> {
    fn holds(&self, address: u64) -> bool {
        let (End::At(end) | End::Section(end)) = self.end;
        (self.start..end).contains(&address)
    }

    fn is_haskell(&self) -> bool {
        self.name.ends_with(b"_info") || self.name.ends_with(b"_slow")
    }

    /// Whether `address` is in the section where the symbol starts.
    fn reaches(&self, address: u64, sections: &[Range<u64>]) -> bool {
        sections.iter().any(|section| section.contains(&self.start) && section.contains(&address))
    }

    fn symbol(self) -> Symbol {
        Symbol { name: String::from_utf8_lossy(&self.name).into(), start: self.start }
    }
}

/// The address ranges of the sections with code. (A debug-only file has their headers without content.)
fn code_sections(file: &object::File) -> FxHashMap<SectionIndex, Range<u64>> {
    let range = |start: u64, size| start..start.saturating_add(size);
    file.sections().filter(elf::is_code).map(|s| (s.index(), range(s.address(), s.size()))).collect()
}

/// Gives every symbol of code in `tables` to `sink`, those embedded in `.gnu_debugdata` too.
fn walk(tables: &[&Bytes], answer: &mut Answer, mut sink: impl FnMut(Candidate<&[u8]>)) {
    for table in tables {
        let mini = table.parse().and_then(|file| elf::mini_debug(table, &file)).unwrap_or_else(|error| {
            answer.error.get_or_insert(error);
            None
        });
        for bytes in std::iter::once(*table).chain(mini.as_ref()) {
            match bytes.parse() {
                Ok(file) => walk_file(&file, answer, &mut sink),
                Err(error) => drop(answer.error.get_or_insert(error)),
            }
        }
    }
}

fn walk_file(file: &object::File, answer: &mut Answer, sink: &mut impl FnMut(Candidate<&[u8]>)) {
    let sections = code_sections(file);
    for symbol in file.symbols().chain(file.dynamic_symbols()) {
        let kind = match symbol.kind() {
            SymbolKind::Text => 2,
            SymbolKind::Label | SymbolKind::Unknown => 1,
            SymbolKind::Data => 0,
            _ => continue,
        };
        let Some(section) = symbol.section_index().and_then(|index| sections.get(&index)) else { continue };
        // Late, as a name is nowhere near.
        let Ok(name) = symbol.name_bytes() else { continue };
        answer.haskell |= matches!(name, b"stg_ap_v_info" | b"stg_upd_frame_info" | b"stg_ap_p_fast" | b"hs_main");
        // `$x`, `$d`: marks between code and data on some processors. `.L`: a compiler's own labels.
        if name.is_empty() || name.starts_with(b"$") || name.starts_with(b".L") || !section.contains(&symbol.address())
        {
            continue;
        }
        // Whether a name is weak says nothing about what people call the function: `write` is, `__write` is not.
        let binding = u8::from(!symbol.is_local());
        let length = name.iter().position(|byte| *byte == b'@').unwrap_or(name.len());
        let underscores = name.iter().take_while(|byte| **byte == b'_').count();
        let end = match symbol.size() {
            0 => End::Section(section.end),
            size => End::At(symbol.address().saturating_add(size).min(section.end)),
        };
        sink(Candidate {
            start: symbol.address(),
            rank: (kind, binding, Reverse(underscores), Reverse(length)),
            end,
            name,
        });
    }
}
