//! What the threads of the program share in the agent, and what happens when control leaves the cache.

use crate::allocator::Allocator;
use crate::code::TranslationEnv;
use crate::far;
use crate::lock::Lock;
use crate::machine;
use crate::pages::{AccessHandler, Shadow, in_call, is_virtual};
use crate::placement;
use crate::requests;
use crate::session_file::{ProcessMemory, Session};
use crate::signals;
use crate::static_program::StaticProgram;
use crate::sys;
use crate::syscalls::call::Verdict;
use crate::syscalls::{self, kernel_functions};
use crate::thread::Thread;
use crate::thread_context::{self, Layout, ThreadContext};
use crate::{boot, say};
use alloc::vec::Vec;
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::ops::Range;
use numalens_event::exact;
use numalens_translator::{Cache, Config, Error, ExitId, Landing, Leave, Scheme, SiteId, count};

/// All of it.
pub struct Runtime {
    /// The session file.
    pub session: Session,
    /// The shape of thread contexts.
    pub layout: Layout,
    /// Where the agent is.
    pub image: Range<u64>,
    /// How code is translated.
    pub config: Config,
    /// Pages.
    pub shadow: Shadow,
    /// What translating and mapping changes.
    pub code: Lock<Code>,
    /// Areas whose threads have ended, or are about to: with the threads' ids.
    pub retired: Lock<Vec<(u32, ThreadContext)>>,
    /// Threads that run, by id.
    pub threads: Lock<Vec<(u32, ThreadContext)>>,
    process: UnsafeCell<ProcessMemory>,
    /// What the injector said.
    pub start: boot::Start,
    /// A program that loads no library.
    pub static_program: Option<StaticProgram>,
}

/// The translations and what they are made from.
pub struct Code {
    /// Translated fragments.
    pub cache: Cache,
    /// The program's memory and the arenas.
    pub env: TranslationEnv,
    /// See [`Code::reclaim`].
    pub(crate) until_look: u32,
}

impl Code {
    /// What there is at the start.
    pub fn new(cache: Cache, env: TranslationEnv) -> Self {
        Code { cache, env, until_look: 0 }
    }
}

// SAFETY: everything that changes is behind a lock, except the process's memory, which changes only in the child of a
// fork while that has one thread.
unsafe impl Sync for Runtime {}

struct Place(UnsafeCell<MaybeUninit<Runtime>>);

// SAFETY: written once, before there is a second thread.
unsafe impl Sync for Place {}

static RUNTIME: Place = Place(UnsafeCell::new(MaybeUninit::uninit()));

/// The runtime.
pub fn runtime() -> &'static Runtime {
    // SAFETY: every caller runs after `install`.
    unsafe { (*RUNTIME.0.get()).assume_init_ref() }
}

/// Puts the runtime in its place.
///
/// # Safety
/// Once, before anything calls [`runtime`].
pub unsafe fn install(runtime: Runtime) {
    // SAFETY: the caller's promise.
    unsafe { (*RUNTIME.0.get()).write(runtime) };
}

impl Runtime {
    /// A runtime for a process.
    #[expect(clippy::too_many_arguments, reason = "all that was made before it")]
    pub fn new(
        session: Session,
        layout: Layout,
        config: Config,
        shadow: Shadow,
        process: ProcessMemory,
        code: Code,
        start: &boot::Start,
        static_program: Option<StaticProgram>,
    ) -> Self {
        Runtime {
            session,
            layout,
            image: start.image.clone(),
            config,
            shadow,
            code: Lock::new(code),
            retired: Lock::new(Vec::new()),
            threads: Lock::new(Vec::new()),
            process: UnsafeCell::new(process),
            start: start.clone(),
            static_program,
        }
    }

    /// The program's own allocator, where no preloaded library sees what it does.
    pub fn allocator(&self) -> Option<&Allocator> {
        self.static_program.as_ref()?.allocator.as_ref()
    }

    /// The process's extent.
    pub fn process(&self) -> &ProcessMemory {
        // SAFETY: changes only under `set_process`.
        unsafe { &*self.process.get() }
    }

    /// Makes the runtime that of another process.
    ///
    /// # Safety
    /// In the child of a fork, which has one thread, with no reference to the old one.
    pub unsafe fn set_process(&self, process: ProcessMemory) {
        // SAFETY: the caller's promise.
        unsafe { *self.process.get() = process };
    }
}

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
        runtime().shadow.fetched(runtime().process(), thread, page);
    }
}

fn cannot_go_on(thread: &mut Thread, error: Error) -> u64 {
    match error {
        Error::Unreadable { ip, .. } if let Some(after) = kernel_functions::execute(thread, ip) => enter(thread, after),
        Error::Unreadable { ip, at } => signals::bad_access(thread, ip, at),
        error => give_up(format_args!("{error}")),
    }
}

/// Ends the program because the agent cannot go on.
pub fn give_up(why: core::fmt::Arguments<'_>) -> ! {
    let mut line = sys::Line::new();
    let _ = core::fmt::Write::write_fmt(&mut line, why);
    runtime().process().fail(line.text());
    say!("numalens: {why}");
    sys::exit_group(boot::FAILED)
}

/// Takes notice of what others have done: to the thread, and to pages of its process.
fn take_notice(thread: &mut Thread) {
    placement::take_notice(thread);
    if is_virtual() {
        let runtime = runtime();
        let moved = runtime.shadow.catch_up(runtime);
        let news = runtime.session.commons().news_since(moved);
        thread.context.set(numalens_translator::context::NEWS, news.as_ptr() as u64);
    }
}

/// Through `context::DISPATCH`.
///
/// # Safety
/// For the assembly of [`crate::entry`] only: `context` is this thread's, and the thread is in the agent.
pub unsafe extern "C" fn on_dispatch(context: ThreadContext, exit: u32) -> u64 {
    // SAFETY: the context of this thread, which is in the agent now.
    let thread = unsafe { Thread::of(context) };
    // Before it takes notice: what the call has brought is where the thread was.
    in_call::end(thread, Some(context.register(0)));
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
        Ok(Leave::Syscall { ip, next, execute }) => match syscalls::examine(thread, ip, next) {
            Verdict::Execute => {
                context.set(numalens_translator::context::CALLING, 1);
                execute
            }
            Verdict::Done(result) => {
                context.set_register(0, result);
                context.set_register(1, next);
                context.set_register(11, context.get(numalens_translator::context::FLAGS));
                enter(thread, next)
            }
            Verdict::Resume(ip) => enter(thread, ip),
        },
        Ok(Leave::Request { next }) => {
            requests::answer(thread, next);
            enter(thread, next)
        }
        Ok(Leave::CpuQuery { query, next }) => {
            machine::asked(thread, query);
            enter(thread, next)
        }
        Ok(Leave::Reached { ip, execute }) => {
            if let Some(allocator) = runtime().allocator() {
                allocator.reached(thread, ip);
            }
            execute
        }
        Ok(Leave::OldSyscall { ip, next, execute }) => match syscalls::examine_old(thread, ip, next) {
            Verdict::Execute => {
                context.set(numalens_translator::context::CALLING, 1);
                execute
            }
            Verdict::Done(result) => {
                context.set_register(0, result);
                enter(thread, next)
            }
            Verdict::Resume(ip) => enter(thread, ip),
        },
        Ok(Leave::Returns { ip, how }) => far::take(thread, ip, &how),
        Ok(Leave::Unsupported { ip, why }) => {
            give_up(format_args!("the program uses an instruction at {ip:#x} that cannot be observed: {why}"))
        }
        Err(error) => cannot_go_on(thread, error),
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
pub unsafe extern "C" fn on_lookup_miss(context: ThreadContext, target: u64) -> u64 {
    // SAFETY: the same promise.
    unsafe { land(context, target, runtime().config.lookup_entry(target), Cache::landing) }
}

/// Through `context::RETURN_MISS`.
///
/// # Safety
/// For the assembly of [`crate::entry`] only: `context` is this thread's, and the thread is in the agent.
pub unsafe extern "C" fn on_return_miss(context: ThreadContext, target: u64) -> u64 {
    context.set_return_tag(runtime().config.return_tag(target));
    // SAFETY: the same promise.
    unsafe { land(context, target, runtime().config.return_entry(target), Cache::returning) }
}

/// Through `context::COUNT`.
///
/// # Safety
/// For the assembly of [`crate::entry`] only: `context` is this thread's, and the thread is in the agent.
pub unsafe extern "C" fn on_count(context: ThreadContext) {
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

/// How code is translated for thread contexts of this layout.
pub fn config(
    layout: &Layout,
    shadow: numalens_translator::Shadow,
    (stack, code): (bool, bool),
    is_virtual: bool,
    debug: u32,
) -> Config {
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
        instructions: 48,
        side_exits: 2,
        flags_dead_at_calls: true,
        own_processor: is_virtual,
    }
}
