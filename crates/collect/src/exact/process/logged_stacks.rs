//! Call stacks in the log of a process, as page records refer to them.

use crate::exact::file::SessionFile;
use crate::session::Session;
use numalens_event::exact::{self, Extent, LogHeader, log};
use numalens_profile::ids::{SiteId, StackId};
use rustc_hash::FxHashMap;

/// What is known of call stacks, by the references to them.
#[derive(Default)]
pub struct LoggedStacks {
    /// Those that have been unwound.
    unwound: FxHashMap<u32, Option<StackId>>,
    /// The instructions of system calls that have placed pages.
    call_sites: FxHashMap<u32, SiteId>,
}

/// Where a call stack is logged.
#[derive(Clone, Copy)]
pub struct StackPlace<'a> {
    pub file: &'a SessionFile,
    pub extent: Extent,
    pub pid: i32,
    pub reference: u32,
}

impl StackPlace<'_> {
    /// Where in the log it begins; none: nothing is referred to.
    fn offset(&self) -> Option<u64> {
        Some(u64::from(self.reference.checked_sub(1)?) * 8)
    }
}

impl LoggedStacks {
    /// The call stack that the log holds there.
    pub fn stack(&mut self, session: &mut Session, place: StackPlace<'_>) -> Option<StackId> {
        let at = place.offset()?;
        if let Some(&known) = self.unwound.get(&place.reference) {
            return known;
        }
        let stack = read_stack(place.file, place.extent, at).and_then(|(words, bytes)| {
            let [ip, sp, bp, ..] = words;
            session.stack_from(place.pid, ip, sp, bp, &bytes)
        });
        self.unwound.insert(place.reference, stack);
        stack
    }

    /// The instruction of the system call of which the log holds the call stack there.
    pub fn call_site(&mut self, session: &mut Session, place: StackPlace<'_>) -> Option<SiteId> {
        if let Some(&site) = self.call_sites.get(&place.reference) {
            return Some(site);
        }
        let ([ip, ..], _) = read_stack(place.file, place.extent, place.offset()?)?;
        Some(*self.call_sites.entry(place.reference).or_insert(session.site_at(place.pid, ip)))
    }
}

fn read_stack(file: &SessionFile, extent: Extent, at: u64) -> Option<([u64; 4], Vec<u8>)> {
    const WORDS: usize = size_of::<LogHeader>() / 8;
    const MOST_BYTES: usize = 1 << 16;
    let begin = exact::process::LOG + at;
    // Read, not mapped: there are many, and to unmap one stops all threads of the recorder for a moment.
    let read = |from: u64, words: usize| file.read(extent, &(from..from + 8 * words as u64)).ok();
    let header = read(begin, WORDS)?;
    let (kind, bytes) = (header[0] as u32, (header[0] >> 32) as usize);
    let length = bytes.min(MOST_BYTES) / 8;
    if kind != log::STACK || length < WORDS + 4 {
        return None;
    }
    let words = read(begin + 8 * WORDS as u64, length - WORDS)?;
    // Words that were not logged lead nowhere, whatever they are.
    let mut bytes = vec![0; (words[3] as usize).min(MOST_BYTES)];
    for &word in &words[4..] {
        let place = (word >> log::STACK_PLACE) as usize * 8;
        if let Some(at) = bytes.get_mut(place..place + 8) {
            at.copy_from_slice(&(word & ((1 << log::STACK_PLACE) - 1)).to_le_bytes());
        }
    }
    Some(([words[0], words[1], words[2], words[3]], bytes))
}
