//! What the threads of the program share in the agent.

use crate::code::Code;
use crate::pages::table::Shadow;
use crate::state::session_file::{ProcessMemory, Session};
use crate::state::thread_context::{Layout, ThreadContext};
use crate::sys::lock::Lock;
use alloc::vec::Vec;
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::ops::Range;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;
use numalens_event::exact::Extent;
use numalens_translator::Config;

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
    /// Threads that may be in translated code, and processes that borrow the memory.
    pub live: AtomicU32,
}

// SAFETY: everything that changes is behind a lock, except the process's memory, which changes only in the child of a
// fork while that has one thread.
unsafe impl Sync for Runtime {}

struct InPlace(UnsafeCell<MaybeUninit<Runtime>>);

// SAFETY: written once, before there is a second thread.
unsafe impl Sync for InPlace {}

static RUNTIME: InPlace = InPlace(UnsafeCell::new(MaybeUninit::uninit()));

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
    pub fn new(
        session: Session,
        layout: Layout,
        config: Config,
        shadow: Shadow,
        process: ProcessMemory,
        code: Code,
        image: Range<u64>,
    ) -> Self {
        Runtime {
            session,
            layout,
            image,
            config,
            shadow,
            code: Lock::new(code),
            retired: Lock::new(Vec::new()),
            threads: Lock::new(Vec::new()),
            process: UnsafeCell::new(process),
            live: AtomicU32::new(1),
        }
    }

    /// The process's extent.
    pub fn process(&self) -> &ProcessMemory {
        // SAFETY: changes only under `set_process`.
        unsafe { &*self.process.get() }
    }

    /// Has generated code find what is kept of every access, once the process or the thread is another.
    pub fn note_each(&self, context: ThreadContext, extent: Extent) {
        let index = self.session.entry(extent).index.load(Relaxed);
        context.note_each(&self.layout, self.process().turns(), index + 1);
    }

    /// Makes the runtime that of another process.
    ///
    /// # Safety
    /// In the child of a fork, which has one thread, with no reference to the old one.
    pub unsafe fn set_process(&self, process: ProcessMemory) {
        // SAFETY: the caller's promise.
        unsafe { *self.process.get() = process };
    }

    /// Sets what a thread context holds beyond its layout, for the counters of `extent`.
    pub fn prepare(&self, context: ThreadContext, extent: Extent) {
        self.note_each(context, extent);
        for (offset, value) in self.config.constants(self.shadow.base()) {
            context.set(offset, value);
        }
    }
}

/// Whether pages go where a simulated policy says.
pub fn is_virtual() -> bool {
    runtime().session.placement().is_virtual.load(Relaxed) != 0
}
