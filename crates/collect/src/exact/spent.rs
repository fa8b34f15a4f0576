//! Memory of the session file that nobody needs any more.
//!
//! Page numbers are never used again: a program that maps, touches and unmaps memory all its life goes on getting new ones. Their records and
//! counters are given back in groups, once all pages of a group have gone and every thread's last counts of them have been told. The same goes
//! for what ended threads and processes leave.

use super::file::SessionFile;
use numalens_event::exact::{self, Extent, PageCounts, PageRecord};

/// Pages whose counters share a page of memory.
const GROUP: u32 = 4096 / size_of::<PageCounts>() as u32;
const _: () = assert!((GROUP as usize * size_of::<PageRecord>()).is_multiple_of(4096));

/// The page numbers of a process that have ended, by group.
#[derive(Default)]
pub struct Spent {
    ended: Vec<u16>,
    /// Groups of which all pages have ended since the last look.
    full: Vec<u32>,
    /// Those of the look before. A stay that was settled at that very moment was in neither place: it has been found by now.
    due: Vec<u32>,
}

impl Spent {
    /// The page `number` has ended.
    pub fn page(&mut self, number: u32) {
        let group = (number / GROUP) as usize;
        if self.ended.len() <= group {
            self.ended.resize(group + 1, 0);
        }
        self.ended[group] += 1;
        if u32::from(self.ended[group]) == GROUP {
            self.full.push(number / GROUP);
        }
    }

    /// Gives back what was full at the look before this one, of a process and of its threads, which have been counted.
    pub fn discard(&mut self, file: &SessionFile, process: Extent, threads: impl Iterator<Item = Extent> + Clone) {
        let due = std::mem::replace(&mut self.due, std::mem::take(&mut self.full));
        for group in due {
            let part = |size: usize| {
                let bytes = u64::from(GROUP) * size as u64;
                u64::from(group) * bytes..(u64::from(group) + 1) * bytes
            };
            let (records, counts) = (part(size_of::<PageRecord>()), part(size_of::<PageCounts>()));
            file.discard(process, exact::process::PAGES + records.start..exact::process::PAGES + records.end);
            for thread in threads.clone() {
                file.discard(thread, exact::thread::PAGES + counts.start..exact::thread::PAGES + counts.end);
            }
        }
    }
}

/// Gives back what an ended thread has counted.
pub fn discard_thread(file: &SessionFile, thread: Extent) {
    file.discard(thread, 0..exact::EXTENT_BYTES);
}

/// Gives back what an ended process has said. Its header stays, for the program that follows; so does the table that its children may use.
pub fn discard_process(file: &SessionFile, process: Extent) {
    file.discard(process, exact::process::LOG..exact::process::LOOKUP);
    file.discard(process, exact::process::SITES..exact::EXTENT_BYTES);
}
