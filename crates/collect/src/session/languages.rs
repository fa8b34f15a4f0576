//! What runtimes within programs tell, and what is seen of them: code, collections, lines.

use super::clock::Clock;
use super::collections::Collections;
use super::executed_lines::ExecutedLines;
use super::images::Images;
use super::intern::{Code, Place};
use crate::runtimes::Runtimes;
use numalens_profile::ids::{ModuleId, SiteId, StackId};
use numalens_profile::python;
use rustc_hash::FxHashMap;

/// All of it.
#[derive(Default)]
pub struct Languages {
    pub runtimes: Runtimes,
    pub lines: ExecutedLines,
    pub collections: Collections,
    /// By a native stack, and the line that it worked for: the stack up to the interpreter, and that line.
    stacks: FxHashMap<(StackId, SiteId), Option<StackId>>,
}

impl Languages {
    /// Takes in which lines threads were seen at. Whether there are interpreters to look at.
    pub fn take_lines(&mut self, images: &mut Images, clock: &Clock) -> bool {
        for of_process in self.runtimes.executed_lines().chunk_by(|one, next| one.pid == next.pid) {
            let module = Some(images.made_code(of_process[0].pid as i32));
            for line in of_process {
                let site = images.code.site(Place { module, address: line.address });
                self.lines.add(line.tid, clock.since_start(line.time), site);
            }
        }
        self.runtimes.has_interpreters()
    }

    /// The line that an instruction worked for at a time; itself, if it is none's.
    pub fn line_near(&mut self, code: &Code, tid: u32, time_ns: u64, site: SiteId) -> SiteId {
        match self.lines.near(tid, time_ns) {
            Some(line) if self.works_for_lines(code, site) => line,
            _ => site,
        }
    }

    /// The stack of a thread of an interpreter at a time: what is on the native one up to the interpreter, and the line
    /// that it worked for. Itself, where it has no interpreter, or no line is known.
    pub fn stack_near(
        &mut self,
        images: &mut Images,
        tid: u32,
        time_ns: u64,
        stack: Option<StackId>,
    ) -> Option<StackId> {
        let (native, line) = (stack?, self.lines.near(tid, time_ns));
        let Some(line) = line else { return stack };
        if let Some(known) = self.stacks.get(&(native, line)) {
            return *known;
        }
        let mut places = images.code.places_until(native, python::is_interpreter);
        // What was copied of a stack may end before the interpreter.
        let reaches_it = places.len() < images.code.depth(native);
        let innermost = places.first().and_then(|place| place.module);
        let with_line = if reaches_it || innermost.is_some_and(|module| self.works(&images.code, module)) {
            places.push(images.code.place(line));
            images.code.stack(&places)
        } else {
            stack
        };
        self.stacks.insert((native, line), with_line);
        with_line
    }

    /// Whether an instruction is of code that works for lines of an interpreted language.
    pub fn works_for_lines(&mut self, code: &Code, site: SiteId) -> bool {
        code.place(site).module.is_some_and(|module| self.works(code, module))
    }

    fn works(&mut self, code: &Code, module: ModuleId) -> bool {
        self.lines.works_for(module, || code.path(module).to_owned())
    }
}
