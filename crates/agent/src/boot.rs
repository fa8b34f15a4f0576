//! From the injector's registers to the first translated fragment.

use crate::allocator::Allocator;
use crate::code::persisted::PersistedCode;
use crate::code::{self, Code, TranslationEnv, Vdso};
use crate::dispatch;
use crate::machine::place::Place;
use crate::pages::table::{SHADOW_BYTES, Shadow};
use crate::signals::Actions;
use crate::state::failure::{self, FAILED};
use crate::state::maps::{self, Maps};
use crate::state::runtime::{self, Runtime, install};
use crate::state::session_file::{self, ProcessMemory, Session};
use crate::state::thread::Thread;
use crate::state::thread_context::{Layout, ThreadContext};
use crate::static_program::executable::{self, Mapped};
use crate::static_program::{self, StaticProgram};
use crate::sys::{self, Errno, raw};
use crate::{entry, placement, rank, runtimes, say};
use alloc::sync::Arc;
use core::ops::Range;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use numalens_event::exact::{Extent, kind};
use numalens_isa::Register;
use numalens_translator::persist::config_key;
use numalens_translator::{Cache, Shadow as ShadowPlace, Watch};

/// Where the shadow table would like to begin: the last page below 2 GiB, so that generated code reaches it with a
/// displacement, and heaps of programs at fixed addresses have the room below. It moves where the program wants the
/// place ([`crate::code::give_way`]).
pub const SHADOW_AT: u64 = 0x7fff_f000;

/// What the injector put into the registers.
#[derive(Clone, Debug)]
pub struct Start {
    /// The session file.
    pub descriptor: i32,
    /// The program's first instruction.
    pub entry: u64,
    /// The extent of the process that called exec.
    pub parent: u32,
    /// The extent of the thread that did.
    pub caller: u32,
    /// The program's stack pointer.
    pub stack: u64,
    /// Where the agent is.
    pub image: Range<u64>,
}

/// Takes over.
///
/// # Safety
/// At the exec of a program, on a stack of the agent's, once.
pub unsafe fn boot(start: &Start) -> ! {
    // SAFETY: the caller's promise.
    let (thread, context) = match unsafe { set_up(start) } {
        Ok(ready) => ready,
        Err((what, Errno(error))) => {
            say!("numalens: the program cannot be observed: {what} (error {error})");
            sys::exit_group(FAILED)
        }
    };
    context.set_register(Register::Rsp, start.stack);
    let entry = dispatch::enter(thread, start.entry);
    // SAFETY: the context holds the program's first registers; the boot stack is not used again.
    unsafe {
        core::arch::asm!("jmp {resume}", resume = sym entry::resume, in("rax") entry, options(noreturn));
    }
}

type Failure = (&'static str, Errno);

unsafe fn set_up(start: &Start) -> Result<(&'static mut Thread, ThreadContext), Failure> {
    let because = |what| move |error| (what, error);
    let none = Errno(0);
    let session = Session::open(start.descriptor).map_err(because("the session file cannot be mapped"))?;
    let (parent, caller) = (Extent(start.parent), Extent(start.caller));
    let process = session.new_extent(kind::PROCESS, parent, sys::process_id(), 1);
    let process = process.ok_or(("the session file is full", none))?;
    let rank = rank::of_program(start.stack);
    let memory = ProcessMemory::map(&session, process, rank).map_err(because("its tables cannot be mapped"))?;
    failure::tell(&memory);
    memory.inherit_limit(&session, parent).map_err(because("its limits are not known"))?;
    // Before more of ours is mapped.
    let text = maps::read();
    if text.is_empty() {
        return Err(("/proc/self/maps cannot be read", none));
    }
    let program = Mapped::program();
    let is_low = program.as_ref().is_none_or(|file| !executable::lays_out_memory(file.bytes()));
    let (place, shadow) = map_shadow(is_low).map_err(because("there is no address space for the table of pages"))?;
    memory.header().shadow.store(shadow, Relaxed);
    let misses = [entry::lookup_miss as *const () as u64, entry::return_miss as *const () as u64];
    let pattern =
        session_file::table_pattern(&session, process, misses).map_err(because("its tables cannot be written"))?;
    let header = session.header();
    let layout = Layout::new(header, pattern);
    let is_virtual = session.placement().is_virtual.load(Relaxed) != 0;
    let config = code::config(&layout, place, header, is_virtual);
    let mut persisted = PersistedCode::new(&session, config_key(&config));
    let (maps, vdso) = read_maps(start, &memory, &text, &mut persisted);
    let getcpu = header.vdso.getcpu.load(Relaxed).checked_sub(1).filter(|_| is_virtual && vdso != 0);
    let vdso = Vdso { start: vdso, getcpu: getcpu.map(|offset| vdso + offset) };
    let mut env = TranslationEnv::new(maps, vdso, memory, layout, header.most_code.load(Relaxed));
    env.persisted = persisted;
    if let Some(file) = program {
        if let Some(found) = StaticProgram::find(start.stack, start.entry, &file) {
            static_program::set(found);
        }
        env.watched.extend(runtimes::find(start.stack, &file));
    }
    let entries = static_program::allocator().into_iter().flat_map(Allocator::entries);
    env.watched.extend(entries.map(|entry| (entry, Watch::Reached)));
    let code = Code::new(Cache::new(config), env);
    // SAFETY: the caller's promise: once, with one thread.
    unsafe {
        install(Runtime::new(session, layout, config, Shadow::new(shadow, config), memory, code, start.image.clone()));
    }
    let extent = session.first_thread(process, caller).ok_or(("the session file is full", none))?;
    let context = ThreadContext::new(&layout, &session, extent)
        .map_err(because("there is no memory for the tables of its first thread"))?;
    runtime::runtime().prepare(context, extent);
    context.enter().map_err(because("GS cannot be set"))?;
    context.note_fs_base();
    let told = (caller != Extent::NONE).then(|| session.entry(caller).rebound.load(Acquire));
    let place = if is_virtual { placement::inherited(&session, caller) } else { Place::nowhere() };
    let thread = Thread::new(context, extent, place, Arc::new(Actions::new()));
    placement::begin(&session, thread);
    session.entry(extent).stack.store(start.stack, Relaxed);
    session.take_name(extent);
    if let Some(told) = told {
        placement::carry_over(&session, caller, told, extent);
    }
    session.entry(extent).id.store(thread.tid, Release);
    runtime::runtime().threads.lock().push((thread.tid, context));
    crate::signals::begin_thread(thread);
    crate::syscalls::seccomp::begin();
    if let Some(allocator) = static_program::allocator() {
        allocator.begin();
    }
    Ok((thread, context))
}

/// Readable only: what is not writable is charged to nobody's limit. [`Shadow`] opens what it writes. `is_low`: where
/// translated code reaches it.
fn map_shadow(is_low: bool) -> Result<(ShadowPlace, u64), Errno> {
    if is_low && let Ok(at) = sys::map_private_at(SHADOW_AT, SHADOW_BYTES, raw::PROT_READ) {
        return Ok((ShadowPlace::At(at as u32), at));
    }
    sys::map_private(SHADOW_BYTES, raw::PROT_READ).map(|at| (ShadowPlace::FromContext, at))
}

/// The program's mappings at its start: all but our own. And where the kernel's code is.
fn read_maps(start: &Start, memory: &ProcessMemory, text: &[u8], persisted: &mut PersistedCode) -> (Maps, u64) {
    let mut found = Maps::default();
    let mut vdso = 0;
    for line in maps::parse(text) {
        let mut mapping = line.mapping;
        let is_ours = line.name.starts_with(b"/memfd:numalens-session") || start.image.contains(&mapping.start);
        // The text itself lies on our heap.
        if is_ours || sys::is_own(mapping.start) {
            continue;
        }
        persisted.found(memory, &line, &mut mapping);
        found.insert(mapping);
        if line.name == b"[vdso]" {
            vdso = mapping.start;
        }
        if !line.name.is_empty() {
            maps::log(memory, &mapping, line.offset, line.name);
        }
    }
    (found, vdso)
}
