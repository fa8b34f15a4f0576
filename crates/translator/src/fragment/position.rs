//! What stands at an address in the code cache.

use super::metadata::Members;
use crate::ir::mark::State;
use crate::ir::member::Unmade;
use crate::ir::values::Step;
use crate::{DerivedCount, SiteId};

/// The state of the program behind an address in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position<'a> {
    /// The instruction of the program.
    pub ip: u64,
    /// What to do.
    pub state: State,
    /// Registers (a bit each) whose value stands in `context::SPILL`.
    pub spilled: u16,
    /// Registers (a bit each) whose value stands in `context::REGISTERS`.
    pub saved: u16,
    /// The sites of the instruction that have been counted, in the order of counting.
    pub counted: &'a [SiteId],
    /// All sites of the instruction that are counted one by one.
    pub sites: &'a [SiteId],
    /// Accesses of groups, at this instruction and after it, that the executions have counted already: see
    /// [`Position::unmade`].
    pub(crate) ahead: Members<'a>,
    /// Groups below this number have been checked.
    pub(crate) checked: u16,
    /// What becomes of registers of accesses on the way to them.
    pub(crate) steps: &'a [Step],
    /// The instruction, from the start of the fragment.
    pub(crate) instruction: u32,
    /// What the execution counter must get before anything is taken back.
    pub derived: Option<DerivedCount>,
    /// Instructions that are counted as executed and are not, or the other way round, if the thread does not go on in
    /// the cache: by page.
    pub unexecuted: [Unexecuted; 2],
}

/// What is wrong in the count of executed instructions of a page, where a run of code breaks off: to be added to
/// [`crate::Cache::correction`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unexecuted {
    /// The page's address.
    pub page: u64,
    /// What is to be added; 0: all is right.
    pub instructions: i64,
}

impl Position<'_> {
    /// On the way out of a fragment.
    pub(crate) fn leaving(ip: u64, spilled: u16, saved: u16) -> Self {
        let (state, counted, sites, ahead) = (State::Leaving, &[][..], &[][..], Members::default());
        let unexecuted = Default::default();
        Position {
            ip,
            state,
            spilled,
            saved,
            counted,
            sites,
            ahead,
            checked: 0,
            steps: &[],
            instruction: 0,
            derived: None,
            unexecuted,
        }
    }

    /// What has to be taken back if the thread does not go on in the cache, by [`crate::count::abandon`].
    pub fn unmade(&self) -> Unmade {
        let Position { ahead, checked, steps, instruction, .. } = *self;
        Unmade { ahead: ahead.iter().collect(), checked, steps: steps.to_vec(), instruction }
    }
}
