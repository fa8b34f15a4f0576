//! Go's heap, of programs that are complete in themselves.
//!
//! Its allocator takes spans: runs of pages for objects of one size, for one large object, or for stacks of goroutines.
//! These are the blocks that are published, as carved out of the arenas that the runtime maps; an object is not, as
//! there are a hundred million a second. So a small object has the place that wanted the span.
//!
//! ```text
//!   mheap.alloc(pages, class)      ->  span    a block: 0 is the class of a large object, others have their size
//!   mheap.allocManual(pages, what) ->  span    a stack, or the collector's
//!   mheap.freeSpanLocked(span)                 the block is gone
//!   gcBgMarkStartWorkers ... gcSweep           a collection, from its first worker to the end of its marking
//! ```
//! A span tells its own address and pages in its fourth and fifth word (Go 1.12 to 1.26). What a call has asked for is
//! compared with what the span says: a runtime that has them elsewhere is believed nothing.

use super::calls::Underway;
use super::functions::GoFunction;
use super::{Allocator, Function, await_return, caller, on_stack};
use crate::marks;
use crate::state::thread::Thread;
use crate::sys;
use crate::sys::user;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use numalens_event::request::Request;
use numalens_isa::convention::go_function::{ARGUMENTS, RESULT};

/// Bytes of a page of Go's heap.
const PAGE: u64 = 8192;
/// Where a span has its address, and its pages behind it.
const START: u64 = 24;
/// What a span of a class has: bytes of each object, by the class without its lowest bit. 0: one large object.
const SIZES: [u16; 68] = [
    0, 8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256, 288, 320, 352, 384, 416, 448,
    480, 512, 576, 640, 704, 768, 896, 1024, 1152, 1280, 1408, 1536, 1792, 2048, 2304, 2688, 3072, 3200, 3456, 4096,
    4864, 5376, 6144, 6528, 6784, 6912, 8192, 9472, 9728, 10240, 10880, 12288, 13568, 14336, 16384, 18432, 19072,
    20480, 21760, 24576, 27264, 28672, 32768,
];
/// What a span that is no objects' is for: stacks.
const STACKS: u64 = 1;
/// The phase that a collection is.
const COLLECTION: &[u8] = b"garbage collection";

/// A collection has begun to mark.
static COLLECTS: AtomicBool = AtomicBool::new(false);

/// A span, as far as it is of interest.
struct GoSpan {
    start: u64,
    pages: u64,
}

impl GoSpan {
    fn at(address: u64) -> Option<Self> {
        let [start, pages] = [0, 8].map(|word| user::read::<u64>(address.wrapping_add(START + word)).ok());
        Some(GoSpan { start: start?, pages: pages? })
    }
}

impl Allocator {
    pub(super) fn go_entered(&self, thread: &mut Thread, function: GoFunction, sp: u64) {
        let arguments = ARGUMENTS.map(|register| thread.context.register(register));
        match function {
            GoFunction::Alloc | GoFunction::AllocManual => {
                let Some(back) = on_stack(sp, sp) else { return };
                let arguments = [arguments[0], arguments[1], arguments[2], 0, 0, 0];
                let begun_ns = sys::now_ns();
                let function = Function::Go(function);
                thread.allocations.underway = Some(Underway { sp, back, function, arguments, begun_ns, old: None });
                await_return(thread, back);
            }
            GoFunction::Free => {
                if let Some(span) = GoSpan::at(arguments[1]) {
                    self.given_back(thread, span.start);
                }
            }
            // A function that needs more stack is entered again.
            GoFunction::Marks if !COLLECTS.swap(true, Relaxed) => marks::mark(thread, Request::Begin, COLLECTION),
            GoFunction::Sweeps if COLLECTS.swap(false, Relaxed) => marks::mark(thread, Request::End, COLLECTION),
            GoFunction::Marks | GoFunction::Sweeps => {}
        }
    }

    pub(super) fn go_returned(&self, thread: &mut Thread, call: &Underway, function: GoFunction) {
        let [_, pages, what, ..] = call.arguments;
        let Some(span) = GoSpan::at(thread.context.register(RESULT)) else { return };
        if span.pages != pages || pages == 0 || !span.start.is_multiple_of(PAGE) {
            return;
        }
        let Some(bytes) = pages.checked_mul(PAGE) else { return };
        if !self.carved(thread, span.start, bytes, call.begun_ns, &caller(call, thread)) {
            return;
        }
        let size = SIZES.get((what & 0xff) as usize >> 1).copied().unwrap_or_default();
        match function {
            GoFunction::Alloc if size > 0 => {
                self.named(thread, span.start, alloc::format!("Go objects of {size} B").as_bytes());
            }
            GoFunction::Alloc => {}
            _ if what & 0xff == STACKS => self.named(thread, span.start, b"Go stacks"),
            _ => self.named(thread, span.start, b"Go collector"),
        }
    }
}
