//! Threads and processes: begin, fork, exec, end.

use super::{Verdict, errno};
use crate::area::{Area, own};
use crate::inject::{self, Plan};
use crate::pages::{Inherited, is_virtual};
use crate::program::{self, Prospect};
use crate::runtime::{self, runtime};
use crate::sys::{self, Errno, PAGE, raw};
use crate::thread::Thread;
use crate::{HEAP, boot, call, entry, placement, signals};
use alloc::boxed::Box;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicI32, AtomicU32};
use numalens_event::exact::{self, end, kind, log};
use numalens_translator::area as fixed;

/// The program's clone, fork or vfork; arguments as clone has them.
pub fn clone(thread: &mut Thread, ip: u64, next: u64, arguments: [u64; 6]) -> Verdict {
    let flags = arguments[0] as u32;
    if thread.area.get(own::PENDING) != 0 {
        // What waits is delivered first; the call is made again afterwards.
        return Verdict::Continue(runtime::enter(thread, ip));
    }
    if flags & raw::CLONE_VM != 0 { share(thread, next, arguments) } else { fork(thread, arguments) }
}

/// A task that shares the memory: a thread, or a process that borrows it until it execs (vfork).
fn share(thread: &mut Thread, next: u64, [flags, stack, parent_tid, child_tid, tls, _]: [u64; 6]) -> Verdict {
    let runtime = runtime();
    let is_thread = flags as u32 & raw::CLONE_THREAD != 0;
    let no_memory = Verdict::Done(errno(linux_raw_sys::errno::EAGAIN));
    let process = runtime.process().extent;
    // The id follows when the thread knows it.
    let Some(extent) = runtime.session.new_thread(process) else { return no_memory };
    let reused = take_retired();
    let area = match reused {
        Some(area) => area.fill(&runtime.layout, &runtime.session, extent).map(|()| area),
        None => Area::new(&runtime.layout, &runtime.session, extent),
    };
    let Ok(area) = area else {
        runtime.session.entry(extent).end_ns.store(sys::now_ns(), Relaxed);
        return no_memory;
    };
    boot::prepare(area);
    let shared_actions = flags as u32 & raw::CLONE_SIGHAND != 0;
    let actions = signals::inherit(&thread.actions, shared_actions);
    let child = Thread::new(area, extent, thread.place.clone(), actions);
    child.borrows = !is_thread;
    if is_virtual() {
        placement::begin(&runtime.session, child);
    }
    // A vfork child keeps the alternate stack, a thread does not.
    if flags as u32 & raw::CLONE_VFORK != 0 {
        child.alternate = thread.alternate;
    }
    for register in 0..16 {
        area.set_register(register, thread.area.register(register));
    }
    area.set(fixed::FLAGS, thread.area.get(fixed::FLAGS));
    area.set_register(0, 0);
    area.set_register(1, next);
    if stack != 0 {
        area.set_register(4, stack);
    }
    area.set(own::NEXT, next);
    runtime.session.entry(extent).stack.store(area.register(4), Relaxed);
    let mask = signals::block_all();
    child.first_mask = mask;
    let child = &raw mut *child;
    // SAFETY: the child goes to its own area at once; the parent goes on here. All signals are blocked in both.
    let result = unsafe { entry::clone_thread(flags, stack, parent_tid, child_tid, tls, area.0) };
    signals::set_mask(thread, mask);
    if sys::check(result).is_err() {
        // SAFETY: no child has seen it.
        drop(unsafe { Box::from_raw(child) });
        runtime.session.entry(extent).end_ns.store(sys::now_ns(), Relaxed);
        sys::unmap(area.0, runtime.layout.bytes());
    } else if is_virtual() && is_thread {
        // It may be bound, and asked about, before it has run.
        runtime.session.entry(extent).id.store(result as u32, Release);
    } else if flags as u32 & raw::CLONE_VFORK != 0 && !is_thread {
        // It has its own memory by now, or is gone.
        runtime.threads.lock().retain(|(_, other)| *other != area);
        runtime.retired.lock().push((result as u32, area));
    }
    Verdict::Done(result)
}

/// An area whose thread is gone.
fn take_retired() -> Option<Area> {
    let mut retired = runtime().retired.lock();
    let gone = retired.iter().position(|&(tid, _)| {
        // SAFETY: signal 0 asks whether the thread exists.
        unsafe { call!(__NR_tgkill, sys::process_id(), tid, 0) }.is_err()
    })?;
    let area = retired.swap_remove(gone).1;
    // SAFETY: leaked by `Thread::new` when the area was made for a thread, which is gone.
    drop(unsafe { Box::from_raw(area.get(own::THREAD) as *mut Thread) });
    Some(area)
}

/// The first that a new thread does, on its own stack of the agent, all signals blocked. Returns where to go on.
///
/// # Safety
/// For the assembly of [`crate::entry`] only: `area` is this thread's, and the thread is in the agent.
pub unsafe extern "C" fn on_new_thread(area: Area) -> u64 {
    // SAFETY: the area of this thread, made for it.
    let thread = unsafe { Thread::of(area) };
    thread.tid = sys::thread_id();
    let entry = runtime().session.entry(thread.extent);
    if !is_virtual() {
        placement::begin(&runtime().session, thread);
    }
    entry.start_ns.store(sys::now_ns(), Relaxed);
    runtime().session.take_name(thread.extent);
    entry.id.store(thread.tid, Release);
    runtime().threads.lock().push((thread.tid, area));
    let next = area.get(own::NEXT);
    let entry = runtime::enter(thread, next);
    signals::open(thread);
    entry
}

/// A process with a copy of the memory.
fn fork(thread: &mut Thread, arguments: [u64; 6]) -> Verdict {
    let runtime = runtime();
    let mask = signals::block_all();
    // Whatever is half done in another thread must be done before the memory is copied.
    runtime.code.hold();
    runtime.retired.hold();
    runtime.threads.hold();
    runtime.shadow.hold();
    // SAFETY: held above, by this thread.
    let shared = runtime.shadow.shared_by_fork(runtime.process(), unsafe { &runtime.code.held().world.maps });
    HEAP.hold();
    let parent = runtime.process().extent;
    // The child begins on a copy of this very stack: what the program wants for its stack pointer is set below.
    let [flags, stack, parent_tid, child_tid, tls, _] = arguments;
    // SAFETY: without CLONE_VM both go on with memory of their own.
    let result = unsafe { sys::for_program(raw::__NR_clone, [flags, 0, parent_tid, child_tid, tls, 0]) };
    // SAFETY: held above, by this thread or by the one that this is a copy of.
    unsafe {
        HEAP.release();
        runtime.shadow.release();
        runtime.threads.force_free();
        runtime.retired.force_free();
        runtime.code.force_free();
    }
    if result == 0 {
        if let Err(Errno(error)) = become_child(thread, parent, &shared) {
            runtime::give_up(format_args!("a forked process cannot be observed (error {error})"));
        }
        if stack != 0 {
            thread.area.set_register(4, stack);
        }
    }
    signals::set_mask(thread, mask);
    Verdict::Done(result)
}

fn become_child(thread: &mut Thread, parent: exact::Extent, shared: &[Inherited]) -> Result<(), Errno> {
    let runtime = runtime();
    signals::forget(thread);
    thread.tid = sys::thread_id();
    let full = Errno(linux_raw_sys::errno::ENOSPC as i32);
    let process = runtime.session.new_extent(kind::PROCESS, parent, sys::process_id(), 0, -1).ok_or(full)?;
    let mut memory = *runtime.process();
    let (sites, stretches) = {
        let world = &runtime.code.lock().world;
        (world.sites(), world.stretches())
    };
    memory.become_another(&runtime.session, process, sites, stretches)?;
    // SAFETY: the child of a fork has one thread, which holds no reference to the old one.
    unsafe { runtime.set_process(memory) };
    runtime.code.lock().world.process = memory;
    let extent = runtime.session.new_thread(process).ok_or(full)?;
    thread.extent = extent;
    placement::begin(&runtime.session, thread);
    runtime.session.entry(extent).stack.store(thread.area.register(4), Relaxed);
    runtime.session.take_name(extent);
    runtime.session.entry(extent).id.store(thread.tid, Release);
    thread.area.map_counters(&runtime.layout, &runtime.session, extent)?;
    runtime.shadow.inherit(&memory, shared);
    // The parent's other threads do not exist here.
    runtime.retired.lock().clear();
    *runtime.threads.lock() = alloc::vec![(thread.tid, thread.area)];
    Ok(())
}

/// Notes the end of a thread in the directory.
fn note_end(thread: &Thread) {
    let session = &runtime().session;
    // Another thread may have named it.
    session.take_name(thread.extent);
    session.entry(thread.extent).end_ns.store(sys::now_ns(), Relaxed);
}

/// The program's exit: of one thread.
pub fn exit_thread(thread: &mut Thread, status: u64) -> ! {
    signals::block_all();
    note_end(thread);
    runtime().threads.lock().retain(|(_, area)| *area != thread.area);
    if !thread.borrows {
        runtime().retired.lock().push((thread.tid, thread.area));
    }
    sys::exit(status as i32)
}

/// The program's exit_group.
pub fn exit_process(thread: &mut Thread, status: u64) -> ! {
    signals::block_all();
    if !thread.borrows {
        reconcile(thread);
    }
    note_end(thread);
    if !thread.borrows {
        let entry = runtime().session.entry(runtime().process().extent);
        entry.end_ns.store(sys::now_ns(), Relaxed);
        entry.end.store(end::EXIT | (status as u32 & 0xff) << 8, Release);
    }
    sys::exit_group(status as i32)
}

/// The process's memory is about to go: what is in it that nobody was seen to place.
fn reconcile(thread: &Thread) {
    let runtime = runtime();
    let code = runtime.code.lock();
    runtime.shadow.reconcile(runtime.process(), thread, &code.world.maps);
}

const STARTING: i32 = 0;
const READY: i32 = 1;
const HELPER_STACK: u64 = 16 * PAGE;

/// What the helper process of an exec is told, and tells.
struct Errand {
    /// The thread that calls exec.
    tid: i32,
    plan: Plan,
    stack: u64,
    /// [`STARTING`], [`READY`], or a negative error number.
    state: AtomicI32,
    helper: AtomicU32,
    /// 1: the helper has been named as the one that may watch.
    may_watch: AtomicU32,
}

/// The program's execve or execveat.
pub fn execute(
    thread: &mut Thread,
    ip: u64,
    folder: i32,
    path: u64,
    flags: u32,
    number: u32,
    arguments: [u64; 6],
) -> Verdict {
    let runtime = runtime();
    let memory = runtime.process();
    let header = runtime.session.header();
    if thread.area.get(own::PENDING) != 0 {
        return Verdict::Continue(runtime::enter(thread, ip));
    }
    // What the command itself executes goes on being the command.
    if header.follow.load(Relaxed) == 0 && sys::process_id() != header.command_pid.load(Relaxed) {
        if thread.borrows {
            memory.log(log::LEFT_OUT, &[u64::from(thread.tid)], &[]);
        }
        super::limits::hand_over(runtime);
        return Verdict::Execute;
    }
    // SAFETY: the program's own pointer; the kernel checks it.
    match unsafe { program::prospect(folder, path as *const u8, flags) } {
        Prospect::Observable => {}
        Prospect::NoProgram => return Verdict::Execute,
        Prospect::Unobservable(obstacle) => {
            unobserved(thread, format_args!("{obstacle}"));
            return Verdict::Execute;
        }
    }
    let plan = Plan {
        descriptor: runtime.session.descriptor,
        image_offset: exact::IMAGE_OFFSET,
        image_bytes: header.image_bytes.load(Relaxed),
        image_entry: header.image_entry.load(Relaxed),
        vdso_syscall: header.vdso_syscall.load(Relaxed).checked_sub(1),
        parent: memory.extent.0,
        caller: thread.extent.0,
        or_kill: false,
    };
    let Ok(stack) = sys::map_private(2 * HELPER_STACK, raw::PROT_READ | raw::PROT_WRITE) else {
        return Verdict::Done(errno(linux_raw_sys::errno::ENOMEM));
    };
    let errand = Errand {
        tid: sys::thread_id() as i32,
        plan,
        stack,
        state: AtomicI32::new(STARTING),
        helper: AtomicU32::new(0),
        may_watch: AtomicU32::new(0),
    };
    if let Err(Errno(error)) = send_helper(&errand) {
        unobserved(thread, format_args!("it cannot be entered (error {error})"));
        sys::unmap(stack, 2 * HELPER_STACK);
        return Verdict::Execute;
    }
    if !thread.borrows {
        reconcile(thread);
    }
    let (process, own_thread) = (runtime.session.entry(memory.extent), runtime.session.entry(thread.extent));
    let now = sys::now_ns();
    // The collector takes a thread's end for one only while the process has not called exec.
    if !thread.borrows {
        process.end_ns.store(now, Relaxed);
        process.node.store(own_thread.index.load(Relaxed) as i32, Relaxed);
        process.end.store(end::EXEC, Release);
    }
    own_thread.end_ns.store(now, Release);
    // SAFETY: the program's own call; it returns only when it failed.
    let result = unsafe { sys::for_program(number, arguments) };
    own_thread.end_ns.store(0, Release);
    if !thread.borrows {
        process.end_ns.store(0, Relaxed);
        process.end.store(end::NONE, Release);
    }
    // SAFETY: a process of ours that waits for us; it never returns to its stack.
    let _ = unsafe { call!(__NR_kill, errand.helper.load(Relaxed), raw::SIGKILL) };
    sys::unmap(stack, 2 * HELPER_STACK);
    Verdict::Done(result)
}

/// Says that what this process is about to execute will not be seen.
fn unobserved(thread: &Thread, why: core::fmt::Arguments<'_>) {
    note_unobserved(if thread.borrows { thread.tid } else { sys::process_id() }, why);
    // From here on the kernel has to enforce what the agent did.
    super::limits::hand_over(runtime());
}

fn note_unobserved(pid: u32, why: core::fmt::Arguments<'_>) {
    let mut line = sys::Line::new();
    let _ = core::fmt::Write::write_fmt(&mut line, why);
    runtime().session.header().unobserved.fetch_add(1, Relaxed);
    runtime().process().log(log::UNOBSERVED, &[u64::from(pid)], line.text());
}

/// Starts the helper: a process that shares our memory, and nobody's child that the program could wait for.
fn send_helper(errand: &Errand) -> Result<(), Errno> {
    let at = &raw const *errand as u64;
    let flags = u64::from(raw::CLONE_VM);
    let mask = signals::block_all();
    // SAFETY: its stack is the upper half; it lives on until it has started the helper, then ends.
    let between = unsafe { entry::spawn_helper(flags, errand.stack + 2 * HELPER_STACK, go_between, at) };
    let result = sys::check(between).and_then(|pid| {
        let mut status = 0u32;
        // SAFETY: a word for the status; the child is ours and has no exit signal.
        unsafe { call!(__NR_wait4, pid, &raw mut status, raw::__WALL, 0) }?;
        // Where Yama is on guard, only who is named may watch. Elsewhere the call is refused, and not needed.
        let helper = errand.helper.load(Acquire);
        // SAFETY: a number.
        let _ = unsafe { call!(__NR_prctl, linux_raw_sys::prctl::PR_SET_PTRACER, helper) };
        errand.may_watch.store(1, Release);
        while errand.state.load(Acquire) == STARTING {
            sys::nap();
        }
        match errand.state.load(Acquire) {
            READY => Ok(()),
            error => Err(Errno(-error)),
        }
    });
    // SAFETY: a mask of our own.
    let _ = unsafe { call!(__NR_rt_sigprocmask, raw::SIG_SETMASK, &raw const mask, 0, 8) };
    result
}

unsafe extern "C" fn go_between(errand: u64) -> ! {
    // SAFETY: our parent waits for the helper, and the errand is on its stack.
    let errand = unsafe { &*(errand as *const Errand) };
    let flags = u64::from(raw::CLONE_VM);
    let at = &raw const *errand as u64;
    // SAFETY: the helper's stack is the lower half.
    let helper = unsafe { entry::spawn_helper(flags, errand.stack + HELPER_STACK, helper, at) };
    match sys::check(helper) {
        Ok(pid) => {
            errand.helper.store(pid as u32, Release);
        }
        Err(Errno(error)) => errand.state.store(-error, Release),
    }
    sys::exit(0)
}

unsafe extern "C" fn helper(errand: u64) -> ! {
    // SAFETY: valid until the exec, which waits for `state`.
    let errand = unsafe { &*(errand as *const Errand) };
    let (tid, plan) = (errand.tid, errand.plan);
    while errand.may_watch.load(Acquire) == 0 {
        sys::nap();
    }
    // The helper of an exec that failed just now may not be quite gone.
    const PATIENCE: u32 = 1000;
    let mut seized = inject::seize(tid);
    for _ in 0..PATIENCE {
        if seized.is_ok() {
            break;
        }
        sys::nap();
        seized = inject::seize(tid);
    }
    if let Err(Errno(error)) = seized {
        errand.state.store(-error, Release);
        sys::exit(1)
    }
    errand.state.store(READY, Release);
    match inject::enter_at_exec(tid, &plan) {
        Ok(()) | Err(inject::InjectError::Ended(_)) => {}
        Err(error) => note_unobserved(tid as u32, format_args!("{error}")),
    }
    sys::exit(0)
}
