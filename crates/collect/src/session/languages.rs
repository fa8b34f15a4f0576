//! What runtimes within programs tell, and what is seen of them: code, collections, lines.

use super::clock::Clock;
use super::collections::Collections;
use super::executed_lines::ExecutedLines;
use super::images::Images;
use super::intern::{Code, Place};
use crate::runtimes::Runtimes;
use numalens_profile::ids::SiteId;

/// All of it.
#[derive(Default)]
pub struct Languages {
    pub runtimes: Runtimes,
    pub lines: ExecutedLines,
    pub collections: Collections,
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

    /// Whether an instruction is of code that works for lines of an interpreted language.
    pub fn works_for_lines(&mut self, code: &Code, site: SiteId) -> bool {
        let Some(module) = code.place(site).module else { return false };
        self.lines.works_for(module, || code.path(module).to_owned())
    }
}
