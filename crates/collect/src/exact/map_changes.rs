//! What a process maps and unmaps, in order with all else that happens to its memory.
//!
//! A place in memory may be a file's now and another's a millisecond later. So a change is not taken in when the log is
//! read, but among the events of pages and blocks; and as instructions are reported by their addresses only, each
//! change says how many sites had been given before it:
//!
//! ```text
//!   sites    0 .. 41             42 .. 57                  58 ..
//!            |    map a.so: 42   |      unmap a.so: 58     |     map b.so: 58
//!            as before           in a.so, there            not there, then in b.so
//! ```

use crate::session::Session;
use numalens_event::exact::log;
use numalens_profile::ids::Page;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// A change of a process's memory map.
pub struct MapChange {
    /// When, on the clock of the records.
    pub time: u64,
    /// Sites with lower numbers were given before; none: the change moves no code.
    pub sites: Option<u32>,
    what: What,
}

enum What {
    Mapped {
        range: Range<u64>,
        offset: u64,
        prot: u64,
        shared: bool,
        segment: u64,
        name: String,
    },
    Unmapped(Range<u64>),
    Moved {
        from: u64,
        to: Range<u64>,
    },
    /// Thread-local variables lie below.
    Pointer(u64),
}

impl MapChange {
    /// As a record of a log reports it, whose text is taken from a word on by `text`; `None`: the record is about
    /// something else, or about no memory.
    pub fn read(what: u32, time: u64, words: &[u64], text: impl Fn(usize) -> String) -> Option<Self> {
        if let (log::THREAD_POINTER, &[base, ..]) = (what, words) {
            return Some(MapChange { time, sites: None, what: What::Pointer(base) });
        }
        let sites = Some(*words.get(sites_at(what)?)? as u32);
        let what = match (what, words) {
            (log::MAPPED, &[start, end, offset, prot, shared, ..]) => {
                let (shared, segment, name) = (shared & 1 != 0, shared & !1, text(6));
                What::Mapped { range: start..end, offset, prot, shared, segment, name }
            }
            (log::UNMAPPED, &[start, end, ..]) => What::Unmapped(start..end),
            (log::REMAPPED, &[from, start, end, ..]) => What::Moved { from, to: start..end },
            _ => return None,
        };
        let range = match &what {
            What::Mapped { range, .. } | What::Unmapped(range) | What::Moved { to: range, .. } => range,
            What::Pointer(_) => return None,
        };
        (!range.is_empty()).then_some(MapChange { time, sites, what })
    }

    /// How many sites had been given before the change that a record reports, if it reports one.
    pub fn sites_in(what: u32, words: &[AtomicU64]) -> Option<u32> {
        Some(words.get(sites_at(what)?)?.load(Relaxed) as u32)
    }

    /// Takes it in. Sites that were given before are known. Returns pages that may be another's now.
    pub fn apply(&self, session: &mut Session, pid: i32) -> Range<Page> {
        match &self.what {
            What::Mapped { range, offset, prot, shared, segment, name } => {
                session.range_mapped(pid, range.clone(), *offset, *prot, *shared, *segment, name);
            }
            What::Unmapped(range) => session.range_unmapped(pid, range.clone()),
            What::Moved { from, to } => session.range_moved(pid, *from, to.clone()),
            What::Pointer(base) => return session.thread_pointer(pid, *base),
        }
        Page(0)..Page(0)
    }
}

/// Which word of a record has the number of the next site.
fn sites_at(what: u32) -> Option<usize> {
    match what {
        log::MAPPED => Some(5),
        log::UNMAPPED => Some(2),
        log::REMAPPED => Some(3),
        _ => None,
    }
}
