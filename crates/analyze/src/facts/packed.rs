//! Sums of pages in a few bytes each. There may be a hundred million: as rows of a table they would take 88 bytes, of
//! which most are what the row before has too. So each says in what it differs from that one.
//!
//! ```text
//!   flags | page and process | run | node | home | thread | reads | writes | samples
//!           as far as the flags say that they differ
//! ```
//!
//! Numbers take seven bits to a byte. A thread's reads and writes of one page are mostly small ones: six bytes, then.

use crate::model::tally::Tally;
use numalens_profile::ids::{Page, ProcessId, ThreadId};
use numalens_topology::NodeId;
use std::marker::PhantomData;

/// What a key says of a page's use. Keys that tell less apart leave the rest as it is in all of them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Parts {
    pub page: Page,
    pub process: ProcessId,
    pub thread: ThreadId,
    pub node: Option<NodeId>,
    pub home: Option<NodeId>,
    /// 0: none.
    pub run: u32,
    pub initial: bool,
}

/// A key that is made of [`Parts`].
pub trait Packable: Copy {
    /// What it says.
    fn parts(&self) -> Parts;
    /// The key that says so.
    fn of(parts: &Parts) -> Self;
}

/// Keys with their sums, one after the other.
#[derive(Clone, PartialEq, Debug)]
pub struct Packed<K> {
    bytes: Vec<u8>,
    count: usize,
    last: Parts,
    of: PhantomData<K>,
}

const OTHER_PAGE: u8 = 1;
const OTHER_RUN: u8 = 1 << 1;
const OTHER_NODE: u8 = 1 << 2;
const OTHER_HOME: u8 = 1 << 3;
const INITIAL: u8 = 1 << 4;
const SAMPLED: u8 = 1 << 5;
const WRITTEN: u8 = 1 << 6;
/// As many writes as reads, as who adds to memory makes.
const WRITES_ARE_READS: u8 = 1 << 7;

impl<K> Default for Packed<K> {
    fn default() -> Self {
        Packed { bytes: Vec::new(), count: 0, last: Parts::default(), of: PhantomData }
    }
}

impl<K: Packable> Packed<K> {
    /// Of these, in this order.
    pub fn new(entries: &[(K, Tally)]) -> Self {
        let mut packed = Packed::default();
        entries.iter().for_each(|(key, tally)| packed.push(key, tally));
        packed.bytes.shrink_to_fit();
        packed
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds one behind the others.
    pub fn push(&mut self, key: &K, tally: &Tally) {
        let (now, last) = (key.parts(), self.last);
        let Tally { reads, writes, samples, estimated, squares } = *tally;
        let is_other_page = (now.page, now.process) != (last.page, last.process);
        let is_sampled = (samples, estimated, squares) != (0, 0, 0);
        let flags = [
            (OTHER_PAGE, is_other_page),
            (OTHER_RUN, now.run != last.run),
            (OTHER_NODE, now.node != last.node),
            (OTHER_HOME, now.home != last.home),
            (INITIAL, now.initial),
            (SAMPLED, is_sampled),
            (WRITTEN, writes != 0 && writes != reads),
            (WRITES_ARE_READS, writes != 0 && writes == reads),
        ];
        let flags = flags.iter().filter(|(_, is_set)| *is_set).fold(0, |all, (flag, _)| all | flag);
        self.bytes.push(flags);
        if is_other_page {
            self.number(now.page.0.wrapping_sub(last.page.0));
            self.number(u64::from(now.process.0));
        }
        if flags & OTHER_RUN != 0 {
            self.number(difference(now.run, last.run));
        }
        if flags & OTHER_NODE != 0 {
            self.number(number_of(now.node));
        }
        if flags & OTHER_HOME != 0 {
            self.number(number_of(now.home));
        }
        self.number(difference(now.thread.0, last.thread.0));
        self.number(reads);
        if flags & WRITTEN != 0 {
            self.number(writes);
        }
        if is_sampled {
            self.number(samples);
            self.number(estimated);
            self.number(squares as u64);
            self.number((squares >> 64) as u64);
        }
        self.count += 1;
        self.last = now;
    }

    /// All of them.
    pub fn iter(&self) -> Unpacked<'_, K> {
        Unpacked { bytes: &self.bytes, last: Parts::default(), of: PhantomData }
    }

    #[inline]
    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }
}

/// One after the other.
pub struct Unpacked<'a, K> {
    bytes: &'a [u8],
    last: Parts,
    of: PhantomData<K>,
}

impl<K> Unpacked<'_, K> {
    #[inline]
    fn number(&mut self) -> u64 {
        let (mut number, mut shift) = (0u64, 0);
        while let Some((byte, rest)) = self.bytes.split_first() {
            self.bytes = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                break;
            }
            shift += 7;
        }
        number
    }
}

impl<K: Packable> Iterator for Unpacked<'_, K> {
    type Item = (K, Tally);

    #[inline]
    fn next(&mut self) -> Option<(K, Tally)> {
        let (flags, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        let has = |flag| flags & flag != 0;
        let mut now = self.last;
        if has(OTHER_PAGE) {
            now.page.0 = now.page.0.wrapping_add(self.number());
            now.process.0 = self.number() as u32;
        }
        if has(OTHER_RUN) {
            now.run = changed(now.run, self.number());
        }
        if has(OTHER_NODE) {
            now.node = node_of(self.number());
        }
        if has(OTHER_HOME) {
            now.home = node_of(self.number());
        }
        now.initial = has(INITIAL);
        now.thread.0 = changed(now.thread.0, self.number());
        let mut tally = Tally { reads: self.number(), ..Tally::default() };
        if has(WRITTEN) {
            tally.writes = self.number();
        } else if has(WRITES_ARE_READS) {
            tally.writes = tally.reads;
        }
        if has(SAMPLED) {
            (tally.samples, tally.estimated) = (self.number(), self.number());
            tally.squares = u128::from(self.number()) | u128::from(self.number()) << 64;
        }
        self.last = now;
        Some((K::of(&now), tally))
    }
}

/// How two numbers differ: a small one where it is little, whichever is larger.
fn difference(now: u32, last: u32) -> u64 {
    let by = i64::from(now) - i64::from(last);
    (by << 1 ^ by >> 63) as u64
}

fn changed(last: u32, difference: u64) -> u32 {
    let by = (difference >> 1) as i64 ^ -((difference & 1) as i64);
    (i64::from(last) + by) as u32
}

/// 0: none.
fn number_of(node: Option<NodeId>) -> u64 {
    node.map_or(0, |node| u64::from(node.0) + 1)
}

fn node_of(number: u64) -> Option<NodeId> {
    Some(NodeId(number.checked_sub(1)? as u16))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    impl Packable for Parts {
        fn parts(&self) -> Parts {
            *self
        }

        fn of(parts: &Parts) -> Self {
            *parts
        }
    }

    fn entry() -> impl Strategy<Value = (Parts, Tally)> {
        let number = || prop_oneof![0u64..5, any::<u64>()];
        let node = || prop::option::of(prop_oneof![0u16..3, any::<u16>()]).prop_map(|node| node.map(NodeId));
        let key = (number(), number(), number(), node(), node(), number(), any::<bool>());
        let counts = (number(), prop::option::of(number()), number(), number(), any::<u128>(), any::<bool>());
        (key, counts).prop_map(|((page, process, thread, node, home, run, initial), counts)| {
            let (reads, writes, samples, estimated, squares, is_sampled) = counts;
            let exact = Tally { reads, writes: writes.unwrap_or(reads), ..Tally::default() };
            let parts = Parts {
                page: Page(page),
                process: ProcessId(process as u32),
                thread: ThreadId(thread as u32),
                node,
                home,
                run: run as u32,
                initial,
            };
            (parts, if is_sampled { Tally { samples, estimated, squares, ..exact } } else { exact })
        })
    }

    proptest! {
        #[test]
        fn what_is_packed_comes_out_again(entries in prop::collection::vec(entry(), 0..40)) {
            let packed = Packed::new(&entries);
            prop_assert_eq!(packed.len(), entries.len());
            prop_assert_eq!(packed.iter().collect::<Vec<_>>(), entries);
        }
    }

    #[test]
    fn a_thread_of_a_page_takes_six_bytes() {
        let mut packed = Packed::default();
        for page in 0..1000 {
            for thread in 0..8 {
                let node = Some(NodeId(thread as u16 % 4));
                let parts = Parts { page: Page(page), thread: ThreadId(thread), node, ..Parts::default() };
                packed.push(&parts, &Tally { reads: 200, writes: 17, ..Tally::default() });
            }
        }
        assert!(packed.bytes.len() <= 8000 * 6 + 8000, "{}", packed.bytes.len());
    }
}
