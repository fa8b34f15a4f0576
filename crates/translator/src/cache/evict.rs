//! Evicting translations, so that their memory can be used again.
//!
//! Code cannot just be overwritten: other threads may be inside, stopped in front of it, or about to jump to what their
//! tables name. So it goes in two steps, for a range of the cache at a time:
//!
//! ```text
//!   close   nothing leads into the range any more: jumps of other fragments go to their stubs again,
//!           landings and sites of returns are unlinked from the tables of the threads. Threads that are
//!           inside finish their fragment and leave for good.
//!   close   once no thread is inside: again, as calls inside have put the sites of their returns into
//!           the tables since.
//!   evict   once no thread is inside, which may have come back by such a site: the fragments are
//!           forgotten, and the bytes are free.
//! ```
//!
//! How long to wait in between only the owner knows, who sees the threads come by.

use super::Cache;
use crate::ir::decode::pages;
use crate::{Env, FragmentId, Shadow};
use alloc::vec::Vec;
use core::num::NonZeroU64;
use core::ops::Range;

/// What the tables of the threads must not name any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unlinked {
    /// The offset from GS of the entry, as [`crate::Config::lookup_entry`] and [`crate::Config::return_entry`] give it.
    pub entry: u64,
    /// The code that it may name. An entry that names something else is right.
    pub code: u64,
    /// It is in the table of returns.
    pub is_return: bool,
}

impl Cache {
    /// Has nothing go into `range` of the cache any more, but for threads that are inside. Both halves of a room belong
    /// together: `range` holds hot halves, and what belongs to them is closed with them. Returns what must be unlinked
    /// from the tables of all threads before anybody goes on.
    pub fn close(&mut self, env: &mut impl Env, range: Range<u64>) -> Vec<Unlinked> {
        let mut unlinked = Vec::new();
        let fragments: Vec<(u64, FragmentId)> = self.hot.range(range.clone()).collect();
        for (_, id) in fragments {
            self.kill(env, id);
            let Some((next, at)) = self.get(id).and_then(|fragment| Some((fragment.end(), fragment.returning()?)))
            else {
                continue;
            };
            unlinked.push(Unlinked { entry: self.config.return_entry(next), code: at, is_return: true });
            if self.returns.get(&next) == Some(&at) {
                self.returns.remove(&next);
            }
        }
        let landings: Vec<(u64, u64)> = self.landings.range(range).collect();
        for (start, ip) in landings {
            unlinked.push(Unlinked { entry: self.config.lookup_entry(ip), code: start, is_return: false });
            let fragment = self.by_ip.get(&ip).copied().and_then(|id| self.get_mut(id));
            if let Some(fragment) = fragment.filter(|fragment| fragment.landing.map(NonZeroU64::get) == Some(start)) {
                fragment.landing = None;
            }
        }
        unlinked
    }

    /// Has all jumps between fragments go through the dispatcher once more, which links them again: threads that go
    /// round in linked code come by.
    pub fn unlink(&mut self, env: &mut impl Env) {
        for number in 0..self.fragments.len() as u32 {
            self.unlink_incoming(env, FragmentId(number));
        }
    }

    /// Forgets every translation of a range that was closed, whose bytes can then be used again. No thread is inside.
    pub fn evict(&mut self, range: Range<u64>) {
        let landings: Vec<(u64, u64)> = self.landings.range(range.clone()).collect();
        landings.into_iter().for_each(|(start, _)| self.landings.remove(start));
        let fragments: Vec<(u64, FragmentId)> = self.hot.range(range).collect();
        for (start, id) in fragments {
            self.hot.remove(start);
            self.forget(id);
        }
    }

    /// Forgets every translation, which no thread is inside of, or comes back to. From now on the table of pages is
    /// where `shadow` says. The tables of the threads are to be emptied before anybody goes on.
    pub fn restart(&mut self, env: &mut impl Env, shadow: Shadow) {
        self.close(env, 0..u64::MAX);
        self.evict(0..u64::MAX);
        self.returns.clear();
        self.config.shadow = shadow;
    }

    fn forget(&mut self, id: FragmentId) {
        let Some(fragment) = self.fragments.get_mut(id.0 as usize).and_then(Option::take) else { return };
        self.cold.remove(fragment.cold());
        for page in pages(fragment.ip..fragment.end()) {
            if let Some(fragments) = self.by_page.get_mut(&page) {
                fragments.retain(|&other| other != id);
            }
        }
        // Its jumps are no jumps any more: their targets must not patch them.
        let exits = fragment.first_exit.0..fragment.first_exit.0 + fragment.exits().count() as u32;
        for exit in fragment.exits() {
            let target = self.by_ip.get(&exit.target).and_then(|id| self.fragments.get_mut(id.0 as usize));
            if let Some(target) = target.and_then(Option::as_mut) {
                self.links.remove(&mut target.incoming, exits.clone());
            }
        }
    }
}
