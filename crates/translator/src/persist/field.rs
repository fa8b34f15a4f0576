//! The fields of a fragment's code that depend on its place, in one of its halves.

use super::place::{Kind, Place};
use crate::Config;
use crate::fragment::packed::{put, take};
use alloc::vec::Vec;

/// A field, so far from the start of the half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub at: usize,
    pub kind: Kind,
}

/// How many kinds there may be.
const KINDS: usize = 16;
const _: () = assert!(Kind::ALL.len() <= KINDS);

fn read(bytes: &[u8], Field { at, kind }: Field) -> Option<u64> {
    let field = bytes.get(at..at.checked_add(kind.width())?)?;
    Some(match *field {
        [a, b, c, d] if kind.is_distance() => i64::from(i32::from_le_bytes([a, b, c, d])) as u64,
        [a, b, c, d] => u32::from_le_bytes([a, b, c, d]).into(),
        _ => u64::from_le_bytes(field.try_into().ok()?),
    })
}

/// Adds `by` to a field. `None`: it does not fit.
fn add(bytes: &mut [u8], field: Field, by: u64) -> Option<()> {
    let value = read(bytes, field)?.wrapping_add(by);
    if field.kind.is_distance() {
        i32::try_from(value as i64).ok()?;
    }
    let width = field.kind.width();
    bytes.get_mut(field.at..field.at + width)?.copy_from_slice(&value.to_le_bytes()[..width]);
    Some(())
}

/// Finds the fields of a half, which is `one` at the one place and `other` at the other. `None`: some of what differs
/// cannot be told.
pub(super) fn find(config: &Config, [(one, from), (other, to)]: [(&[u8], &Place); 2]) -> Option<Vec<Field>> {
    if one.len() != other.len() {
        return None;
    }
    let (before, after) = (from.values(config), to.values(config));
    let changes: [u64; Kind::ALL.len()] = core::array::from_fn(|kind| after[kind].wrapping_sub(before[kind]));
    let mut fields: Vec<Field> = Vec::new();
    let mut at = 0;
    while let Some(differs) = (at..one.len()).find(|&at| one[at] != other[at]) {
        let fits = |field: &Field, by: u64| {
            let (Some(before), Some(after)) = (read(one, *field), read(other, *field)) else { return false };
            let changed = after.wrapping_sub(before);
            by != 0 && if field.kind.width() == 4 { changed as u32 == by as u32 } else { changed == by }
        };
        let begins = (at.max(differs.saturating_sub(7))..=differs).rev();
        let field = begins
            .flat_map(|at| Kind::ALL.iter().zip(changes).map(move |(&kind, by)| (Field { at, kind }, by)))
            .filter(|(field, _)| differs < field.at + field.kind.width())
            .find(|(field, by)| fits(field, *by));
        let (field, _) = field?;
        at = field.at + field.kind.width();
        fields.push(field);
    }
    Some(fields)
}

/// Takes away what a half has of its place.
pub(super) fn take_place_away(config: &Config, half: &mut [u8], place: &Place, fields: &[Field]) -> Option<()> {
    fields.iter().try_for_each(|&field| add(half, field, place.value(config, field.kind).wrapping_neg()))
}

pub(super) fn pack(fields: &[Field], into: &mut Vec<u8>) {
    let mut before = 0;
    for field in fields {
        put(into, ((field.at - before) * KINDS) as u64 | field.kind as u64);
        before = field.at;
    }
}

/// Gives a half its place, with the fields that were packed and the [`Place::values`] there. `None`: something is out
/// of reach.
pub(super) fn relocate(half: &mut [u8], values: &[u64; Kind::ALL.len()], mut packed: &[u8]) -> Option<()> {
    let mut at = 0usize;
    while !packed.is_empty() {
        let word = take(&mut packed) as usize;
        at = at.checked_add(word / KINDS)?;
        let kind = *Kind::ALL.get(word % KINDS)?;
        add(half, Field { at, kind }, values[kind as usize])?;
    }
    Some(())
}
