//! `numa_maps` of a process: the kernel's text with the machine's policies and nodes.
//!
//! The kernel has a line for each of its mappings. In this process a mapping falls into as many lines as it has
//! policies here, and what is not the program's has none. Of another process of the recording the records of its pages
//! tell their homes, and it has told which of its mappings have policies.

use super::nodes::number_of;
use super::others::Other;
use super::policy::{Policy, mode};
use super::{placement, published_policies, shared_policies};
use crate::pages::{self, reconcile_all};
use crate::placement as places;
use crate::state::maps;
use crate::state::runtime::{Runtime, runtime};
use crate::state::thread::Thread;
use crate::sys::PAGE_BITS;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Write};
use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;
use numalens_event::exact::Extent;

/// Pages by the number of their node.
type Counts = BTreeMap<u32, u64>;

/// A part of a mapping of the kernel's.
struct Piece {
    range: Range<u64>,
    policy: Policy,
    counts: Counts,
}

/// Writes the text about the process of a thread; false: that is not recorded. `tid`: none is the calling thread.
pub fn write(to: &mut String, text: &str, thread: &Thread, tid: Option<u32>) -> Option<fmt::Result> {
    let runtime = runtime();
    let tid = tid.unwrap_or(thread.tid);
    let (extent, policy) = match tid == thread.tid {
        true => (thread.extent, thread.place.policy),
        false => {
            let extent = runtime.session.thread_of(tid)?;
            (extent, places::wanted(&runtime.session, extent).1)
        }
    };
    let process = Extent(runtime.session.entry(extent).parent.load(Relaxed));
    let mappings = maps::read_of(tid);
    let starts: Vec<Range<u64>> = maps::parse(&mappings).map(|line| line.mapping.start..line.mapping.end).collect();
    let pieces = if process == runtime.process().extent {
        own(runtime, thread, policy, &starts)
    } else {
        of_another(runtime, process, policy, &starts)?
    };
    Some(lines(to, text, &starts, &pieces))
}

/// The pieces of this process's mappings.
fn own(runtime: &Runtime, thread: &Thread, policy: Policy, mappings: &[Range<u64>]) -> Vec<Piece> {
    // What is there and was never looked at gets its home now, as if it were asked for.
    reconcile_all(thread);
    let code = runtime.code.lock();
    let mut pieces: Vec<Piece> = Vec::new();
    for range in mappings {
        let first = pieces.len();
        for mapping in code.env.maps.overlapping(range.clone()) {
            let part = mapping.start.max(range.start)..mapping.end.min(range.end);
            let own = shared_policies::of_page(mapping, part.start >> PAGE_BITS);
            let policy = if own.mode == mode::DEFAULT { policy } else { own };
            match pieces[first..].last_mut() {
                Some(before) if before.range.end == part.start && before.policy == policy => {
                    before.range.end = part.end
                }
                _ => pieces.push(Piece { range: part, policy, counts: Counts::new() }),
            }
        }
    }
    let ranges: Vec<Range<u64>> = pieces.iter().map(|piece| piece.range.clone()).collect();
    pages::each_there(&runtime.shadow, runtime.process(), &ranges, |piece, home| {
        count(&mut pieces[piece].counts, home)
    });
    pieces
}

fn count(counts: &mut Counts, home: u16) {
    if let Some(number) = number_of(placement(), home) {
        *counts.entry(number).or_default() += 1;
    }
}

/// The mappings of another process, with the pages that it has touched.
fn of_another(runtime: &Runtime, process: Extent, policy: Policy, mappings: &[Range<u64>]) -> Option<Vec<Piece>> {
    let told = published_policies::of(runtime, process);
    let mut pieces: Vec<Piece> = Vec::new();
    for range in mappings {
        let first = pieces.len();
        let mut add = |part: Range<u64>, own: Policy| {
            let policy = if own.mode == mode::DEFAULT { policy } else { own };
            match pieces[first..].last_mut() {
                _ if part.is_empty() => {}
                Some(before) if before.policy == policy => before.range.end = part.end,
                _ => pieces.push(Piece { range: part, policy, counts: Counts::new() }),
            }
        };
        let mut at = range.start;
        for mapping in told.iter().filter(|mapping| mapping.start < range.end && mapping.end > range.start) {
            let part = mapping.start.max(range.start)..mapping.end.min(range.end);
            add(at..part.start, Policy::NONE);
            add(part.clone(), shared_policies::of_page(mapping, part.start >> PAGE_BITS));
            at = part.end;
        }
        add(at..range.end, Policy::NONE);
    }
    Other::open(runtime, process)?.each_home(|page, home| {
        let address = page << PAGE_BITS;
        let at = pieces.partition_point(|piece| piece.range.end <= address);
        if let Some(piece) = pieces.get_mut(at).filter(|piece| piece.range.contains(&address)) {
            count(&mut piece.counts, home);
        }
    });
    Some(pieces)
}

/// Writes lines for the pieces of the mappings of which the kernel has lines. Both are in the order of addresses.
fn lines(to: &mut String, text: &str, mappings: &[Range<u64>], pieces: &[Piece]) -> fmt::Result {
    for line in text.lines() {
        let (address, rest) = line.split_once(' ').unwrap_or((line, ""));
        let Ok(address) = u64::from_str_radix(address, 16) else { continue };
        let at = mappings.partition_point(|mapping| mapping.start < address);
        let Some(mapping) = mappings.get(at).filter(|mapping| mapping.start == address) else { continue };
        let from = pieces.partition_point(|piece| piece.range.start < mapping.start);
        let to_piece = pieces.partition_point(|piece| piece.range.start < mapping.end).max(from);
        let facts = Facts::of(rest);
        let parts = &pieces[from..to_piece];
        for piece in parts {
            write!(to, "{:08x} ", piece.range.start)?;
            piece.policy.write(to)?;
            facts.write(to, &piece.counts, parts.len() == 1)?;
            to.push('\n');
        }
    }
    Ok(())
}

/// What the kernel says of a mapping besides its policy and nodes.
#[derive(Default)]
struct Facts<'a> {
    /// `file=`, `heap`, `stack`.
    what: &'a str,
    is_huge: bool,
    anonymous: Option<u64>,
    dirty: Option<u64>,
    /// All amounts, as they are.
    amounts: Vec<&'a str>,
    pages: u64,
    page_kib: u64,
}

impl<'a> Facts<'a> {
    fn of(words: &'a str) -> Self {
        const AMOUNTS: [&str; 7] = ["anon", "dirty", "mapped", "mapmax", "swapcache", "active", "writeback"];
        let mut facts = Facts { page_kib: 4, ..Facts::default() };
        for word in words.split(' ') {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            let amount = value.parse().ok();
            match name {
                "file" | "heap" | "stack" => facts.what = word,
                "huge" => facts.is_huge = true,
                "kernelpagesize_kB" => facts.page_kib = amount.unwrap_or(4).max(4),
                _ if AMOUNTS.contains(&name) => {
                    facts.amounts.push(word);
                    match name {
                        "anon" => facts.anonymous = amount,
                        "dirty" => facts.dirty = amount,
                        _ => {}
                    }
                }
                _ if name.strip_prefix('N').is_some_and(|node| node.parse::<u32>().is_ok()) => {
                    facts.pages += amount.unwrap_or(0);
                }
                _ => {}
            }
        }
        facts
    }

    /// Writes them with these pages of a piece, which is all of the mapping or not.
    fn write(&self, to: &mut String, counts: &Counts, is_all: bool) -> fmt::Result {
        if !self.what.is_empty() {
            write!(to, " {}", self.what)?;
        }
        if self.is_huge {
            write!(to, " huge")?;
        }
        // Of huge pages that a program asks for by name each is one.
        let unit = if self.is_huge { self.page_kib / 4 } else { 1 };
        let counts = || counts.iter().map(|(node, count)| (node, count.div_ceil(unit)));
        let pages: u64 = counts().map(|(_, count)| count).sum();
        if pages == 0 {
            return Ok(());
        }
        if is_all && pages == self.pages {
            self.amounts.iter().try_for_each(|word| write!(to, " {word}"))?;
        } else {
            let mut is_told = false;
            for (name, amount) in [("anon", self.anonymous), ("dirty", self.dirty)] {
                if let Some(amount) = amount {
                    is_told |= amount >= pages;
                    write!(to, " {name}={}", amount.min(pages))?;
                }
            }
            if !is_told {
                write!(to, " mapped={pages}")?;
            }
        }
        for (node, count) in counts() {
            write!(to, " N{node}={count}")?;
        }
        write!(to, " kernelpagesize_kB={}", self.page_kib)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(range: Range<u64>, policy: Policy, pages: &[(u32, u64)]) -> Piece {
        Piece { range, policy, counts: pages.iter().copied().collect() }
    }

    #[test]
    fn lines_are_the_kernel_s_with_other_nodes() {
        let text = "00401000 prefer (many):0-1 file=/bin/a\\040b mapped=9 mapmax=3 N0=9 kernelpagesize_kB=4\n\
            00500000 default heap anon=6 dirty=6 active=0 N0=6 kernelpagesize_kB=4\n\
            00600000 default\n\
            00700000 default huge anon=2 dirty=2 N0=2 kernelpagesize_kB=2048\n\
            7fff0000 default stack anon=1 dirty=1 N0=1 kernelpagesize_kB=4\n";
        let mappings = [0x40_1000..0x40_a000, 0x50_0000..0x50_8000, 0x60_0000..0x60_1000, 0x70_0000..0xb0_0000];
        let nodes = |numbers: &[u32]| numbers.iter().copied().collect();
        let all = nodes(&[0, 1, 2, 3]);
        let bound = Policy::new(2, nodes(&[1, 2]), &all).unwrap();
        let round = Policy::new(3 | 1 << 15, nodes(&[0, 1, 3]), &all).unwrap();
        let pieces = [
            piece(0x40_1000..0x40_a000, Policy::NONE, &[(0, 4), (3, 5)]),
            piece(0x50_0000..0x50_4000, Policy::NONE, &[(2, 2)]),
            piece(0x50_4000..0x50_8000, bound, &[(1, 3)]),
            piece(0x60_0000..0x60_1000, round, &[]),
            piece(0x70_0000..0xb0_0000, Policy::NONE, &[(1, 512), (2, 512)]),
        ];
        let mut to = String::new();
        lines(&mut to, text, &mappings, &pieces).unwrap();
        let wanted = "00401000 default file=/bin/a\\040b mapped=9 mapmax=3 N0=4 N3=5 kernelpagesize_kB=4\n\
            00500000 default heap anon=2 dirty=2 N2=2 kernelpagesize_kB=4\n\
            00504000 bind:1-2 heap anon=3 dirty=3 N1=3 kernelpagesize_kB=4\n\
            00600000 interleave=static:0-1,3\n\
            00700000 default huge anon=2 dirty=2 N1=1 N2=1 kernelpagesize_kB=2048\n";
        assert_eq!(to, wanted);
    }
}
