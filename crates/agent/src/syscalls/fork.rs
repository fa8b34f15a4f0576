//! Fork: a process with a copy of the memory.

use super::call::Verdict;
use super::exec;
use super::tasks::{How, Task, word};
use crate::allocator;
use crate::blocks;
use crate::machine::published_policies;
use crate::pages::{self, Inherited, in_call, stack};
use crate::state::failure::give_up;
use crate::state::runtime::{Runtime, runtime};
use crate::state::session_file::Session;
use crate::state::thread::Thread;
use crate::sys::heap::HEAP;
use crate::sys::{self, Errno, raw};
use crate::{placement, signals};
use alloc::vec::Vec;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Relaxed, Release};
use numalens_event::exact::{self, kind};
use numalens_isa::Register;

/// A process with a copy of the memory.
pub fn copy(thread: &mut Thread, task: &Task) -> Verdict {
    let runtime = runtime();
    let (clears_handlers, stack) = (task.clears_handlers(), task.stack);
    // The child begins on a copy of this very stack: what the program wants for its stack pointer is set below.
    let (number, arguments, _words) = match &task.how {
        &How::Clone([parent_tid, child_tid, tls]) => {
            (raw::__NR_clone, [task.flags, 0, parent_tid, child_tid, tls, 0], Vec::new())
        }
        How::Clone3(words, bytes) => {
            let mut words = words.clone();
            (words[word::STACK], words[word::STACK_BYTES]) = (0, 0);
            (raw::__NR_clone3, [words.as_ptr() as u64, *bytes, 0, 0, 0, 0], words)
        }
    };
    let mask = signals::block_all();
    // Whatever is half done in another thread must be done before the memory is copied.
    hold_all(runtime);
    // SAFETY: held above, by this thread.
    let shared = pages::shared_by_fork(&runtime.shadow, runtime.process(), unsafe { &runtime.code.held().env.maps });
    thread.signals.actions.hold();
    HEAP.hold();
    let parent = runtime.process().extent;
    // Blocks that have pages of their own begin and end before this or after it, as none can while the table of pages
    // is held. The collector reads no further of this process until it knows the child, so it is told before there is
    // one.
    let child = child_to_be(&runtime.session, parent);
    // SAFETY: without CLONE_VM both go on with memory of their own.
    let result = unsafe { sys::for_program(number, arguments) };
    // SAFETY: held above, by this thread or by the one that this is a copy of.
    unsafe {
        HEAP.release();
        thread.signals.actions.release();
        release_all(runtime, result == 0);
    }
    if result == 0 {
        if let Err(Errno(error)) = become_child(thread, child, &shared) {
            give_up(format_args!("a forked process cannot be observed (error {error})"));
        }
        if stack != 0 {
            thread.context.set_register(Register::Rsp, stack);
        }
        if clears_handlers {
            signals::clear_handlers(thread);
        }
    } else if let Some(child) = child {
        let entry = runtime.session.entry(child);
        if sys::check(result).is_err() {
            entry.start_ns.store(u64::MAX, Release);
            SPARE_CHILD.store(child.0, Relaxed);
        } else {
            // It may be killed before it says so itself. In a namespace of its own it has another one.
            let _ = entry.id.compare_exchange(0, result as u32, Release, Relaxed);
        }
    }
    signals::set_mask(thread, mask);
    Verdict::Done(result)
}

/// Whatever is half done in another thread is done, and nothing begins until [`release_all`]: all locks of the agent
/// but its heap's and the program's signal actions', in the order in which they are taken.
fn hold_all(runtime: &Runtime) {
    runtime.code.hold();
    in_call::hold();
    runtime.retired.hold();
    runtime.threads.hold();
    runtime.shadow.hold();
    stack::hold();
    blocks::hold();
    allocator::hold();
    exec::hold();
}

/// Ends [`hold_all`].
///
/// # Safety
/// By the thread that held them, or in its forked child.
unsafe fn release_all(runtime: &Runtime, is_child: bool) {
    // SAFETY: the caller's promise.
    unsafe {
        exec::release();
        allocator::release();
        blocks::release();
        stack::release();
        runtime.shadow.release();
        runtime.threads.force_free();
        runtime.retired.force_free();
        in_call::release(is_child);
        runtime.code.force_free();
    }
}

/// The extent that was given for a process whose fork failed: a program may try so often that there would be none left.
static SPARE_CHILD: AtomicU32 = AtomicU32::new(exact::Extent::NONE.0);

/// An extent for a process that is about to be forked, from now on.
fn child_to_be(session: &Session, parent: exact::Extent) -> Option<exact::Extent> {
    match exact::Extent(SPARE_CHILD.swap(exact::Extent::NONE.0, Relaxed)) {
        exact::Extent::NONE => session.new_extent(kind::PROCESS, parent, 0, 0),
        spare => {
            session.entry(spare).start_ns.store(sys::now_ns(), Release);
            Some(spare)
        }
    }
}

fn become_child(thread: &mut Thread, process: Option<exact::Extent>, shared: &[Inherited]) -> Result<(), Errno> {
    let runtime = runtime();
    signals::forget(thread);
    thread.context.note_fs_base();
    thread.tid = sys::thread_id();
    let full = Errno(linux_raw_sys::errno::ENOSPC as i32);
    SPARE_CHILD.store(exact::Extent::NONE.0, Relaxed);
    let process = process.ok_or(full)?;
    runtime.session.entry(process).id.store(sys::process_id(), Release);
    let mut memory = *runtime.process();
    let (sites, segments) = {
        let env = &runtime.code.lock().env;
        (env.sites(), env.segments())
    };
    memory.become_another(&runtime.session, process, sites, segments)?;
    // SAFETY: the child of a fork has one thread, which holds no reference to the old one.
    unsafe { runtime.set_process(memory) };
    {
        let mut code = runtime.code.lock();
        code.env.process = memory;
        code.close_protected();
    }
    let extent = runtime.session.first_thread(process, exact::Extent::NONE).ok_or(full)?;
    (thread.first, thread.extent) = (extent, extent);
    thread.seats.clear();
    placement::begin(&runtime.session, thread);
    runtime.session.entry(extent).stack.store(thread.context.register(Register::Rsp), Relaxed);
    runtime.session.take_name(extent);
    runtime.session.entry(extent).id.store(thread.tid, Release);
    thread.context.map_counters(&runtime.layout, &runtime.session, extent)?;
    runtime.note_each(thread.context, extent);
    pages::inherit(&runtime.shadow, &memory, shared);
    published_policies::publish_again(runtime);
    // The parent's other threads do not exist here.
    runtime.live.store(1, Relaxed);
    exec::forget();
    runtime.retired.lock().clear();
    *runtime.threads.lock() = alloc::vec![(thread.tid, thread.context)];
    Ok(())
}
