//! What a piece of code should count, by arithmetic.

use numalens_isa::Kind;
use std::collections::BTreeMap;

/// Accesses of one page: reads, writes.
pub type PageCounts = BTreeMap<u64, (u64, u64)>;

/// What a piece of code should have counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    pub kind: Kind,
    pub address: u64,
    pub count: u64,
}

pub fn reads(address: u64, count: u64) -> Expected {
    Expected { kind: Kind::Read, address, count }
}

pub fn writes(address: u64, count: u64) -> Expected {
    Expected { kind: Kind::Write, address, count }
}

pub fn updates(address: u64, count: u64) -> Expected {
    Expected { kind: Kind::ReadWrite, address, count }
}

pub fn by_page(expected: &[Expected]) -> PageCounts {
    let mut pages = PageCounts::new();
    for one in expected.iter().filter(|one| one.count > 0) {
        let (reads, writes) = pages.entry(one.address >> 12).or_default();
        if one.kind != Kind::Write {
            *reads += one.count;
        }
        if one.kind != Kind::Read {
            *writes += one.count;
        }
    }
    pages
}
