//! A persisted fragment as bytes.
//!
//! ```text
//!   sum of what follows                            64 bits
//!   lengths, and what the fragment takes of each kind of number
//!   the program's code
//!   both halves of its code, without what they have of a place; the fields of each that have
//!   metadata (crate::fragment::metadata), without its base
//!   what the owner of the cache is told, one call after the other
//!   what few fragments have
//! ```

use super::place::Place;
use super::sum;
use crate::fragment::Rare;
use crate::fragment::metadata::Base;
use crate::fragment::packed::{put, put_signed, split, take, take_signed};
use crate::ir::values::Step;
use crate::{DerivedCount, SiteId};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// How many numbers of each kind a fragment takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Takes {
    pub last_pages: u32,
    pub executions: u32,
    pub sites: u32,
    /// Its records have to lie in one page of their table.
    pub together: bool,
}

/// A persisted fragment, whose pieces lie in the bytes that it was read from.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Record<'a> {
    pub takes: Takes,
    /// The program's code.
    pub code: &'a [u8],
    /// Both halves, hot and cold, as they are placed; and how much of each is code.
    pub halves: [&'a [u8]; 2],
    pub lengths: [u32; 2],
    /// The fields of both.
    pub fields: [&'a [u8]; 2],
    /// From where the numbers of members count, which count from the fragment's own.
    pub base: Base,
    pub metadata: &'a [u8],
    /// 0: none; else one more than where in the hot half a return comes.
    pub returns_at: u32,
    /// 0: none; else one more than the exit that goes back to the start.
    pub goes_back: u32,
    pub told: &'a [u8],
    pub rare: &'a [u8],
}

/// Bytes of the sum.
const SUM: usize = 8;

impl<'a> Record<'a> {
    pub fn pack(&self) -> Vec<u8> {
        let mut into = Vec::from([0; SUM]);
        let Takes { last_pages, executions, sites, together } = self.takes;
        let Base { site, last_page, executions: first_execution } = self.base;
        let [hot, cold] = self.lengths;
        let numbers = [last_pages, executions, sites, together.into(), hot, cold, site, last_page, first_execution];
        numbers.into_iter().chain([self.returns_at, self.goes_back]).for_each(|number| put(&mut into, number.into()));
        for piece in self.pieces() {
            put(&mut into, piece.len() as u64);
            into.extend_from_slice(piece);
        }
        let sum = sum(&into[SUM..]);
        into[..SUM].copy_from_slice(&sum.to_le_bytes());
        into
    }

    fn pieces(&self) -> [&'a [u8]; 8] {
        let ([hot, cold], [hot_fields, cold_fields]) = (self.halves, self.fields);
        [self.code, hot, cold, hot_fields, cold_fields, self.metadata, self.told, self.rare]
    }

    /// `None`: damaged.
    pub fn read(bytes: &'a [u8]) -> Option<Record<'a>> {
        let (said, mut rest) = bytes.split_first_chunk()?;
        if u64::from_le_bytes(*said) != sum(rest) {
            return None;
        }
        let numbers: [u32; 11] = core::array::from_fn(|_| take(&mut rest) as u32);
        let [last_pages, executions, sites, together, hot, cold, site, last_page, first_execution, ..] = numbers;
        let [.., returns_at, goes_back] = numbers;
        let pieces: [&[u8]; 8] = core::array::from_fn(|_| {
            let length = take(&mut rest);
            split(&mut rest, length)
        });
        let [code, hot_half, cold_half, hot_fields, cold_fields, metadata, told, rare] = pieces;
        Some(Record {
            takes: Takes { last_pages, executions, sites, together: together != 0 },
            code,
            halves: [hot_half, cold_half],
            lengths: [hot, cold],
            fields: [hot_fields, cold_fields],
            base: Base { site, last_page, executions: first_execution },
            metadata,
            returns_at,
            goes_back,
            told,
            rare,
        })
    }
}

/// What few fragments have, without what it has of its place.
pub(super) fn pack_rare(rare: Option<&Rare>, place: &Place) -> Vec<u8> {
    let mut into = Vec::new();
    let Some(Rare { sites, site_instructions, steps, loop_start, derived }) = rare else { return into };
    put(&mut into, sites.len() as u64);
    for (site, &instruction) in sites.iter().zip(site_instructions) {
        put(&mut into, site.0.wrapping_sub(place.site).into());
        put(&mut into, instruction.into());
    }
    put(&mut into, steps.len() as u64);
    for &Step { instruction, register, from, by } in steps {
        put(&mut into, instruction.into());
        into.extend([register, from]);
        put_signed(&mut into, by);
    }
    put(&mut into, loop_start.map_or(0, |at| at.wrapping_sub(place.hot) + 1));
    put(&mut into, derived.is_some().into());
    if let &Some((DerivedCount { register, shift, grown, bias, executions }, end)) = derived {
        into.extend([register, shift]);
        put_signed(&mut into, grown);
        put(&mut into, bias.wrapping_sub(place.records()).into());
        put(&mut into, executions.wrapping_sub(place.counters()).into());
        put(&mut into, end.into());
    }
    into
}

/// The same at `place`.
pub(super) fn read_rare(mut bytes: &[u8], place: &Place) -> Option<Box<Rare>> {
    if bytes.is_empty() {
        return None;
    }
    let bytes = &mut bytes;
    let number = |bytes: &mut &[u8]| take(bytes) as u32;
    let (mut sites, mut site_instructions, mut steps) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..take(bytes) {
        sites.push(SiteId(number(bytes).wrapping_add(place.site)));
        site_instructions.push(number(bytes));
    }
    for _ in 0..take(bytes) {
        let instruction = number(bytes);
        let &[register, from] = split(bytes, 2) else { return None };
        steps.push(Step { instruction, register, from, by: take_signed(bytes) });
    }
    let loop_start = take(bytes).checked_sub(1).map(|at| at.wrapping_add(place.hot));
    let mut derived = None;
    if take(bytes) != 0 {
        let &[register, shift] = split(bytes, 2) else { return None };
        let grown = take_signed(bytes);
        let (bias, executions) = (number(bytes), number(bytes));
        let (bias, executions) = (bias.wrapping_add(place.records()), executions.wrapping_add(place.counters()));
        derived = Some((DerivedCount { register, shift, grown, bias, executions }, number(bytes)));
    }
    let (sites, site_instructions, steps) = (sites.into(), site_instructions.into(), steps.into());
    Some(Box::new(Rare { sites, site_instructions, steps, loop_start, derived }))
}
