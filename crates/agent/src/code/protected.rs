//! Pages of code that stay writable for the program and are write-protected meanwhile ([`super::smc`]).

use crate::call;
use crate::state::maps::{Backing, Mapping, Maps};
use crate::sys::{PAGE, raw};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;

/// How often a page is protected: each time all of its code is translated again, with new sites.
const MOST_TIMES: u8 = 4;
/// Words of a page.
pub(super) const WORDS: usize = PAGE as usize / 8;
/// Pages protected at the same time: each may be a mapping of its own.
const MOST_PAGES: usize = 2048;

/// Where mappings with protected pages are, in all: from the start of the first to the end of the last. Only grows.
pub(super) static LOWEST: AtomicU64 = AtomicU64::new(u64::MAX);
pub(super) static HIGHEST: AtomicU64 = AtomicU64::new(0);

/// A page that is protected, or was.
#[derive(Default)]
pub(super) struct ProtectedPage {
    /// How often it was protected.
    times: u8,
    /// What it holds; none: it is not protected.
    pub(super) copy: Option<Box<[u64; WORDS]>>,
    /// Words of it that were looked at for the translation of others.
    pub(super) looked_at: Option<Box<[u64; WORDS / 64]>>,
    /// Threads that are about to write to it.
    pub(super) writers: u32,
    /// Writes within this second.
    pub(super) second: u64,
    pub(super) writes: u32,
}

/// Pages that are protected, and that were.
#[derive(Default)]
pub struct ProtectedPages {
    pub(super) pages: HashMap<u64, ProtectedPage, FxBuildHasher>,
    closed: usize,
}

impl ProtectedPages {
    /// Code in a range was looked at for the translation of other code.
    pub fn looked_at(&mut self, range: Range<u64>) {
        let Some(protected) = self.pages.get_mut(&(range.start & !(PAGE - 1))) else { return };
        let words = protected.looked_at.get_or_insert_default();
        for address in range {
            let word = (address % PAGE / 8) as usize;
            words[word / 64] |= 1 << (word % 64);
        }
    }

    /// Whether all of a range is protected.
    pub fn hold(&self, range: Range<u64>) -> bool {
        pages(&range).all(|page| self.is_closed(page))
    }

    fn is_closed(&self, page: u64) -> bool {
        self.closed > 0 && self.pages.get(&page).is_some_and(|protected| protected.copy.is_some())
    }

    /// Protects a range of pages, if it may be and no thread has its stack there. Whether it is.
    pub fn close(&mut self, maps: &Maps, range: Range<u64>, holds_a_stack: impl Fn(&Mapping) -> bool) -> bool {
        let open: Vec<u64> = pages(&range).filter(|&page| !self.is_closed(page)).collect();
        let spent = |page| self.pages.get(page).is_some_and(|protected| protected.times >= MOST_TIMES);
        if self.closed + open.len() > MOST_PAGES || open.iter().any(spent) {
            return false;
        }
        let mappings: Vec<&Mapping> = open.iter().filter_map(|&page| maps.find(page)).collect();
        if mappings.len() < open.len()
            || !mappings.iter().all(|mapping| may_be_protected(mapping) && !holds_a_stack(mapping))
        {
            return false;
        }
        for (&page, mapping) in open.iter().zip(mappings) {
            if !protect(page, mapping.protection & !raw::PROT_WRITE) {
                return false;
            }
            let protected = self.pages.entry(page).or_default();
            *protected = ProtectedPage {
                times: protected.times + 1,
                copy: Some(Box::new(read(page))),
                ..ProtectedPage::default()
            };
            self.closed += 1;
            LOWEST.fetch_min(mapping.start, Relaxed);
            HIGHEST.fetch_max(mapping.end, Relaxed);
        }
        true
    }

    /// Lets the program write to the protected pages of a range, and returns them.
    ///
    /// # Errors
    /// The page that cannot be made writable again.
    pub(super) fn open(&mut self, maps: &Maps, range: &Range<u64>) -> Result<Vec<u64>, u64> {
        if self.closed == 0 {
            return Ok(Vec::new());
        }
        let few = (range.end - range.start) / PAGE <= self.pages.len() as u64;
        let found: Vec<u64> = match few {
            true => pages(range).filter(|&page| self.is_closed(page)).collect(),
            false => self.pages.keys().copied().filter(|page| range.contains(page) && self.is_closed(*page)).collect(),
        };
        for &page in &found {
            if let Some(mapping) = maps.find(page)
                && !protect(page, mapping.protection)
            {
                return Err(page);
            }
            if let Some(protected) = self.pages.get_mut(&page) {
                *protected = ProtectedPage { times: protected.times, ..ProtectedPage::default() };
                self.closed -= 1;
            }
        }
        Ok(found)
    }
}

fn pages(range: &Range<u64>) -> impl Iterator<Item = u64> + use<> {
    (range.start & !(PAGE - 1)..range.end).step_by(PAGE as usize)
}

fn may_be_protected(mapping: &Mapping) -> bool {
    let wanted = raw::PROT_READ | raw::PROT_WRITE | raw::PROT_EXEC;
    // An image of a program that is mapped to be gone on with (a Lisp's core) is private as well.
    mapping.backing != Backing::Shared && !mapping.shared && mapping.protection & wanted == wanted
}

/// The words of a page.
pub(super) fn read(page: u64) -> [u64; WORDS] {
    // SAFETY: a page of the program's that can be read. Others may write to it meanwhile, which is what the comparison
    // with a later state finds.
    core::array::from_fn(|word| unsafe { ((page + 8 * word as u64) as *const u64).read_volatile() })
}

pub(super) fn protect(page: u64, protection: u32) -> bool {
    // SAFETY: a page of the program's that stays readable and executable; who writes to it comes here.
    unsafe { call!(__NR_mprotect, page, PAGE, protection) }.is_ok()
}
