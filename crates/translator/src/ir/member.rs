//! Accesses that are counted as members of groups, and what of that must be taken back.

use super::values::Step;
use crate::{LastPageSlot, SiteId};
use alloc::vec::Vec;

/// An access that is counted as a member of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ahead {
    /// Its site.
    pub site: SiteId,
    /// What its group is counted by.
    pub last_page: Option<LastPageSlot>,
    /// The group's number in the fragment.
    pub(crate) group: u16,
    /// The segment's number in the fragment.
    pub(crate) segment: u16,
    /// Its group is looked up in place already, or need not be.
    pub(crate) megamorphic: bool,
    /// The offset of its instruction in the fragment.
    pub(crate) instruction: u32,
}

/// Accesses that executions have counted and that will not be made: a [`Position`]'s, to be kept.
#[derive(Clone, Debug, Default)]
pub struct Unmade {
    pub(crate) ahead: Vec<Ahead>,
    pub(crate) checked: u16,
    pub(crate) steps: Vec<Step>,
    pub(crate) instruction: u32,
}

impl Unmade {
    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.ahead.is_empty()
    }

    /// The registers that an access would have found, from those of the thread that was stopped before it.
    pub(crate) fn registers_at(&self, one: &Ahead, stopped: &[u64; 16]) -> [u64; 16] {
        let mut registers = *stopped;
        for step in self.steps.iter().filter(|step| (self.instruction..one.instruction).contains(&step.instruction)) {
            let from = registers[usize::from(step.from & 15)];
            registers[usize::from(step.register & 15)] = from.wrapping_add_signed(step.by);
        }
        registers
    }
}
