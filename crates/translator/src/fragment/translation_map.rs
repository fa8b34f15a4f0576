//! What program state stands behind each address of a fragment's code.
//!
//! A thread can be stopped anywhere in the cache, by a signal or a fault. [`MapEntry`]s divide the code of a fragment
//! into segments in which the program's state can be had in the same manner; each is valid from its offset to the next
//! one's.
//!
//! There are many, a dozen a fragment, more than there is of the program's code. So they are kept [`super::packed`]:
//! each as what it changes of the one before, three bytes as a rule, and read from the start of its half of the
//! fragment.
//!
//! ```text
//!   byte      bits 0 to 2 the state, then a bit for each field that follows
//!   number    offset, less the one before's
//!   number    instruction, less the one before's            if its bit is set
//!   ...       spilled, saved, counted, begun and checked    likewise
//! ```

use super::packed::{put, put_signed, take, take_signed};
use crate::ir::mark::{MapEntry, State};
use alloc::vec::Vec;

/// What the first entry of a half is a difference from.
const NONE: MapEntry = MapEntry {
    offset: 0,
    instruction: 0,
    spilled: 0,
    saved: 0,
    state: State::Before,
    counted: 0,
    begun: 0,
    checked: 0,
};

const STATES: [State; 6] =
    [State::Before, State::Counting, State::Counted, State::AfterSyscall, State::String, State::Leaving];
const STATE: u8 = 7;
const INSTRUCTION: u8 = 1 << 3;
const SPILLED: u8 = 1 << 4;
const SAVED: u8 = 1 << 5;
const COUNTED: u8 = 1 << 6;
const GROUPS: u8 = 1 << 7;

/// Packs those of one half.
pub(crate) fn pack(entries: &[MapEntry], into: &mut Vec<u8>) {
    let mut before = NONE;
    for &entry in entries {
        let changes = [
            (INSTRUCTION, entry.instruction != before.instruction),
            (SPILLED, entry.spilled != before.spilled),
            (SAVED, entry.saved != before.saved),
            (COUNTED, entry.counted != before.counted),
            (GROUPS, (entry.begun, entry.checked) != (before.begun, before.checked)),
        ];
        let changed = changes.iter().filter(|(_, changed)| *changed).fold(0, |bits, (bit, _)| bits | bit);
        into.push(entry.state as u8 | changed);
        put(into, entry.offset.wrapping_sub(before.offset).into());
        if changed & INSTRUCTION != 0 {
            // As 32 bits: one after the largest number is 0.
            let by = entry.instruction.wrapping_sub(before.instruction) as i32;
            put_signed(into, by.into());
        }
        if changed & SPILLED != 0 {
            put(into, entry.spilled.into());
        }
        if changed & SAVED != 0 {
            put(into, entry.saved.into());
        }
        if changed & COUNTED != 0 {
            put(into, entry.counted.into());
        }
        if changed & GROUPS != 0 {
            put(into, entry.begun.into());
            put(into, entry.checked.into());
        }
        before = entry;
    }
}

/// Those of one half, in order.
pub(crate) fn unpack(mut bytes: &[u8]) -> impl Iterator<Item = MapEntry> {
    let mut entry = NONE;
    core::iter::from_fn(move || {
        let (&first, rest) = bytes.split_first()?;
        bytes = rest;
        entry.state = STATES[usize::from(first & STATE) % STATES.len()];
        entry.offset = entry.offset.wrapping_add(take(&mut bytes) as u32);
        if first & INSTRUCTION != 0 {
            entry.instruction = entry.instruction.wrapping_add(take_signed(&mut bytes) as u32);
        }
        if first & SPILLED != 0 {
            entry.spilled = take(&mut bytes) as u16;
        }
        if first & SAVED != 0 {
            entry.saved = take(&mut bytes) as u16;
        }
        if first & COUNTED != 0 {
            entry.counted = take(&mut bytes) as u8;
        }
        if first & GROUPS != 0 {
            entry.begun = take(&mut bytes) as u16;
            entry.checked = take(&mut bytes) as u16;
        }
        Some(entry)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry() -> impl Strategy<Value = MapEntry> {
        let numbers = (any::<u32>(), prop_oneof![0..300u32, Just(u32::MAX), any::<u32>()]);
        let sets = (any::<u16>(), prop_oneof![Just(0u16), any::<u16>()]);
        let rest = (0..STATES.len(), any::<u8>(), any::<u16>(), any::<u16>());
        (numbers, sets, rest).prop_map(|((offset, instruction), (spilled, saved), (state, counted, begun, checked))| {
            MapEntry { offset, instruction, spilled, saved, state: STATES[state], counted, begun, checked }
        })
    }

    proptest! {
        #[test]
        fn what_was_packed_comes_back(entries in prop::collection::vec(entry(), 0..20)) {
            let mut bytes = Vec::new();
            pack(&entries, &mut bytes);
            prop_assert_eq!(unpack(&bytes).collect::<Vec<_>>(), entries);
        }
    }

    #[test]
    fn states_are_packed_as_their_numbers() {
        for (number, state) in STATES.into_iter().enumerate() {
            assert_eq!(state as usize, number);
        }
    }

    #[test]
    fn neighbours_take_few_bytes() {
        let entries: Vec<MapEntry> =
            (0..10).map(|at| MapEntry { offset: at * 9, instruction: at * 4, ..NONE }).collect();
        let mut bytes = Vec::new();
        pack(&entries, &mut bytes);
        assert_eq!(bytes.len(), 29);
    }
}
