//! How code is translated.

use crate::state::thread_context::{self, Layout};
use core::sync::atomic::Ordering::Relaxed;
use numalens_event::exact::{self, SessionHeader};
use numalens_translator::{Config, FragmentLimits, Scheme, Shadow};

/// How code is translated for thread contexts of this layout, with the table of pages at this place.
pub fn config(layout: &Layout, shadow: Shadow, header: &SessionHeader, is_virtual: bool) -> Config {
    let debug = header.debug.load(Relaxed);
    let (stack, code) = (header.stack.load(Relaxed) != 0, header.code.load(Relaxed) != 0);
    Config {
        code,
        count: debug & exact::debug::NO_COUNTING == 0,
        stack_operands: stack,
        stack_operations: stack,
        shadow,
        lookup: thread_context::LOOKUP as u32,
        lookup_bits: thread_context::LOOKUP_BITS,
        sites: thread_context::SITES as u32,
        pages: thread_context::PAGES as u32,
        updates: -(thread_context::UPDATES_BYTES as i32),
        direct: -((thread_context::UPDATES_BYTES + thread_context::DIRECT_BYTES) as i32),
        direct_pages: exact::DIRECT_PAGES,
        scheme: match debug & (exact::debug::FLAT | exact::debug::LAST_PAGE | exact::debug::LOOPS) {
            0 => Scheme::LongLoops,
            exact::debug::FLAT => Scheme::Flat,
            exact::debug::LOOPS => Scheme::Loops,
            _ => Scheme::LastPage,
        },
        each: layout.each(),
        most_sites: layout.sites,
        last_pages: layout.last_pages() as u32,
        executions: layout.executions() as u32,
        touched: thread_context::TOUCHED as u32,
        fragments: FragmentLimits { instructions: 48, in_a_row: 128, side_exits: 2 },
        flags_dead_at_calls: true,
        own_processor: is_virtual,
    }
}
