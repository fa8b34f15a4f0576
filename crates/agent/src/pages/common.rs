//! Pages that processes have in common: who came first, and, on a virtual machine, where they are.
//!
//! Problem: shared memory (MPI windows, a database's buffers, `multiprocessing`) is placed once, by whichever process
//! accesses a page first. A real kernel tells every process where that was, on a machine that does not exist nobody
//! does; and the page tables do not say that it was another process: a page is missing there until this one accesses
//! it.
//!
//! Mechanism: a table in the session file, by file and page, that all processes of a recording write and read. The
//! kernel says whether the file has the page (`mincore`):
//!
//! ```text
//!                       the table knows it              it does not
//!   the page is there   another process has placed it   the first to come here has
//!   it is not           it was given up: a new one      this access places it
//! ```
//! Whoever moves such a page changes its entry, and the others look at theirs again (`migrate.rs`).
//!
//! An entry is one word and changes all at once: of two processes that come at the same time, one finds what the other
//! has said. Who has said it has not made the access yet, so for a moment the page is not there: an entry says when it
//! was made, and is believed that long in any case.

use super::home::expected;
use super::query;
use crate::state::maps::{File, Mapping};
use crate::state::runtime::runtime;
use crate::state::thread::Thread;
use crate::sys;
use core::hash::BuildHasher;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Acquire};
use numalens_event::exact;
use rustc_hash::FxBuildHasher;

/// Pages that are neighbours have entries side by side: so many share a page of the table.
const GROUP: u64 = 512;
/// Places in the table that a group may have.
const PROBES: u64 = 64;
/// An entry, from below: the lowest bits of a class word; one that is always set; when it was made, in milliseconds,
/// modulo 2^16; what tells a page from others.
const CLASS: u64 = (1 << exact::CLASS_BITS) - 1;
const USED: u64 = 1 << exact::CLASS_BITS;
const TIME_SHIFT: u32 = exact::CLASS_BITS + 1;
const BELOW_TAG: u64 = 1 << (TIME_SHIFT + u16::BITS);
/// Milliseconds after which an access has been made that was about to be.
const MADE: u16 = 100;

/// A page of memory that others may have mapped, too.
pub struct Common<'a> {
    table: &'a [AtomicU64],
    /// Of its group.
    hash: u64,
    /// Its place in the group.
    within: usize,
}

/// Where a page is, and since when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placed {
    /// As [`exact::class_word`] makes it.
    pub class_word: u32,
    /// Another access has placed it, of this process or of another one.
    pub before: bool,
}

impl<'a> Common<'a> {
    /// The page `page` (by its address) of a mapping of `file`; none where it has none in common with others. The table
    /// has a power of two of groups.
    pub fn new(table: &'a [AtomicU64], file: &File, page: u64) -> Option<Self> {
        if table.is_empty() || file.key == 0 {
            return None;
        }
        let page = file.page(page);
        let hash = FxBuildHasher.hash_one((file.key, page / GROUP));
        Some(Common { table, hash, within: (page % GROUP) as usize })
    }

    /// Where the page is; if nobody has said so yet, or it is not there any more, where `fresh` says.
    /// `now`: in milliseconds.
    pub fn place(&self, fresh: u32, now: u16, is_there: impl FnOnce() -> bool) -> Placed {
        let tag = self.tag();
        let new = tag | u64::from(now) << TIME_SHIFT | USED | u64::from(fresh) & CLASS;
        let known = |entry: u64| Placed { class_word: 1 << 31 | (entry & CLASS) as u32, before: true };
        let mut is_there = Some(is_there);
        for at in self.places() {
            let entry = at.load(Acquire);
            let is_its = entry & !(BELOW_TAG - 1) == tag && entry != 0;
            if entry != 0 && !is_its {
                continue;
            }
            let age = now.wrapping_sub((entry >> TIME_SHIFT) as u16);
            if is_its && (age < MADE || is_there.take().is_some_and(|ask| ask())) {
                return known(entry);
            }
            match at.compare_exchange(entry, new, AcqRel, Acquire) {
                Ok(_) => break,
                // Another process has just placed it.
                Err(now) if now & !(BELOW_TAG - 1) == tag => return known(now),
                Err(_) => {}
            }
        }
        Placed { class_word: fresh, before: false }
    }

    /// Where the page is; none where nobody has said so.
    pub fn known(&self) -> Option<u32> {
        self.entry().map(|(_, entry)| 1 << 31 | (entry & CLASS) as u32)
    }

    /// The page has moved, to where `class_word` says. Whether others can know of it.
    pub fn moved(&self, class_word: u32) -> bool {
        while let Some((at, entry)) = self.entry() {
            let new = entry & !CLASS | u64::from(class_word) & CLASS;
            if at.compare_exchange(entry, new, AcqRel, Acquire).is_ok() {
                return true;
            }
        }
        false
    }

    fn tag(&self) -> u64 {
        self.hash & !(BELOW_TAG - 1)
    }

    /// Where its entry may stand.
    fn places(&self) -> impl Iterator<Item = &'a AtomicU64> {
        let (groups, _) = self.table.as_chunks::<{ GROUP as usize }>();
        let (hash, within) = (self.hash, self.within);
        (0..PROBES).map(move |probe| &groups[hash.wrapping_add(probe) as usize & (groups.len() - 1)][within])
    }

    fn entry(&self) -> Option<(&'a AtomicU64, u64)> {
        let entries = self.places().map(|at| (at, at.load(Acquire))).take_while(|&(_, entry)| entry != 0);
        entries.into_iter().find(|&(_, entry)| entry & !(BELOW_TAG - 1) == self.tag())
    }
}

/// Where a page is that other processes may have mapped, if it is such a one; `there`: this process has it mapped.
pub fn placed(thread: &Thread, terrain: &Mapping, page: u64, there: bool, pinned: bool) -> Option<Placed> {
    let common = Common::new(runtime().session.common(), &terrain.file, page)?;
    let fresh = exact::class_word(expected(page, thread, terrain), pinned);
    let now = (sys::now_ns() / 1_000_000) as u16;
    Some(common.place(fresh, now, || there || query::is_cached(page)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn word(home: u16) -> u32 {
        exact::class_word(Some(home), true)
    }

    #[test]
    fn the_first_process_places_a_page_for_all() {
        let table: Vec<AtomicU64> = (0..4 * GROUP).map(|_| AtomicU64::new(0)).collect();
        // The same page of the file at two addresses.
        let (one, other) = (File::new(7, 0x10_000, 3), File::new(7, 0x20_000, 0));
        let here = Common::new(&table, &one, 0x10_002).expect("a page");
        let there = Common::new(&table, &other, 0x20_005).expect("a page");
        assert_eq!(here.place(word(1), 0, || false), Placed { class_word: word(1), before: false });
        assert_eq!(there.place(word(2), 200, || true), Placed { class_word: word(1), before: true });
        // It comes before the access has been made.
        assert_eq!(there.place(word(2), 1, || false), Placed { class_word: word(1), before: true });
        // Its neighbour is another page.
        let next = Common::new(&table, &other, 0x20_006).expect("a page");
        assert_eq!(next.place(word(2), 200, || true), Placed { class_word: word(2), before: false });
        // It was given up, and is placed again.
        assert_eq!(there.place(word(3), 200, || false), Placed { class_word: word(3), before: false });
        assert_eq!(here.place(word(1), 300, || true), Placed { class_word: word(3), before: true });
        // It is moved by one mapping, and is elsewhere by the other.
        assert!(here.moved(word(5)));
        assert_eq!((there.known(), next.known()), (Some(word(5)), Some(word(2))));
        assert_eq!(there.place(word(1), 600, || true), Placed { class_word: word(5), before: true });
        let nobodys = Common::new(&table, &other, 0x20_007).expect("a page");
        assert!(nobodys.known().is_none() && !nobodys.moved(word(1)));
    }

    #[test]
    fn all_pages_of_a_file_are_told_apart() {
        let table: Vec<AtomicU64> = (0..8 * GROUP).map(|_| AtomicU64::new(0)).collect();
        let file = File::new(99, 0, 0);
        let place =
            |page: u64, home: u16| Common::new(&table, &file, page).expect("a page").place(word(home), 0, || true);
        for page in 0..1 << 10 {
            assert!(!place(page, page as u16 & 1023).before, "{page}");
        }
        for page in 0..1 << 10 {
            assert_eq!(place(page, 1024), Placed { class_word: word(page as u16 & 1023), before: true });
        }
    }

    #[test]
    fn private_memory_has_no_entry() {
        let table: Vec<AtomicU64> = (0..16).map(|_| AtomicU64::new(0)).collect();
        assert!(Common::new(&table, &File::NONE, 1).is_none());
        assert!(Common::new(&[], &File::new(1, 0, 0), 1).is_none());
    }
}
