//! The ways out of a fragment in the making.

use crate::abi::registers::RAX;
use crate::counting::derived::count_at_jump_back;
use crate::emit::{Emitter, Memory};
use crate::ir::exit::{Exit, ExitKind};
use crate::ir::mark::{MapEntry, State, push_entry};
use crate::{DerivedCount, Error, ExitId, context};
use alloc::vec::Vec;

pub(crate) struct Exits {
    /// The number of the first.
    pub first: ExitId,
    pub list: Vec<Exit>,
    /// Where the fragment goes back to its start.
    pub loop_start: Option<u64>,
    /// What the stub of the jump there counts.
    pub derived: Option<DerivedCount>,
    /// The exit that goes back.
    pub goes_back: Option<ExitId>,
    /// Where a return comes from the call that ends the fragment.
    pub returns_at: Option<u64>,
}

impl Exits {
    /// `list`: empty, for its memory.
    pub fn new(first: ExitId, list: Vec<Exit>) -> Self {
        Exits { first, list, loop_start: None, derived: None, goes_back: None, returns_at: None }
    }

    /// A direct jump: to a stub at first, unless the fragment is a loop and goes back.
    pub fn jump(&mut self, out: &mut Emitter<'_>, opcode: &[u8], target: u64) -> Result<(), Error> {
        let field = out.hot.patchable(opcode);
        let again = self.loop_start.filter(|_| target == out.start);
        if again.is_some() {
            self.goes_back = Some(ExitId(self.first.0 + self.list.len() as u32));
        }
        let stub = out.cold.here();
        out.resolve_hot(field, again.unwrap_or(stub))?;
        let branch = out.hot.address_of(field);
        self.stub_after(out, ExitKind::Direct { branch }, target, again.is_some())
    }

    /// The code that calls the dispatcher for an exit.
    pub fn stub(&mut self, out: &mut Emitter<'_>, kind: ExitKind, target: u64) -> Result<(), Error> {
        self.stub_after(out, kind, target, false)
    }

    /// `goes_back`: that of the jump back to the start of a loop.
    fn stub_after(&mut self, out: &mut Emitter<'_>, kind: ExitKind, target: u64, goes_back: bool) -> Result<(), Error> {
        let index = self.list.len() as u32;
        let id = self.first.0.checked_add(index).filter(|&id| id < 1 << 31).ok_or(Error::TooMany)?;
        let entry = MapEntry {
            offset: out.cold.offset(),
            instruction: index,
            spilled: 0,
            saved: 1 << RAX,
            state: State::Leaving,
            counted: 0,
            begun: 0,
            checked: 0,
        };
        push_entry(&mut out.cold_map, entry);
        let stub = out.cold.here();
        out.cold.store(RAX, Memory::context(context::register(RAX)));
        if goes_back {
            self.derived.iter().for_each(|derived| count_at_jump_back(&mut out.cold, derived));
        }
        out.cold.constant(RAX, u64::from(id));
        out.cold.jump_context(None, context::DISPATCH);
        self.list.push(Exit { kind, target, stub });
        Ok(())
    }
}
