//! What a repeated string instruction is about to write.
//!
//! It counts when it is done, and nobody can tell then which pages it has placed itself. So the kernel is asked before
//! about those that are not known; the ones that are there become known, as if an ordinary access came to them. What it
//! then places are the others.

use super::access_handler::AccessHandler;
use super::query;
use super::table::Shadow;
use super::touch::touch;
use crate::state::runtime::runtime;
use crate::state::session_file::ProcessMemory;
use crate::sys::{PAGE_BITS, raw};
use alloc::vec::Vec;
use core::ops::Range;
use numalens_translator::PageEntry;
use numalens_translator::count::Run;

/// Pages that the kernel is asked about at once.
const AT_ONCE: u64 = 1024;

/// Finds out which pages of a range that is about to be written are there already.
pub(super) fn before_string_write(
    shadow: &Shadow,
    memory: &ProcessMemory,
    handler: &mut AccessHandler<'_>,
    run: &Run,
    range: Range<u64>,
) {
    let last = (range.end - 1) >> PAGE_BITS;
    let mut page = range.start >> PAGE_BITS;
    let is_new = |page: &u64| shadow.load(*page) == PageEntry::default();
    while page <= last {
        if !is_new(&page) {
            page += 1;
            continue;
        }
        let mapping = runtime().code.lock().env.maps.find(page << PAGE_BITS).copied();
        let Some(mapping) = mapping.filter(|mapping| mapping.protection & raw::PROT_WRITE != 0) else { return };
        let end = (last + 1).min(mapping.end >> PAGE_BITS).min(page + AT_ONCE);
        let new: Vec<u64> = (page..end).filter(is_new).collect();
        for (page, there) in new.iter().zip(query::presences(&new)) {
            if there.is_some() {
                let address = range.start.max(page << PAGE_BITS);
                touch(shadow, memory, handler, &Run { address, count: 1, ..*run });
            }
        }
        page = end;
    }
}
