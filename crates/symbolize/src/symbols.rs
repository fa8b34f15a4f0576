//! Functions from symbol tables: for code without debug information, and for what DWARF leaves unnamed.
//!
//! The tables are walked once and only the best symbol of each asked address is kept, so that memory follows the
//! addresses: a browser has a million symbols, a profile some thousand sites in it.
//!
//! The best symbol of an address is the one with the greatest start at or below it. If that one ends before the
//! address, an enclosing one is looked for in a second walk (assembly has entry points inside functions). A symbol
//! without size reaches to the next one. Between symbols there is no name: in a stripped library the exported function
//! before an address is most often not the function of the address. GHC is the exception: a function's continuations
//! follow it without symbols of their own, so there the gap is the function's. Before the first one of a module, behind
//! a symbol of C, lies what the module does not export: `Main.local code`.

use crate::elf::{self, Bytes};
use crate::ghc;
use crate::places::Places;
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

/// A symbol as it stands in a table.
#[derive(Clone, Copy)]
struct Candidate<'a> {
    start: u64,
    rank: Rank,
    end: End,
    name: &'a [u8],
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

/// The last function of the files that C's linker puts before the program's code. It has no size, a jump or two, and
/// what follows is not its.
const LAST_OF_START_FILES: &[u8] = b"frame_dummy";
const ITS_BYTES: u64 = 16;

/// How often a symbol may enclose an asked address in the second walk, all in all; a damaged table could enclose all by
/// all.
const MOST_ENCLOSURES: usize = 10_000_000;

/// The symbols of `addresses` (sorted) in the tables of `tables`.
pub(crate) fn look_up(addresses: &[u64], tables: &[&Bytes]) -> Answer {
    let mut answer = Answer { symbols: vec![None; addresses.len()], ..Answer::default() };
    let embedded = embedded(tables);
    let files = parse(tables, &embedded, &mut answer.error);
    let mut nearest = Nearest::new(addresses);
    walk(&files, &mut answer.haskell, |candidate| nearest.offer(candidate));
    let mut open = Vec::new();
    // What the address before is in: most are in the same.
    let mut known: Option<Symbol> = None;
    let mut name: &[u8] = &[];
    for (index, (candidate, address)) in nearest.at_or_below().zip(addresses).enumerate() {
        match candidate {
            Some(candidate) if candidate.holds(*address) => {
                // Other functions may have the same name, of which there is one in the file then.
                let is_same = |symbol: &Symbol| std::ptr::eq(name, candidate.name) && symbol.start == candidate.start;
                let same = known.take().filter(is_same);
                let symbol = known.insert(same.unwrap_or_else(|| candidate.symbol()));
                name = candidate.name;
                answer.symbols[index] = Some(symbol.clone());
            }
            Some(candidate) => open.push(Open { address: *address, index, nearest: candidate }),
            None => {}
        }
    }
    if !open.is_empty() {
        enclose(&files, &mut answer, open);
    }
    answer
}

/// Where the function at an address begins and ends, by the best symbol that covers it. One without a size ends where
/// the next begins.
pub(crate) fn extent(address: u64, tables: &[&Bytes]) -> Option<Range<u64>> {
    let embedded = embedded(tables);
    let files = parse(tables, &embedded, &mut None);
    let (mut best, mut next): (Option<Candidate>, u64) = (None, u64::MAX);
    walk(&files, &mut false, |candidate| {
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

/// The best symbols so far, by the addresses that they are the nearest ones below.
struct Nearest<'a> {
    places: Places<'a>,
    /// By address: where among `best` the symbol is that starts behind the address before, plus 1; 0: none does.
    of: Vec<u32>,
    best: Vec<Candidate<'a>>,
}

impl<'a> Nearest<'a> {
    fn new(addresses: &'a [u64]) -> Self {
        Nearest { places: Places::new(addresses), of: vec![0; addresses.len()], best: Vec::new() }
    }

    fn offer(&mut self, candidate: Candidate<'a>) {
        let Some(of) = self.of.get_mut(self.places.at_or_above(candidate.start)) else { return };
        match (*of as usize).checked_sub(1).and_then(|at| self.best.get_mut(at)) {
            Some(best) if candidate.is_better_than(best) => *best = candidate,
            Some(_) => {}
            None => {
                self.best.push(candidate);
                *of = self.best.len() as u32;
            }
        }
    }

    /// For each address, the symbol that starts there or nearest below.
    fn at_or_below(&self) -> impl Iterator<Item = Option<Candidate<'a>>> {
        self.of.iter().scan(0, |before, of| {
            if *of != 0 {
                *before = *of;
            }
            Some((*before as usize).checked_sub(1).map(|at| self.best[at]))
        })
    }
}

/// An address behind the end of the symbol before it.
struct Open<'a> {
    address: u64,
    /// Among all that are asked for.
    index: usize,
    nearest: Candidate<'a>,
}

/// The second walk, for addresses behind the end of the symbol before them.
fn enclose(files: &[object::File<'_>], answer: &mut Answer, open: Vec<Open<'_>>) {
    let mut best: Vec<Option<Candidate<'_>>> = vec![None; open.len()];
    let addresses: Vec<u64> = open.iter().map(|open| open.address).collect();
    let places = Places::new(&addresses);
    let mut left = MOST_ENCLOSURES;
    // By address: the first symbol above it and below the next address, GHC's before others.
    let mut above: Vec<Option<Candidate<'_>>> = vec![None; open.len()];
    walk(files, &mut false, |candidate| {
        let order = |one: &Candidate<'_>| (one.start, !one.is_haskell());
        if let Some(below) = places.at_or_above(candidate.start).checked_sub(1)
            && above[below].is_none_or(|first| order(&candidate) < order(&first))
        {
            above[below] = Some(candidate);
        }
        let End::At(end) = candidate.end else { return };
        let (first, last) = (places.at_or_above(candidate.start), places.at_or_above(end));
        let count = last.saturating_sub(first).min(left);
        left -= count;
        for slot in best.iter_mut().skip(first).take(count) {
            candidate.replace_worse(slot);
        }
    });
    let sections: Vec<Range<u64>> = files.iter().flat_map(|file| code_sections(file).into_values()).collect();
    let mut next: Option<Candidate<'_>> = None;
    for ((Open { address, index, nearest }, enclosing), above) in open.into_iter().zip(best).zip(above).rev() {
        next = above.or(next);
        let in_haskell = answer.haskell && nearest.reaches(address, &sections);
        let continued = in_haskell && nearest.is_haskell();
        let known = enclosing.or(continued.then_some(nearest)).map(|candidate| candidate.symbol());
        let local = || {
            next.filter(|next| in_haskell && next.is_haskell() && next.reaches(address, &sections))?
                .local_code(&nearest)
        };
        answer.symbols[index] = known.or_else(local);
    }
}

impl Candidate<'_> {
    /// Whether it is the better name: the later start, the better rank, the earlier in the alphabet.
    fn is_better_than(&self, other: &Candidate<'_>) -> bool {
        (other.start, other.rank, Reverse(other.name)) < (self.start, self.rank, Reverse(self.name))
    }

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

    /// What lies between a symbol of C and it, which is GHC's.
    fn local_code(&self, before: &Candidate<'_>) -> Option<Symbol> {
        let (End::At(start) | End::Section(start)) = before.end;
        Some(Symbol { name: ghc::local_code_before(std::str::from_utf8(self.name).ok()?)?.into(), start })
    }

    fn symbol(&self) -> Symbol {
        Symbol { name: String::from_utf8_lossy(self.name).into(), start: self.start }
    }
}

impl<'a> Candidate<'a> {
    /// Takes the place of what `slot` holds if it is the better name.
    fn replace_worse(self, slot: &mut Option<Candidate<'a>>) {
        if slot.as_ref().is_none_or(|best| self.is_better_than(best)) {
            *slot = Some(self);
        }
    }
}

/// The address ranges of the sections with code. (A debug-only file has their headers without content.)
fn code_sections(file: &object::File) -> FxHashMap<SectionIndex, Range<u64>> {
    let range = |start: u64, size| start..start.saturating_add(size);
    file.sections().filter(elf::is_code).map(|s| (s.index(), range(s.address(), s.size()))).collect()
}

/// The files of symbols that tables have embedded in `.gnu_debugdata`.
fn embedded(tables: &[&Bytes]) -> Vec<Result<Option<Bytes>, String>> {
    tables.iter().map(|table| table.parse().and_then(|file| elf::mini_debug(table, &file))).collect()
}

/// Tables and what they have embedded, as far as they can be read; `damage`: the first that is met.
fn parse<'a>(
    tables: &[&'a Bytes],
    embedded: &'a [Result<Option<Bytes>, String>],
    damage: &mut Option<String>,
) -> Vec<object::File<'a>> {
    let mut files = Vec::new();
    for (table, embedded) in tables.iter().zip(embedded) {
        if let Err(error) = embedded {
            damage.get_or_insert_with(|| error.clone());
        }
        for bytes in std::iter::once(*table).chain(embedded.as_ref().ok().and_then(Option::as_ref)) {
            match bytes.parse() {
                Ok(file) => files.push(file),
                Err(error) => drop(damage.get_or_insert(error)),
            }
        }
    }
    files
}

/// Gives every symbol of code to `sink`; `haskell`: whether there are some of GHC's.
fn walk<'a>(files: &[object::File<'a>], haskell: &mut bool, mut sink: impl FnMut(Candidate<'a>)) {
    for file in files {
        walk_file(file, haskell, &mut sink);
    }
}

fn walk_file<'a>(file: &object::File<'a>, haskell: &mut bool, sink: &mut impl FnMut(Candidate<'a>)) {
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
        *haskell |= matches!(name, b"stg_ap_v_info" | b"stg_upd_frame_info" | b"stg_ap_p_fast" | b"hs_main");
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
            0 if name == LAST_OF_START_FILES => End::At(symbol.address().saturating_add(ITS_BYTES).min(section.end)),
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
