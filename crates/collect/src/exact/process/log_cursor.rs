//! How far the log of a process was read, and what of it was given back.

use crate::exact::file::SessionFile;
use numalens_event::exact::{self, Extent, ProcessHeader};
use numalens_event::page;

/// Bytes of a log that are worth being given back.
const MUCH: u64 = 256 << 10;

/// How far the log of a process was read.
#[derive(Default)]
pub struct LogCursor {
    pub read: u64,
    given_back: u64,
    /// What of the log is over once pages below a number are known.
    heard: Option<(u64, u32)>,
}

impl LogCursor {
    /// Gives back the memory of what was read. Only call stacks are looked at later, by the records of pages that have
    /// them: those pages had their numbers when the stacks were logged, and a stack that was looked at once is known.
    /// Of its pages those are `known` whose numbers are lower.
    pub fn give_back(&mut self, file: &SessionFile, extent: Extent, header: &ProcessHeader, known: u32) {
        if let Some((heard, _)) = self.heard.take_if(|&mut (_, pages)| known >= pages) {
            let log = exact::process::LOG;
            file.discard(extent, log + self.given_back..log + heard);
            self.given_back = heard;
        }
        // Whole pages.
        let heard = page::begin(self.read);
        if self.heard.is_none() && heard > self.given_back + MUCH {
            self.heard = Some((heard, header.pages.given()));
        }
    }
}
