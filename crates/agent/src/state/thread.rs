//! What the agent knows of a thread beyond its context, and of the threads together.

use crate::allocator::Calls;
use crate::counting::private_cache::PrivateCache;
use crate::machine::place::Place;
use crate::placement::{NOWHERE, Seat, Words};
use crate::signals::{Actions, ThreadSignals};
use crate::state::collecting::Collecting;
use crate::state::own;
use crate::state::runtime::{is_virtual, runtime};
use crate::state::thread_context::ThreadContext;
use crate::sys;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::sync::atomic::Ordering::Relaxed;
use numalens_event::exact::Extent;

/// A thread. Used by the thread itself only, except while it is being made.
pub struct Thread {
    /// Its context.
    pub context: ThreadContext,
    /// Its id in the kernel.
    pub tid: u32,
    /// Its extent, by which it is known: the first that it has in this process.
    pub first: Extent,
    /// The extent of the counters that it has now.
    pub extent: Extent,
    /// Those that it has for other nodes.
    pub seats: Vec<Seat>,
    /// The index of the node that it is bound to; negative: unpinned.
    pub node: i32,
    /// Where it may run on a real machine, as it was told last.
    pub known: Words,
    /// Where it is on a virtual machine.
    pub place: Place,
    /// Its signals.
    pub signals: ThreadSignals,
    /// Its private cache, if there are any.
    pub cache: Option<RefCell<PrivateCache>>,
    /// Its calls of the program's own allocator.
    pub allocations: Calls,
    /// Its system calls.
    pub calls: CallState,
    /// What it does for a collector of garbage.
    pub collecting: RefCell<Collecting>,
    /// A process of its own that borrows the memory until it execs or ends (vfork).
    pub borrows: bool,
}

/// What is known of a thread's system calls.
#[derive(Default)]
pub struct CallState {
    /// It is in a call by which pages may come ([`crate::pages::in_call`]): what `context::NEWS` was before.
    pub news_before: Option<u64>,
    /// Memory of which pages that are not known have been found not to be there, when it was last looked for a call.
    pub absent: Cell<Option<(u64, u64)>>,
    /// When memory was moved by its latest `mremap`.
    pub moved_ns: Cell<u64>,
}

impl Thread {
    /// A thread for a context, which leads to it from now on. It is nowhere until
    /// [`crate::placement::begin`].
    pub fn new(context: ThreadContext, extent: Extent, place: Place, actions: Arc<Actions>) -> &'static mut Self {
        let thread = Box::leak(Box::new(Thread {
            context,
            tid: sys::thread_id(),
            first: extent,
            extent,
            seats: Vec::new(),
            node: -1,
            known: NOWHERE,
            place,
            signals: ThreadSignals::new(actions),
            cache: runtime().layout.cache.map(|geometry| RefCell::new(PrivateCache::new(geometry))),
            allocations: Calls::default(),
            calls: CallState::default(),
            collecting: RefCell::default(),
            borrows: false,
        }));
        context.set(own::THREAD, &raw mut *thread as u64);
        if let Some(cache) = &thread.cache {
            context.set(numalens_translator::context::CACHE_SETS, cache.borrow().sets_at());
        }
        thread
    }

    /// The index of the node that it is on now.
    pub fn node_now(&self) -> Option<u16> {
        match u16::try_from(self.node) {
            Ok(node) => Some(node),
            Err(_) if is_virtual() => u16::try_from(self.place.current_node(sys::cpu)).ok(),
            Err(_) => Some(runtime().session.placement().node_of_cpu.get(sys::cpu() as usize)?.load(Relaxed)),
        }
    }

    /// The thread of a context.
    ///
    /// # Safety
    /// The caller is that thread, and holds no other reference to it.
    pub unsafe fn of<'a>(context: ThreadContext) -> &'a mut Self {
        // SAFETY: set when the context was made, and valid until the thread ends.
        unsafe { &mut *(context.get(own::THREAD) as *mut Thread) }
    }
}
