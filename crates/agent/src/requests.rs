//! What the program asks for by `include/numalens.h`: a no-op instruction with arguments in registers, which comes
//! here.
//!
//! ```text
//!   rdi: which request   rsi: a name, ended by 0, or an address   rdx: bytes   rax: 0, and 1 when it has been done
//! ```
//! Who starts or stops the counting waits until the collector has read everybody's counters: what a thread counts
//! before that belongs to the one part of the recording, what it counts after to the other. Marks of phases only go
//! into the log.

use crate::blocks;
use crate::marks;
use crate::pages;
use crate::placement;
use crate::state::collector::{ask, await_collector};
use crate::state::runtime::{is_virtual, runtime};
use crate::state::thread::Thread;
use crate::static_program;
use crate::sys;
use crate::sys::user;
use core::sync::atomic::Ordering::{Acquire, Release};
use numalens_event::request::{MOST_NAME_BYTES, Request};
use numalens_isa::convention::request::{FIRST, KIND, RESULT, SECOND, TIME};

/// Does what the program asks for, which goes on at `next`; what is for the preloaded library is left to that, where
/// there is one.
pub fn answer(thread: &mut Thread, next: u64) {
    let context = thread.context;
    let Some(request) = Request::from_number(context.register(KIND) as u32) else { return };
    match request {
        Request::Start | Request::Stop => count(request == Request::Start),
        Request::Begin | Request::End | Request::Mark => log_mark(thread, request, context.register(FIRST)),
        Request::Moved => look_again(thread),
        Request::Born => {
            blocks::born(runtime(), context.register(FIRST), context.register(SECOND));
            context.set_register(TIME, sys::now_ns());
        }
        Request::Dies => {
            context.set_register(RESULT, blocks::dies(runtime(), context.register(FIRST)));
            context.set_register(TIME, sys::now_ns());
            return;
        }
        Request::Leaves => {
            let (start, bytes) = (context.register(FIRST), context.register(SECOND));
            blocks::leaves(runtime(), start..start.saturating_add(bytes));
            context.set_register(TIME, sys::now_ns());
        }
        Request::WhenMoved => context.set_register(TIME, thread.calls.moved_ns.get()),
        Request::Alloc | Request::Free | Request::Name => match static_program::allocator() {
            Some(allocator) => allocator.declared(thread, request, next),
            None => return,
        },
    }
    context.set_register(RESULT, 1);
}

/// Has accesses counted, or not, from here on.
fn count(wanted: bool) {
    let runtime = runtime();
    let header = runtime.session.header();
    // What has been accessed is counted for where it is, as far as that can be known by now.
    pages::find_homes(&runtime.shadow, runtime.process(), 0..sys::USER_END);
    header.wanted.store(wanted.into(), Release);
    if header.counting.load(Acquire) == u32::from(wanted) {
        return;
    }
    let ticket = ask(header);
    await_collector(&header.answered, |answered| answered.wrapping_sub(ticket) as i32 >= 0);
}

/// Logs a phase or a mark, whose name the program has at an address.
fn log_mark(thread: &Thread, request: Request, name: u64) {
    let mut text = [0u8; MOST_NAME_BYTES];
    marks::mark(thread, request, user::read_beginning(name, &mut text));
}

/// Somebody else has bound threads or moved pages.
fn look_again(thread: &mut Thread) {
    if is_virtual() {
        return;
    }
    let runtime = runtime();
    let others: alloc::vec::Vec<u32> =
        runtime.threads.lock().iter().map(|(tid, _)| *tid).filter(|&tid| tid != thread.tid).collect();
    for tid in others {
        placement::notify(tid);
    }
    placement::changed(thread);
    // As after a call that moves pages.
    let code = runtime.code.lock();
    pages::doubt(&runtime.shadow, runtime.process(), 0..sys::USER_END, true);
    drop(code);
}
