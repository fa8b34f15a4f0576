//! A fragment's code in the making: its two halves, the scratch registers, and the marks that say what state of the
//! program stands behind each piece of it.

use super::code::{Code, Field};
use super::scratch::Scratch;
use crate::ir::mark::{MapEntry, State, push_entry};
use crate::{Config, Error};
use alloc::vec::Vec;

/// How far the program has come where code is being written.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    /// The current instruction, as an offset from the start.
    pub instruction: u32,
    /// How many of its sites are counted.
    pub counted: u8,
    /// The segment whose execution is counted, plus 1; 0: none.
    pub begun: u16,
    /// Groups checked so far.
    pub checked: u16,
}

pub(crate) struct Emitter<'a> {
    pub config: &'a Config,
    /// The address of the fragment in the program.
    pub start: u64,
    pub hot: Code,
    pub cold: Code,
    pub scratch: Scratch,
    pub hot_map: Vec<MapEntry>,
    pub cold_map: Vec<MapEntry>,
    pub at: Progress,
}

impl Emitter<'_> {
    /// The address of the current instruction in the program.
    pub fn ip(&self) -> u64 {
        self.start + u64::from(self.at.instruction)
    }

    pub fn map_entry(&self, offset: u32, state: State) -> MapEntry {
        let state = if state == State::Before && self.at.counted > 0 { State::Counting } else { state };
        MapEntry {
            offset,
            instruction: self.at.instruction,
            spilled: self.scratch.spilled,
            saved: 0,
            state,
            counted: self.at.counted,
            begun: self.at.begun,
            checked: self.at.checked,
        }
    }

    #[inline(never)]
    pub fn map_hot(&mut self, state: State) {
        let entry = self.map_entry(self.hot.offset(), state);
        push_entry(&mut self.hot_map, entry);
    }

    /// The same state with other registers spilled.
    pub fn map_spilled(&mut self) {
        let state = self.hot_map.last().map_or(State::Before, |entry| entry.state);
        self.map_hot(state);
    }

    #[inline(never)]
    pub fn map_cold(&mut self, state: State) {
        let entry = self.map_entry(self.cold.offset(), state);
        push_entry(&mut self.cold_map, entry);
    }

    pub fn resolve_hot(&mut self, field: Field, target: u64) -> Result<(), Error> {
        let ok = self.hot.resolve(field, target);
        if ok { Ok(()) } else { Err(Error::OutOfReach { ip: self.start, target }) }
    }

    pub fn resolve_cold(&mut self, field: Field, target: u64) -> Result<(), Error> {
        let ok = self.cold.resolve(field, target);
        if ok { Ok(()) } else { Err(Error::OutOfReach { ip: self.start, target }) }
    }
}
