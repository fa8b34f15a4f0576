//! Code fetches: how often each instruction is executed, by what is counted anyway.
//!
//! Problem: a counter for every piece of code would be one more memory access in each, and most pieces have a counter
//! already.
//!
//! Mechanism: a *segment* (the instructions of a fragment between two conditional jumps, see [`crate::ir::plan`]) is
//! run to its end or not begun, so whatever counts once in each of its runs counts its instructions:
//!
//! ```text
//!   its groups have last pages            their execution counter          nothing to add
//!   an operand accessed once in a run     the site, over all classes       nothing to add
//!   none of these                         an execution counter of its own   inc qword gs:[executions]
//! ```
//! The increment changes the flags: it stands before an instruction where nobody needs them. Flags are taken to be
//! needed after a return: Go returns from its preemption with flags that it restored two instructions before. Where
//! there is no such place, a register takes the detour (`mov`, `lea`, `mov`), one of those that a way out saves if
//! there is one.
//!
//! A run that breaks off, at a fault or for a signal, goes on through another fragment or not at all.
//! [`crate::Position::unexecuted`] says what it has counted too much, or not yet; that is added to the *correction* of
//! the code's page ([`crate::Cache::correction`]), a counter of executions that counts single instructions. What was
//! counted by a site follows that site: an access that did not happen is taken back there.

use super::Counting;
use crate::abi::registers::RCX;
use crate::emit::{Code, Emitter, Memory};
use crate::ir::decode::Decoded;
use crate::ir::mark::{MapEntry, State, push_entry};
use crate::ir::segments::{Own, Planned};
use crate::{Env, Error};

/// Adds one and leaves the flags alone.
fn count_quietly(code: &mut Code, register: u8, counter: Memory) {
    code.load(register, counter);
    code.lea(register, Memory::base(register, 1));
    code.store(register, counter);
}

impl<E: Env> Counting<'_, E> {
    /// Counts an execution before instruction `number`, if that is where a segment without any other counter counts its
    /// own.
    pub(crate) fn count_execution(&mut self, out: &mut Emitter<'_>, number: usize, one: &Decoded) -> Result<(), Error> {
        let planned = self.segments;
        let here = |planned: &Planned| match planned.own {
            Some(Own::Before(at) | Own::Quietly(at)) => at == number,
            Some(Own::OnTheWay) => planned.to == number + 1,
            None => false,
        };
        let Some((segment, planned)) = planned.iter().enumerate().find(|(_, planned)| here(planned)) else {
            return Ok(());
        };
        let segment = segment as u16;
        let executions = self.registry.new_execution_counter(segment)?;
        let counter = Memory::context(executions);
        out.map_hot(State::Before);
        match planned.own {
            Some(Own::Before(_)) => out.hot.increment(counter),
            Some(Own::Quietly(_)) => {
                let register = out.scratch.pick(&mut out.hot, one.before.registers, 0);
                out.map_spilled();
                count_quietly(&mut out.hot, register, counter);
            }
            _ => {
                self.count_on_the_way = Some((segment, executions));
                return Ok(());
            }
        }
        out.at.begun = segment + 1;
        out.map_hot(State::Before);
        Ok(())
    }

    /// Counts the execution that ends with a lookup, if nothing else has; rcx is saved by now, and not in use.
    pub(crate) fn count_execution_on_the_way(&mut self, out: &mut Emitter<'_>) {
        if let Some((segment, executions)) = self.count_on_the_way.take() {
            count_quietly(&mut out.hot, RCX, Memory::context(executions));
            out.at.begun = segment + 1;
            if let Some(entry) = out.hot_map.last().copied() {
                push_entry(&mut out.hot_map, MapEntry { offset: out.hot.offset(), begun: out.at.begun, ..entry });
            }
        }
    }
}
