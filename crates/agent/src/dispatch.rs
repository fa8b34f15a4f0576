//! What happens when control leaves the cache: everything that the assembly of [`crate::entry`] calls, and where the
//! program goes on then.

use crate::code::{Code, TranslationEnv};
use crate::entry;
use crate::far;
use crate::machine;
use crate::pages::{self, AccessHandler, in_call};
use crate::placement;
use crate::requests;
use crate::runtimes;
use crate::signals::{self, Resume, SigInfo, UserContext};
use crate::state::failure::give_up;
use crate::state::own;
use crate::state::runtime::{is_virtual, runtime};
use crate::state::thread::Thread;
use crate::state::thread_context::ThreadContext;
use crate::static_program;
use crate::syscalls::call::Verdict;
use crate::syscalls::{self, kernel_functions, tasks};
use numalens_isa::convention::system_call;
use numalens_translator::{Cache, Error, ExitId, Landing, Leave, SiteId, context as fixed, count};

/// Has the translator find out something, and notes where the thread goes on then, if `found` says.
fn look_up<T>(
    thread: &Thread,
    find: impl FnOnce(&mut Cache, &mut TranslationEnv) -> Result<T, Error>,
    found: impl FnOnce(&T) -> Option<u64>,
) -> Result<T, Error> {
    let (result, fetched) = {
        let mut code = runtime().code.lock();
        code.reclaim();
        let Code { cache, env, .. } = &mut *code;
        runtime().process().header().each_tier_up(|site| cache.tier_up(env, SiteId(site)));
        let result = find(cache, env);
        let fetched = env.take_fetched();
        if let Some(address) = result.as_ref().ok().and_then(found) {
            code.goes_on(thread.context, address);
        }
        (result, fetched)
    };
    note_fetched(thread, &fetched);
    result
}

/// Where control goes on for the program's address `ip`: the entry of its fragment. A program that jumps to where no
/// code is gets its signal.
pub fn enter(thread: &mut Thread, ip: u64) -> u64 {
    match look_up(thread, |cache, env| cache.entry(env, ip), |&entry| Some(entry)) {
        Ok(entry) => entry,
        Err(error) => cannot_go_on(thread, error),
    }
}

/// Code of these pages is about to be executed for the first time: they have homes, like pages of data.
fn note_fetched(thread: &Thread, pages: &[u64]) {
    for &page in pages {
        pages::fetched(&runtime().shadow, runtime().process(), thread, page);
    }
}

fn cannot_go_on(thread: &mut Thread, error: Error) -> u64 {
    match error {
        Error::Unreadable { ip, .. } if let Some(after) = kernel_functions::execute(thread, ip) => enter(thread, after),
        Error::Unreadable { ip, at } => signals::bad_access(thread, ip, at),
        error => give_up(format_args!("{error}")),
    }
}

/// Takes notice of what others have done: to the thread, and to pages of its process.
fn take_notice(thread: &mut Thread) {
    placement::take_notice(thread);
    if is_virtual() {
        let runtime = runtime();
        let moved = pages::catch_up(&runtime.shadow, runtime);
        let news = runtime.session.commons().news_since(moved);
        thread.context.set(fixed::NEWS, news.as_ptr() as u64);
    }
}

/// Through `context::DISPATCH`.
///
/// # Safety
/// For the assembly of [`crate::entry`] only: `context` is this thread's, and the thread is in the agent.
#[unsafe(export_name = "numalens_on_dispatch")]
unsafe extern "C" fn on_dispatch(context: ThreadContext, exit: u32) -> u64 {
    // SAFETY: the context of this thread, which is in the agent now.
    let thread = unsafe { Thread::of(context) };
    // Before it takes notice: what the call has brought is where the thread was.
    in_call::end(thread, Some(context.register(system_call::RESULT)));
    take_notice(thread);
    let goes_on = |left: &Leave| match *left {
        Leave::Enter(address)
        | Leave::Syscall { execute: address, .. }
        | Leave::OldSyscall { execute: address, .. }
        | Leave::Reached { execute: address, .. } => Some(address),
        Leave::Request { .. } | Leave::CpuQuery { .. } | Leave::Returns { .. } | Leave::Unsupported { .. } => None,
    };
    let left = look_up(thread, |cache, env| cache.leave(env, ExitId(exit)), goes_on);
    match left {
        Ok(Leave::Enter(entry)) => entry,
        Ok(Leave::Syscall { ip, next, execute }) => {
            let verdict = syscalls::examine(thread, ip, next);
            if let Verdict::Done(_) = verdict {
                context.set_register(system_call::NEXT, next);
                context.set_register(system_call::FLAGS, context.get(fixed::FLAGS));
            }
            after_call(thread, verdict, next, execute)
        }
        Ok(Leave::Request { next }) => {
            requests::answer(thread, next);
            enter(thread, next)
        }
        Ok(Leave::CpuQuery { query, next }) => {
            machine::asked(thread, query);
            enter(thread, next)
        }
        Ok(Leave::Reached { ip, execute }) => {
            if let Some(allocator) = static_program::allocator() {
                allocator.reached(thread, ip);
            }
            let runtime = runtime();
            runtimes::reached(thread, ip, |page| pages::home_of(&runtime.shadow, runtime.process(), page));
            execute
        }
        Ok(Leave::OldSyscall { ip, next, execute }) => {
            let verdict = syscalls::examine_old(thread, ip, next);
            after_call(thread, verdict, next, execute)
        }
        Ok(Leave::Returns { ip, how }) => match far::take(thread, ip, &how) {
            Ok(target) => enter(thread, target),
            Err(at) => signals::bad_access(thread, ip, at),
        },
        Ok(Leave::Unsupported { ip, why }) => {
            give_up(format_args!("the program uses an instruction at {ip:#x} that cannot be observed: {why}"))
        }
        Err(error) => cannot_go_on(thread, error),
    }
}

/// Where control goes on after a system call was looked at: behind it at `next` of the program, or at `execute` of the
/// cache, where it is made.
fn after_call(thread: &mut Thread, verdict: Verdict, next: u64, execute: u64) -> u64 {
    match verdict {
        Verdict::Execute => {
            thread.context.set(fixed::CALLING, 1);
            execute
        }
        Verdict::Done(result) => {
            thread.context.set_register(system_call::RESULT, result);
            enter(thread, next)
        }
        Verdict::Resume(ip) => enter(thread, ip),
        Verdict::ReturnFromSignal(ip) => {
            let entry = enter(thread, ip);
            signals::return_to(thread, entry)
        }
    }
}

/// Finds where an indirect jump or a return to `target` goes, and puts it at `entry` of the thread's table.
///
/// # Safety
/// `context` is this thread's, and the thread is in the agent.
unsafe fn land(
    context: ThreadContext,
    target: u64,
    entry: u64,
    find: fn(&mut Cache, &mut TranslationEnv, u64) -> Result<Landing, Error>,
) -> u64 {
    // SAFETY: the caller's promise.
    let thread = unsafe { Thread::of(context) };
    take_notice(thread);
    // The table is changed under the lock: nothing of it may be unlinked in between.
    let find = |cache: &mut Cache, env: &mut TranslationEnv| {
        let landing = find(cache, env, target)?;
        context.set_lookup(entry, landing.checked);
        Ok(landing.entry)
    };
    match look_up(thread, find, |&entry| Some(entry)) {
        Ok(entry) => entry,
        Err(error) => cannot_go_on(thread, error),
    }
}

/// Through `context::LOOKUP_MISS`.
///
/// # Safety
/// For the assembly of [`crate::entry`] only: `context` is this thread's, and the thread is in the agent.
#[unsafe(export_name = "numalens_on_lookup_miss")]
unsafe extern "C" fn on_lookup_miss(context: ThreadContext, target: u64) -> u64 {
    // SAFETY: the same promise.
    unsafe { land(context, target, runtime().config.lookup_entry(target), Cache::landing) }
}

/// Through `context::RETURN_MISS`.
///
/// # Safety
/// For the assembly of [`crate::entry`] only: `context` is this thread's, and the thread is in the agent.
#[unsafe(export_name = "numalens_on_return_miss")]
unsafe extern "C" fn on_return_miss(context: ThreadContext, target: u64) -> u64 {
    context.set_return_tag(runtime().config.return_tag(target));
    // SAFETY: the same promise.
    unsafe { land(context, target, runtime().config.return_entry(target), Cache::returning) }
}

/// Through `context::COUNT`.
///
/// # Safety
/// For the assembly of [`crate::entry`] only: `context` is this thread's, and the thread is in the agent.
#[unsafe(export_name = "numalens_on_count")]
unsafe extern "C" fn on_count(context: ThreadContext) {
    // SAFETY: the context of this thread, which is in the agent now.
    let thread = unsafe { Thread::of(context) };
    let handler = &mut AccessHandler::new(thread, false);
    // SAFETY: its context, laid out as the configuration has it, just left through COUNT.
    let retranslation = unsafe { count::settle(context.0 as *mut u8, &runtime().config, handler) };
    let header = runtime().process().header();
    // A loop of code that is all known comes here alone, now and then: for a page that is looked into.
    if retranslation.is_some() || header.has_tier_ups() {
        let mut code = runtime().code.lock();
        let Code { cache, env, .. } = &mut *code;
        header.each_tier_up(|site| cache.tier_up(env, SiteId(site)));
        if let Some(retranslation) = retranslation {
            cache.retranslate(env, retranslation);
        }
    }
}

/// While the way out of the agent is closed by a waiting signal: returns where it goes instead of `next`.
///
/// # Safety
/// For the assembly of [`crate::entry`] only: `context` is this thread's, and the thread is in the agent.
#[unsafe(export_name = "numalens_on_pending")]
unsafe extern "C" fn on_pending(context: ThreadContext, next: u64) -> u64 {
    context.set(own::DELIVER_AT, next);
    entry::deliver_trap as *const () as u64
}

/// The handler of all signals.
///
/// # Safety
/// For the assembly of [`crate::entry`] only: `context` is this thread's, and the thread is in the agent.
#[unsafe(export_name = "numalens_on_signal")]
unsafe extern "C" fn on_signal(
    context: ThreadContext,
    info: *mut SigInfo,
    ucontext: *mut UserContext,
    _frame: u64,
    signal: u32,
) {
    // SAFETY: the kernel's frame of this signal on this thread's stack; the thread is stopped in code that holds no
    // reference to its `Thread` across instructions that matter, see [`signals`].
    let (thread, info, ucontext) = unsafe { (Thread::of(context), &mut *info, &mut *ucontext) };
    match signals::arrived(thread, info, ucontext, signal) {
        Resume::AsItStands => {}
        Resume::At(ip) => ucontext.set_ip(enter(thread, ip)),
        Resume::InHandler(ip) => {
            let entry = enter(thread, ip);
            if entry == entry::deliver_trap as *const () as u64 {
                signals::handler_is_no_code(thread, ucontext);
            }
            ucontext.set_ip(entry);
        }
    }
}

/// The first that a new thread does, on its own stack of the agent, all signals blocked. Returns where to go on.
///
/// # Safety
/// For the assembly of [`crate::entry`] only: `context` is this thread's, and the thread is in the agent.
#[unsafe(export_name = "numalens_on_new_thread")]
unsafe extern "C" fn on_new_thread(context: ThreadContext) -> u64 {
    // SAFETY: the context of this thread, made for it.
    let thread = unsafe { Thread::of(context) };
    tasks::begin_thread(thread);
    let entry = enter(thread, context.get(own::NEXT));
    signals::open(thread);
    entry
}
