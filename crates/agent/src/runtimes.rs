//! Runtimes that are observed where a program has them linked in: their garbage collectors, and Go's heap in a program
//! that loads libraries. A file for each, and for Go [`crate::allocator`].
//!
//! What one does is seen where its functions begin and return, and by the words that they are given
//! ([`numalens_translator::Watch`]). GHC's collections go into the log as `log::COLLECTED`.

mod ghc;

use crate::allocator::Allocator;
use crate::state::thread::Thread;
use crate::static_program::environment::Environment;
use crate::static_program::executable::{self, Mapped};
use crate::sys::user;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::{Acquire, Release};
use ghc::Ghc;
use numalens_translator::Watch;

/// Those of this process, if it has them.
static GHC: AtomicPtr<Ghc> = AtomicPtr::new(core::ptr::null_mut());
static GO: AtomicPtr<Allocator> = AtomicPtr::new(core::ptr::null_mut());

fn get<T>(one: &AtomicPtr<T>) -> Option<&'static T> {
    // SAFETY: null, or leaked by `find` and only read since.
    unsafe { one.load(Acquire).as_ref() }
}

/// Looks for them in the program of this process, which begins with the first stack `stack`: what is to be watched.
pub fn find(stack: u64, file: &Mapped) -> Vec<(u64, Watch)> {
    let mut watched = Vec::new();
    if let Some(ghc) = Ghc::find(stack, file.bytes()) {
        watched = ghc.watched();
        GHC.store(Box::leak(Box::new(ghc)), Release);
    }
    if let Some(go) = find_go(stack, file) {
        watched.extend(go.entries().map(|entry| (entry, Watch::Reached)));
        GO.store(Box::leak(Box::new(go)), Release);
    }
    watched
}

/// Go's heap, of a program that the library is preloaded into.
fn find_go(stack: u64, file: &Mapped) -> Option<Allocator> {
    if executable::is_static(file.bytes()) || executable::has_sanitizer(file.bytes()) {
        return None;
    }
    let channel = || Environment::channel_of(stack);
    Allocator::find_go(channel, file.bytes(), user::entry_of_program(stack)?)
}

/// The program has come to an address that is watched. `home_of`: the node that has a page, if that is known.
pub fn reached(thread: &mut Thread, ip: u64, home_of: impl Fn(u64) -> Option<u16>) {
    if let Some(go) = get(&GO) {
        go.reached(thread, ip);
    }
    if let Some(ghc) = get(&GHC) {
        ghc.reached(thread, ip, home_of);
    }
}
