//! Threads and processes: begin, fork, end.

use super::call::{Call, EFAULT, EINVAL, Gate, Verdict, errno};
use super::exec;
use crate::machine::published_policies;
use crate::pages::{Inherited, in_call, reconcile_all};
use crate::runtime::{give_up, is_virtual, runtime};
use crate::session_file::Session;
use crate::sys::{self, Errno, PAGE, raw};
use crate::thread::Thread;
use crate::thread_context::{ThreadContext, own};
use crate::{HEAP, call, entry, placement, signals, static_program, user};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Relaxed, Release};
use numalens_event::exact::{self, end, kind};
use numalens_translator::context as fixed;

/// What a new task is to be.
pub struct Task {
    /// `CLONE_*`. Those of clone3 have more than 32 bits.
    flags: u64,
    /// The stack pointer that it begins with; 0: as it is.
    stack: u64,
    how: How,
}

/// How the kernel is told.
enum How {
    /// By clone: parent's and child's word for the thread's id, thread-local data.
    Clone([u64; 3]),
    /// By clone3: so many bytes of its structure.
    Clone3(Vec<u64>, u64),
}

/// Words of clone3's structure.
mod word {
    pub const STACK: usize = 5;
    pub const STACK_BYTES: usize = 6;
}

/// Bytes of clone3's structure at least.
const LEAST_CLONE3: u64 = 64;

impl Task {
    /// That of clone.
    fn of_clone([flags, stack, parent_tid, child_tid, tls, _]: [u64; 6]) -> Self {
        Task { flags: flags & 0xffff_ffff, stack, how: How::Clone([parent_tid, child_tid, tls]) }
    }

    /// That of clone3, whose structure these words are; none where its stack is none.
    fn of_clone3(words: Vec<u64>, bytes: u64) -> Option<Self> {
        let [flags, stack, stack_bytes] = [0, word::STACK, word::STACK_BYTES].map(|at| words[at]);
        let is_whole = (stack == 0) == (stack_bytes == 0);
        let stack = stack.checked_add(stack_bytes).filter(|&end| is_whole && end <= sys::USER_END)?;
        Some(Task { flags, stack, how: How::Clone3(words, bytes) })
    }

    fn has(&self, flag: u32) -> bool {
        self.flags & u64::from(flag) != 0
    }

    /// Its signals are handled as by default.
    fn clears_handlers(&self) -> bool {
        self.flags & CLEAR_HANDLERS != 0 && !self.has(raw::CLONE_SIGHAND)
    }
}

/// `CLONE_CLEAR_SIGHAND`.
const CLEAR_HANDLERS: u64 = 1 << 32;

/// The program's clone.
pub fn clone(thread: &mut Thread, call: &Call) -> Option<Verdict> {
    Some(begin(thread, call, Task::of_clone(call.arguments)))
}

/// The program's fork.
pub fn fork(thread: &mut Thread, call: &Call) -> Option<Verdict> {
    Some(begin(thread, call, Task::of_clone([raw::SIGCHLD.into(), 0, 0, 0, 0, 0])))
}

/// The program's vfork.
pub fn vfork(thread: &mut Thread, call: &Call) -> Option<Verdict> {
    let flags = raw::CLONE_VM | raw::CLONE_VFORK | raw::SIGCHLD;
    Some(begin(thread, call, Task::of_clone([flags.into(), 0, 0, 0, 0, 0])))
}

fn begin(thread: &mut Thread, call: &Call, task: Task) -> Verdict {
    if thread.context.get(own::PENDING) != 0 {
        // What waits is delivered first; the call is made again afterwards.
        return Verdict::Resume(call.ip);
    }
    if task.has(raw::CLONE_VM) { share(thread, call, task) } else { copy(thread, task) }
}

/// The program's clone3.
pub fn clone3(thread: &mut Thread, call: &Call) -> Option<Verdict> {
    let [at, bytes, ..] = call.arguments;
    // The kernel refuses it without looking further.
    if !(LEAST_CLONE3..=PAGE).contains(&bytes) {
        return None;
    }
    let mut words = alloc::vec![0u64; bytes.div_ceil(8) as usize];
    let last = words.len() - 1;
    let read = user::read_words(at, &mut words[..last]).and_then(|()| {
        let mut rest = [0u8; 8];
        let from = last as u64 * 8;
        user::read_bytes(at + from, &mut rest[..(bytes - from) as usize])?;
        words[last] = u64::from_le_bytes(rest);
        Ok(())
    });
    Some(match Task::of_clone3(words, bytes) {
        _ if read.is_err() => Verdict::Done(EFAULT),
        Some(task) => begin(thread, call, task),
        None => Verdict::Done(EINVAL),
    })
}

/// A task that shares the memory: a thread, or a process that borrows it until it execs (vfork).
fn share(thread: &mut Thread, call: &Call, task: Task) -> Verdict {
    let (runtime, next) = (runtime(), call.next);
    let is_thread = task.has(raw::CLONE_THREAD);
    let no_memory = Verdict::Done(errno(linux_raw_sys::errno::EAGAIN));
    let process = runtime.process().extent;
    // The id follows when the thread knows it.
    let session = &runtime.session;
    let extent = if is_thread { session.new_thread(process) } else { session.new_borrower(process) };
    let Some(extent) = extent else { return no_memory };
    let reused = take_retired();
    let context = match reused {
        Some(context) => context.fill(&runtime.layout, &runtime.session, extent).map(|()| context),
        None => ThreadContext::new(&runtime.layout, &runtime.session, extent),
    };
    let Ok(context) = context else {
        runtime.session.thread_ended(extent);
        return no_memory;
    };
    runtime.prepare(context);
    let actions = signals::inherit(&thread.signals.actions, task.has(raw::CLONE_SIGHAND));
    let child = Thread::new(context, extent, thread.place.clone(), actions);
    child.borrows = !is_thread;
    child.signals.clears_handlers = task.clears_handlers();
    child.signals.pending = thread.signals.pending.inherited();
    if is_virtual() {
        placement::begin(&runtime.session, child);
    }
    // A vfork child keeps the alternate stack, a thread does not.
    if task.has(raw::CLONE_VFORK) {
        child.signals.alternate = thread.signals.alternate;
    }
    for register in 0..16 {
        context.set_register(register, thread.context.register(register));
    }
    context.set(fixed::FLAGS, thread.context.get(fixed::FLAGS));
    context.set_register(0, 0);
    if call.gate == Gate::Syscall {
        context.set_register(1, next);
    }
    if task.stack != 0 {
        context.set_register(4, task.stack);
    }
    context.set(own::NEXT, next);
    runtime.session.entry(extent).stack.store(context.register(4), Relaxed);
    let mask = signals::block_all();
    runtime.live.fetch_add(1, Relaxed);
    child.signals.first_mask = mask;
    let child = &raw mut *child;
    // SAFETY: the child goes to its own context at once; the parent goes on here. All signals are blocked in both.
    let result = unsafe {
        match &task.how {
            &How::Clone([parent_tid, child_tid, tls]) => {
                entry::clone_thread(task.flags, task.stack, parent_tid, child_tid, tls, context.0)
            }
            How::Clone3(words, bytes) => entry::clone3_thread(words.as_ptr(), *bytes, context.0),
        }
    };
    signals::set_mask(thread, mask);
    if sys::check(result).is_err() {
        // SAFETY: no child has seen it.
        drop(unsafe { Box::from_raw(child) });
        runtime.session.thread_ended(extent);
        runtime.live.fetch_sub(1, Relaxed);
        context.unmap(&runtime.layout);
    } else if is_virtual() && (is_thread || !task.has(raw::CLONE_VFORK)) {
        // It may be bound, and asked about, before it has run.
        runtime.session.entry(extent).id.store(result as u32, Release);
    } else if task.has(raw::CLONE_VFORK) && !is_thread {
        // It has its own memory by now, or is gone.
        runtime.live.fetch_sub(1, Relaxed);
        runtime.threads.lock().retain(|(_, other)| *other != context);
        in_call::forget(context);
        runtime.retired.lock().push((result as u32, context));
    }
    Verdict::Done(result)
}

/// A context whose thread is gone.
fn take_retired() -> Option<ThreadContext> {
    let mut retired = runtime().retired.lock();
    let gone = retired.iter().position(|&(tid, _)| {
        // SAFETY: signal 0 asks whether the thread exists.
        unsafe { call!(__NR_tgkill, sys::process_id(), tid, 0) }.is_err()
    })?;
    let context = retired.swap_remove(gone).1;
    // SAFETY: leaked by `Thread::new` when the context was made for a thread, which is gone.
    drop(unsafe { Box::from_raw(context.get(own::THREAD) as *mut Thread) });
    Some(context)
}

/// The first that a new thread does, on its own stack of the agent, all signals blocked.
pub fn begin_thread(thread: &mut Thread) {
    let runtime = runtime();
    thread.tid = sys::thread_id();
    let entry = runtime.session.entry(thread.extent);
    if !is_virtual() {
        placement::begin(&runtime.session, thread);
    }
    entry.start_ns.store(sys::now_ns(), Relaxed);
    runtime.session.take_name(thread.extent);
    entry.id.store(thread.tid, Release);
    runtime.threads.lock().push((thread.tid, thread.context));
    thread.context.log_fs_base(runtime.process());
    if thread.signals.clears_handlers {
        signals::clear_handlers(thread);
    }
}

/// A process with a copy of the memory.
fn copy(thread: &mut Thread, task: Task) -> Verdict {
    let runtime = runtime();
    let (clears_handlers, stack) = (task.clears_handlers(), task.stack);
    // The child begins on a copy of this very stack: what the program wants for its stack pointer is set below.
    let (number, arguments, _words) = match task.how {
        How::Clone([parent_tid, child_tid, tls]) => {
            (raw::__NR_clone, [task.flags, 0, parent_tid, child_tid, tls, 0], Vec::new())
        }
        How::Clone3(mut words, bytes) => {
            (words[word::STACK], words[word::STACK_BYTES]) = (0, 0);
            (raw::__NR_clone3, [words.as_ptr() as u64, bytes, 0, 0, 0, 0], words)
        }
    };
    let mask = signals::block_all();
    // Whatever is half done in another thread must be done before the memory is copied.
    runtime.code.hold();
    in_call::hold();
    runtime.retired.hold();
    runtime.threads.hold();
    runtime.shadow.hold();
    exec::hold();
    // SAFETY: held above, by this thread.
    let shared = runtime.shadow.shared_by_fork(runtime.process(), unsafe { &runtime.code.held().env.maps });
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
        exec::release();
        runtime.shadow.release();
        runtime.threads.force_free();
        runtime.retired.force_free();
        in_call::release(result == 0);
        runtime.code.force_free();
    }
    if result == 0 {
        if let Err(Errno(error)) = become_child(thread, child, &shared) {
            give_up(format_args!("a forked process cannot be observed (error {error})"));
        }
        if stack != 0 {
            thread.context.set_register(4, stack);
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
    runtime.session.entry(extent).stack.store(thread.context.register(4), Relaxed);
    runtime.session.take_name(extent);
    runtime.session.entry(extent).id.store(thread.tid, Release);
    thread.context.map_counters(&runtime.layout, &runtime.session, extent)?;
    runtime.shadow.inherit(&memory, shared);
    published_policies::publish_again(runtime);
    // The parent's other threads do not exist here.
    runtime.live.store(1, Relaxed);
    exec::forget();
    runtime.retired.lock().clear();
    *runtime.threads.lock() = alloc::vec![(thread.tid, thread.context)];
    Ok(())
}

/// Notes the end of a thread in the directory.
fn note_end(thread: &mut Thread) {
    if let Some(allocator) = static_program::allocator() {
        allocator.end(thread);
    }
    let session = &runtime().session;
    // Another thread may have named it.
    session.take_name(thread.first);
    placement::end_seats(session, thread, end::REPLACED);
    session.thread_ended(thread.first);
}

/// The program's exit: of one thread.
pub fn exit_thread(thread: &mut Thread, status: u64) -> ! {
    signals::block_all();
    note_end(thread);
    runtime().threads.lock().retain(|(_, context)| *context != thread.context);
    if !thread.borrows {
        runtime().retired.lock().push((thread.tid, thread.context));
        runtime().live.fetch_sub(1, Relaxed);
    }
    sys::exit(status as i32)
}

/// The program's exit_group.
pub fn exit_process(thread: &mut Thread, status: u64) -> ! {
    signals::block_all();
    if !thread.borrows {
        reconcile_all(thread);
    }
    note_end(thread);
    if !thread.borrows {
        let process = runtime().process().extent;
        runtime().session.give_back_slot(process);
        let entry = runtime().session.entry(process);
        entry.end_ns.store(sys::now_ns(), Relaxed);
        entry.end.store(end::EXIT | (status as u32 & 0xff) << 8, Release);
    }
    sys::exit_group(status as i32)
}
