//! Pages that code is fetched from: they get a number and a class like those of data, though no access to them is
//! counted.

use super::first_touch::place;
use super::home::may_be_huge;
use super::query;
use super::table::{CHUNK, END, Shadow};
use crate::machine;
use crate::state::runtime::runtime;
use crate::state::session_file::ProcessMemory;
use crate::state::thread::Thread;
use crate::sys::PAGE_BITS;
use numalens_isa::Kind;
use numalens_translator::SiteId;
use numalens_translator::count::Run;

/// Code of the page at `address` is about to be executed for the first time. It has been read, so the page is
/// there: whoever wrote it is known, or the kernel has brought it from a file, unseen.
pub fn fetched(shadow: &Shadow, memory: &ProcessMemory, thread: &Thread, address: u64) {
    let page = address >> PAGE_BITS;
    if page >= END || shadow.load(page).slot != 0 {
        return;
    }
    let Some(terrain) = runtime().code.lock().env.maps.find(address).copied() else { return };
    let terrain = machine::in_force(terrain, page);
    let mut used = shadow.used.lock();
    // The zero page and the kernel's own code are nowhere.
    if shadow.load(page).slot != 0 || query::presence(page).is_none() {
        return;
    }
    let chunk = used.entry(page / CHUNK).or_default();
    // Part of a huge page that is known as a whole.
    if chunk.leader.is_some() && may_be_huge(&terrain, page) {
        return;
    }
    let run = Run { site: SiteId(0), kind: Kind::Read, address, size: 0, count: 0, done: false };
    if place(shadow, memory, thread, &run, &terrain, false, chunk).is_some() {
        chunk.used += 1;
    }
}
