//! Threads and processes: begin, fork, end.

use super::call::{Call, EFAULT, EINVAL, Gate, Verdict, errno};
use super::fork;
use crate::pages::{in_call, reconcile_all};
use crate::state::own;
use crate::state::runtime::{is_virtual, runtime};
use crate::state::thread::Thread;
use crate::state::thread_context::ThreadContext;
use crate::sys::user;
use crate::sys::{self, PAGE, raw};
use crate::{call, entry, placement, signals, static_program};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Relaxed, Release};
use numalens_event::exact::end;
use numalens_isa::Register;
use numalens_isa::convention::system_call;
use numalens_translator::context as fixed;

/// What a new task is to be.
pub struct Task {
    /// `CLONE_*`. Those of clone3 have more than 32 bits.
    pub(super) flags: u64,
    /// The stack pointer that it begins with; 0: as it is.
    pub(super) stack: u64,
    pub(super) how: How,
}

/// How the kernel is told.
pub(super) enum How {
    /// By clone: parent's and child's word for the thread's id, thread-local data.
    Clone([u64; 3]),
    /// By clone3: so many bytes of its structure.
    Clone3(Vec<u64>, u64),
}

/// Words of clone3's structure.
pub(super) mod word {
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
    pub(super) fn clears_handlers(&self) -> bool {
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
    if task.has(raw::CLONE_VM) { share(thread, call, &task) } else { fork::copy(thread, &task) }
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
fn share(thread: &mut Thread, call: &Call, task: &Task) -> Verdict {
    let runtime = runtime();
    let Some(child) = child_to_be(thread, call, task) else {
        return Verdict::Done(errno(linux_raw_sys::errno::EAGAIN));
    };
    let (is_thread, extent, context) = (!child.borrows, child.extent, child.context);
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

/// A task that is about to be made by a thread, and will go on behind its call. None: there is no memory for it.
fn child_to_be(thread: &Thread, call: &Call, task: &Task) -> Option<&'static mut Thread> {
    let runtime = runtime();
    let session = &runtime.session;
    let is_thread = task.has(raw::CLONE_THREAD);
    let process = runtime.process().extent;
    // The id follows when the thread knows it.
    let extent = if is_thread { session.new_thread(process) } else { session.new_borrower(process) }?;
    let context = match take_retired() {
        Some(context) => context.fill(&runtime.layout, session, extent).map(|()| context),
        None => ThreadContext::new(&runtime.layout, session, extent),
    };
    let Ok(context) = context else {
        session.thread_ended(extent);
        return None;
    };
    runtime.prepare(context, extent);
    let actions = signals::inherit(&thread.signals.actions, task.has(raw::CLONE_SIGHAND));
    let child = Thread::new(context, extent, thread.place.clone(), actions);
    child.borrows = !is_thread;
    child.signals.clears_handlers = task.clears_handlers();
    child.signals.pending = thread.signals.pending.inherited();
    if is_virtual() {
        placement::begin(session, child);
    }
    // A vfork child keeps the alternate stack, a thread does not.
    if task.has(raw::CLONE_VFORK) {
        child.signals.alternate = thread.signals.alternate;
    }
    begin_behind(call, task, thread.context, context);
    session.entry(extent).stack.store(context.register(Register::Rsp), Relaxed);
    Some(child)
}

/// Has a child begin behind the call that makes it.
fn begin_behind(call: &Call, task: &Task, parent: ThreadContext, child: ThreadContext) {
    for register in Register::ALL {
        child.set_register(register, parent.register(register));
    }
    child.set(fixed::FLAGS, parent.get(fixed::FLAGS));
    child.set_register(system_call::RESULT, 0);
    if call.gate == Gate::Syscall {
        child.set_register(system_call::NEXT, call.next);
    }
    if task.stack != 0 {
        child.set_register(Register::Rsp, task.stack);
    }
    child.set(own::NEXT, call.next);
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
