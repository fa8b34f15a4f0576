//! Runtimes whose garbage collectors are observed, where a program has them linked in. A file for each.
//!
//! What one does is seen where its functions begin and return, and by the words that they are given
//! ([`numalens_translator::Watch`]). It goes into the log as `log::COLLECTED`.

mod ghc;

use crate::state::thread::Thread;
use crate::static_program::executable::Mapped;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::{Acquire, Release};
use ghc::Ghc;
use numalens_translator::Watch;

/// That of this process, if it has one.
static GHC: AtomicPtr<Ghc> = AtomicPtr::new(core::ptr::null_mut());

fn get() -> Option<&'static Ghc> {
    // SAFETY: null, or leaked by `find` and only read since.
    unsafe { GHC.load(Acquire).as_ref() }
}

/// Looks for them in the program of this process, which begins with the first stack `stack`: what is to be watched.
pub fn find(stack: u64, file: &Mapped) -> Vec<(u64, Watch)> {
    let Some(ghc) = Ghc::find(stack, file.bytes()) else { return Vec::new() };
    let watched = ghc.watched();
    GHC.store(Box::leak(Box::new(ghc)), Release);
    watched
}

/// The program has come to an address that is watched. `home_of`: the node that has a page, if that is known.
pub fn reached(thread: &mut Thread, ip: u64, home_of: impl Fn(u64) -> Option<u16>) {
    if let Some(ghc) = get() {
        ghc.reached(thread, ip, home_of);
    }
}
