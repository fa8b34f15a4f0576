//! Code that the program makes in memory that stays writable: how the agent knows that it has not changed.
//!
//! Problem: what compiles at run time (Java, node, .NET) writes code into pages that it never protects. Comparing a
//! fragment's code whenever it is entered costs more than the fragment itself: loops of Java took seven times as long.
//!
//! Mechanism: once a site of such a fragment has counted much, its pages are *write-protected*: the kernel lets nobody
//! write there. Fragments of protected pages are translated without a comparison. Whoever writes there faults, and
//! comes here:
//!
//! ```text
//!   a site has counted much   mprotect without PROT_WRITE, a copy of the page is made,
//!                             its fragments are invalidated and translated again
//!   the program writes        SIGSEGV, mprotect with PROT_WRITE
//!                             the thread makes one step: SIGTRAP, mprotect without, the page is compared with the copy
//!                             fragments of what is not as it was are invalidated; most writes are not to code,
//!                             but to what stands beside it
//!   the kernel would write    before the call the protection is taken off,
//!                             and all fragments of the page are invalidated ([`make_way`])
//! ```
//! What other threads write in the course of that step is found by the same comparison. That is why the kernel always
//! has our handler of SIGSEGV, and never a mask with it ([`crate::signals`]). A page that is written all the time is
//! not protected any more. Memory that holds a stack is never protected: the kernel writes signals there, and functions
//! within functions write what leads to them.

use super::protected::{HIGHEST, LOWEST, WORDS, protect, read};
use super::{Code, TranslationEnv};
use crate::state::failure::give_up;
use crate::state::runtime::runtime;
use crate::sys::{self, PAGE, raw};
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;

/// How often the program may write to a protected page in a second: each time takes some 10 microseconds.
const MOST_WRITES: u32 = 200;

impl Code {
    /// What is written in a range, or may be by a call that is about to be executed, is the program's again: nothing
    /// that was translated of its protected pages holds.
    pub fn unprotect(&mut self, range: &Range<u64>) {
        let Code { cache, env, .. } = self;
        match env.protected.open(&env.maps, range) {
            Ok(pages) => pages.into_iter().for_each(|page| cache.invalidate(env, page..page + PAGE)),
            Err(page) => give_up(format_args!("the page at {page:#x} cannot be made writable again")),
        }
    }

    /// The program has faulted at an address.
    pub fn faulted(&mut self, address: u64) -> Fault {
        let page = address & !(PAGE - 1);
        let TranslationEnv { maps, protected: all, .. } = &mut self.env;
        let mapping = maps.find(page).filter(|mapping| mapping.protection & raw::PROT_WRITE != 0);
        let (Some(mapping), Some(protected)) = (mapping, all.pages.get_mut(&page)) else { return Fault::NotOurs };
        if protected.copy.is_none() {
            // The protection has been taken off meanwhile.
            return Fault::Again;
        }
        let second = sys::now_ns() / 1_000_000_000;
        protected.writes = if protected.second == second { protected.writes + 1 } else { 1 };
        protected.second = second;
        if protected.writes > MOST_WRITES || !protect(page, mapping.protection) {
            self.unprotect(&(page..page + PAGE));
            return Fault::Again;
        }
        protected.writers += 1;
        Fault::Step(page)
    }

    /// A thread has written to a page, as [`Fault::Step`] said.
    pub fn written(&mut self, page: u64) {
        let TranslationEnv { maps, protected: all, .. } = &mut self.env;
        let Some(protected) = all.pages.get_mut(&page) else { return };
        protected.writers = protected.writers.saturating_sub(1);
        let Some(copy) = &mut protected.copy else { return };
        if protected.writers == 0
            && !maps.find(page).is_some_and(|mapping| protect(page, mapping.protection & !raw::PROT_WRITE))
        {
            self.unprotect(&(page..page + PAGE));
            return;
        }
        let now = read(page);
        let changed: Vec<usize> = (0..WORDS).filter(|&word| now[word] != copy[word]).collect();
        **copy = now;
        let looked_at =
            |word: &usize| protected.looked_at.as_ref().is_some_and(|words| words[word / 64] >> (word % 64) & 1 != 0);
        let all = changed.iter().any(looked_at);
        let Code { cache, env, .. } = self;
        if all {
            cache.invalidate(env, page..page + PAGE);
        } else if !changed.is_empty() {
            let ranges = changed.iter().map(|&word| page + 8 * word as u64).map(|start| start..start + 8);
            cache.changed(env, ranges);
        }
    }

    /// In the child of a fork, where no other thread goes on writing.
    pub fn close_protected(&mut self) {
        let open: Vec<u64> = self
            .env
            .protected
            .pages
            .iter()
            .filter(|(_, protected)| protected.writers > 0)
            .map(|(&page, _)| page)
            .collect();
        for page in open {
            if let Some(protected) = self.env.protected.pages.get_mut(&page) {
                protected.writers = 1;
            }
            self.written(page);
        }
    }
}

/// What a fault of the program's comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Not from such a protection.
    NotOurs,
    /// From one that is there no more.
    Again,
    /// From one of this page: the thread may write to it in one step, and then is to say [`Code::written`].
    Step(u64),
}

/// Takes the protection off that is in the way of a system call of the program's, which may write wherever its
/// arguments lead, and where the pieces begin that `pieces` says.
pub fn make_way(arguments: &[u64; 6], pieces: impl FnOnce(fn(u64))) {
    if HIGHEST.load(Relaxed) == 0 {
        return;
    }
    arguments.iter().for_each(|&address| make_way_at(address));
    pieces(make_way_at);
}

/// The same for memory at an address: how much is not known.
fn make_way_at(address: u64) {
    if !(LOWEST.load(Relaxed)..HIGHEST.load(Relaxed)).contains(&address) {
        return;
    }
    let mut code = runtime().code.lock();
    let mapping = code.env.maps.find(address).filter(|mapping| mapping.executable() && mapping.may_change());
    if let Some(end) = mapping.map(|mapping| mapping.end) {
        code.unprotect(&(address & !(PAGE - 1)..end));
    }
}
