//! Heap blocks and mappings of programs that load no library: static ones.
//!
//! Elsewhere a preloaded library stands between the program and its allocator. Here the allocator is a part of the
//! program; but where that has symbols, its functions are known by name. The translator comes here whenever one is
//! entered, and whenever the program comes to where a call of one returns to, which is watched as well from its first
//! call on:
//!
//! ```text
//!   main:  ...                          malloc: [reached: the size, and where the return address lies]
//!          call malloc   ------------->         ...
//!          [reached, stack pointer      <------- ret
//!           just above that address: the result is the block]
//! ```
//! OpenMP's regions are published in the same way ([`regions`]), and so is what the program says of allocators of its
//! own ([`Allocator::declared`]).
//!
//! Allocators call each other (`operator new` calls `malloc`, a `realloc` may): only the outermost call is published,
//! which is the one that the program made. What is published, and which blocks, is up to the collector, through the
//! same channel as the library's.

mod calls;
mod channel;
mod choice;
mod functions;
mod go;
mod regions;

use crate::blocks::{self, DECLARED};
use crate::state::runtime::runtime;
use crate::state::thread::Thread;
use crate::sys::lock::Lock;
use crate::sys::user;
use crate::sys::{self, raw};
use alloc::ffi::CString;
pub use calls::Calls;
use calls::{Old, Underway};
use channel::{Caller, Channel, Record};
use core::ffi::CStr;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use functions::{Function, Functions};
use hashbrown::HashSet;
use numalens_event::record::{Call, Kind};
use numalens_event::request::{MOST_NAME_BYTES, Request};
use numalens_isa::convention::function::{ARGUMENTS, FRAME_POINTER, RESULT, STACK_POINTER};
use numalens_isa::convention::request;
use regions::Span;
use rustc_hash::FxBuildHasher;

/// What the functions that map return when they fail.
const MAP_FAILED: u64 = u64::MAX;

/// What a protection gives, if any.
const ACCESS: u32 = raw::PROT_READ | raw::PROT_WRITE | raw::PROT_EXEC;
/// Addresses have been reserved: what gives access to memory may allocate.
static HAS_RESERVED: AtomicBool = AtomicBool::new(false);

/// Live blocks that are remembered at most.
const MOST_TRACKED: usize = 1 << 18;

/// The blocks that the collector knows of, so that only their release is published.
static TRACKED: Lock<HashSet<u64, FxBuildHasher>> = Lock::new(HashSet::with_hasher(FxBuildHasher));

/// Nobody else may change what is known of blocks until [`release`]: around a fork.
pub fn hold() {
    TRACKED.hold();
}

/// Ends [`hold`].
///
/// # Safety
/// By the thread that held them, or in its forked child.
pub unsafe fn release() {
    // SAFETY: the caller's promise.
    unsafe { TRACKED.force_free() };
}

/// The program's allocator.
pub struct Allocator {
    functions: Functions,
    channel: Channel,
}

/// A block that has been made.
struct Block {
    call: Call,
    address: u64,
    /// What it is known by: its address, with [`DECLARED`] for one that the program itself declares.
    key: u64,
    bytes: u64,
    /// What the allocator has touched of it since then, it has touched for it; 0: nothing.
    begun_ns: u64,
    /// As [`own_mapping`] has it.
    mapping: u64,
}

fn caller(call: &Underway, thread: &Thread) -> Caller {
    Caller { ip: call.back, sp: call.sp + 8, bp: thread.context.register(FRAME_POINTER) }
}

/// Has the program come here when a call returns to `back`.
fn await_return(thread: &mut Thread, back: u64) {
    if thread.allocations.is_new_return(back) {
        runtime().code.lock().watch(back);
    }
}

impl Allocator {
    /// That of the program whose file this is and which begins at `entry`, while somebody listens at the channel; none:
    /// it has no symbols.
    pub fn find(channel: &CStr, program: &[u8], entry: u64) -> Option<Self> {
        Self::with(functions::find(program, entry), || Channel::open(channel))
    }

    /// Go's alone, in a program whose C allocator the preloaded library sees. `channel`: asked for when Go is there.
    pub fn find_go(channel: impl FnOnce() -> Option<CString>, program: &[u8], entry: u64) -> Option<Self> {
        Self::with(functions::find_go(program, entry), || Channel::open(&channel()?))
    }

    fn with(functions: Functions, channel: impl FnOnce() -> Option<Channel>) -> Option<Self> {
        if functions.is_empty() { None } else { Some(Allocator { functions, channel: channel()? }) }
    }

    /// Where its functions begin.
    pub fn entries(&self) -> impl Iterator<Item = u64> {
        self.functions.keys().copied()
    }

    /// Says that blocks are told from here on, in the name of the program's first thread.
    pub fn begin(&self) {
        let tid = sys::thread_id();
        self.channel.publish(&Record { kind: Kind::ProcessStart, time_ns: sys::now_ns(), tid, operands: [0; 4] });
    }

    /// The program comes to an address that is watched.
    pub fn reached(&self, thread: &mut Thread, ip: u64) {
        // A child that borrows the memory is another process, whose blocks its parent will not know.
        if thread.borrows || !self.channel.is_open() {
            return;
        }
        let sp = thread.context.register(STACK_POINTER);
        if let Some(call) = thread.allocations.underway.take_if(|call| call.back == ip && call.sp + 8 == sp) {
            self.returned(thread, &call);
        }
        if let Some(span) = thread.allocations.regions.reach(ip, sp, sys::now_ns()) {
            self.publish_region(thread.tid, span);
        }
        if let Some(&function) = self.functions.get(&ip) {
            self.entered(thread, function, sp);
        }
    }

    fn entered(&self, thread: &mut Thread, function: Function, sp: u64) {
        let arguments = ARGUMENTS.map(|register| thread.context.register(register));
        if let Function::Region(is_first) = function {
            if let Some(back) = on_stack(sp, sp) {
                // As a return address, which is one byte behind what it is about at least.
                let call = if is_first { arguments[0].wrapping_add(1) } else { back };
                thread.allocations.regions.begin(sp, back, call, sys::now_ns());
                await_return(thread, back);
            }
            return;
        }
        if let Function::Go(function) = function {
            self.go_entered(thread, function, sp);
            return;
        }
        if function == Function::Releases {
            if let Some(old) = self.forget(arguments[0]) {
                self.publish_of(thread, Kind::Free, arguments[0], &old);
            }
            return;
        }
        // Who makes a thread allocates for it like anybody else, but what it maps is a stack.
        let is_stack = matches!(function, Function::Maps | Function::Protects);
        let covers = |call: &Underway| call.function != Function::Starts || is_stack;
        let is_inner = |call: &Underway| covers(call) && sp <= call.sp && on_stack(call.sp, sp) == Some(call.back);
        if thread.allocations.underway.as_ref().is_some_and(is_inner) {
            return;
        }
        let Some(back) = on_stack(sp, sp) else { return };
        let resizes = matches!(function, Function::Resizes(_));
        let old = if resizes { self.forget(arguments[0]) } else { None };
        if let Some(old) = &old {
            self.publish_of(thread, Kind::MayEnd, arguments[0], old);
        }
        // What is given may have been touched since before; what is taken back has been there until now.
        let begun_ns = match function {
            Function::Unmaps | Function::Remaps => {
                blocks::leaves(runtime(), arguments[0]..arguments[0].saturating_add(arguments[1]));
                let begun_ns = now();
                self.publish(thread, Kind::MayEnd, begun_ns, [arguments[0], 0, 0, 0]);
                begun_ns
            }
            _ => sys::now_ns(),
        };
        thread.allocations.underway = Some(Underway { sp, back, function, arguments, begun_ns, old });
        await_return(thread, back);
    }

    fn returned(&self, thread: &mut Thread, call: &Underway) {
        let result = thread.context.register(RESULT);
        let [first, second, third, ..] = call.arguments;
        match call.function {
            Function::Starts | Function::Releases | Function::Region(_) => {}
            Function::Go(function) => self.go_returned(thread, call, function),
            Function::Maps if result != MAP_FAILED => self.mapped(thread, call, result),
            Function::Unmaps if result as u32 == 0 => {
                self.publish(thread, Kind::Munmap, call.begun_ns, [first, second, 0, 0])
            }
            Function::Remaps if result != MAP_FAILED => {
                self.publish(thread, Kind::Mremap, thread.calls.moved_ns.get(), [first, second, result, third]);
                // It was there until then.
                self.publish(thread, Kind::Kept, call.begun_ns, [first, 0, 0, 0]);
            }
            Function::Unmaps | Function::Remaps => self.publish(thread, Kind::Kept, call.begun_ns, [first, 0, 0, 0]),
            Function::Protects if result as u32 == 0 => self.protected(thread, call),
            Function::Maps | Function::Protects => {}
            Function::Stores if result as u32 == 0 => self.gave(thread, call, user::read(first).unwrap_or(0)),
            Function::Stores => self.gave(thread, call, 0),
            Function::Bytes(..) | Function::Product(_) | Function::Pages | Function::Resizes(_) => {
                self.gave(thread, call, result);
            }
        }
    }

    /// A call gave a block, or 0.
    fn gave(&self, thread: &mut Thread, call: &Underway, block: u64) {
        let Underway { function, arguments, begun_ns, old, .. } = call;
        let bytes = function.bytes(arguments);
        if let Some(old) = old {
            let address = arguments[0];
            if block == 0 && bytes != Some(0) {
                // It stays what it was.
                self.publish_of(thread, Kind::Kept, address, old);
                self.know(address, old.bytes);
                return;
            }
            self.publish_of(thread, Kind::Free, address, old);
            let mapping = if old.mapping != 0 && block != 0 { own_mapping(block) } else { 0 };
            if mapping != 0 {
                let operands = [address - 16, old.mapping, block - 16, mapping];
                self.publish(thread, Kind::Mremap, old.time_ns, operands);
            }
        }
        if let Some(bytes) = bytes.filter(|_| block != 0) {
            let mapping = own_mapping(block);
            let block =
                Block { call: function.call(), address: block, key: block, bytes, begun_ns: *begun_ns, mapping };
            self.allocated(thread, &block, &caller(call, thread));
        }
    }

    /// A block has been made. Returns whether that is published.
    fn allocated(&self, thread: &mut Thread, block: &Block, caller: &Caller) -> bool {
        let header = self.channel.header();
        let tracked = TRACKED.lock().len();
        let seed = u64::from(thread.tid) << 32 ^ sys::now_ns();
        let Some(mean) = thread.allocations.choice.of(header, block.bytes, tracked, seed) else { return false };
        // What has a mapping of its own has fresh pages, which go with it.
        let bytes = if block.mapping == 0 || self.publishes_every_block() { block.bytes } else { 0 };
        let Some(time_ns) = self.know(block.key, bytes) else {
            header.untracked.fetch_add(1, Relaxed);
            return false;
        };
        let operands = [block.address, block.bytes, block.begun_ns, block.mapping];
        let record = Record { kind: Kind::Alloc, time_ns, tid: thread.tid, operands };
        let published = self.channel.publish_allocation(&record, block.call, mean, caller);
        if !published {
            self.forget(block.key);
        }
        published
    }

    /// The program says something of an allocator of its own, by `numalens.h`; it goes on at `next`.
    pub fn declared(&self, thread: &mut Thread, request: Request, next: u64) {
        let [first, second] = [request::FIRST, request::SECOND].map(|register| thread.context.register(register));
        match request {
            _ if first == 0 || thread.borrows || !self.channel.is_open() => {}
            Request::Alloc => {
                let [sp, bp] = [STACK_POINTER, FRAME_POINTER].map(|register| thread.context.register(register));
                self.carved(thread, first, second, 0, &Caller { ip: next, sp, bp });
            }
            Request::Free => self.given_back(thread, first),
            Request::Name => {
                let mut text = [0u8; MOST_NAME_BYTES];
                self.named(thread, first, user::read_beginning(second, &mut text));
            }
            _ => {}
        }
    }

    /// A block has been carved out of other memory. Returns whether that is published.
    fn carved(&self, thread: &mut Thread, address: u64, bytes: u64, begun_ns: u64, caller: &Caller) -> bool {
        let key = address | DECLARED;
        let block = Block { call: Call::Declared, address, key, bytes, begun_ns, mapping: 0 };
        self.allocated(thread, &block, caller)
    }

    /// Such a block is about to end.
    fn given_back(&self, thread: &Thread, address: u64) {
        if let Some(old) = self.forget(address | DECLARED) {
            self.publish(thread, Kind::Free, old.time_ns, [address, 1, 0, 0]);
        }
    }

    /// What the block at an address is called.
    fn named(&self, thread: &Thread, address: u64, text: &[u8]) {
        let record = Record { kind: Kind::Name, time_ns: now(), tid: thread.tid, operands: [address, 0, 0, 0] };
        self.channel.publish_text(&record, text);
    }

    /// A mapping has been made, unless it failed.
    fn mapped(&self, thread: &Thread, call: &Underway, address: u64) {
        let [_, bytes, protection, flags, _, offset] = call.arguments;
        if address == MAP_FAILED {
            return;
        }
        if protection as u32 & ACCESS == 0 && flags as u32 & raw::MAP_ANONYMOUS != 0 {
            HAS_RESERVED.store(true, Relaxed);
        }
        let operands = [address, bytes, protection & 0xffff_ffff | flags << 32, offset];
        let record = Record { kind: Kind::Alloc, time_ns: now(), tid: thread.tid, operands };
        self.channel.publish_allocation(&record, Call::Mmap, 0, &caller(call, thread));
    }

    /// Memory has got another protection.
    fn protected(&self, thread: &Thread, call: &Underway) {
        let [address, bytes, protection, ..] = call.arguments;
        if protection as u32 & ACCESS == 0 || !HAS_RESERVED.load(Relaxed) {
            return;
        }
        let operands = [address, bytes, protection & 0xffff_ffff, 0];
        let record = Record { kind: Kind::Alloc, time_ns: now(), tid: thread.tid, operands };
        self.channel.publish_allocation(&record, Call::Protect, 0, &caller(call, thread));
    }

    /// The collector is to know of a block, by its key. Returns the time to report it with; none: there is no room for
    /// it.
    fn know(&self, key: u64, bytes: u64) -> Option<u64> {
        if !self.publishes_every_block() {
            let mut tracked = TRACKED.lock();
            // One that was there has gone with the memory around it.
            if tracked.len() >= MOST_TRACKED && !tracked.contains(&key) {
                return None;
            }
            tracked.insert(key);
        }
        blocks::born(runtime(), key, bytes);
        Some(now())
    }

    fn publishes_every_block(&self) -> bool {
        self.channel.header().every.load(Relaxed) != 0
    }

    /// A block is about to end; none: the collector does not know of it.
    fn forget(&self, key: u64) -> Option<Old> {
        let every = self.publishes_every_block();
        if !every && !TRACKED.lock().remove(&key) {
            return None;
        }
        let bytes = match blocks::dies(runtime(), key) {
            0 if every => return None,
            bytes => bytes.max(1),
        };
        let mapping = if key & DECLARED == 0 { own_mapping(key) } else { 0 };
        Some(Old { time_ns: now(), bytes, mapping })
    }

    fn publish_region(&self, tid: u32, span: Span) {
        let operands = [span.call, span.begun_ns, span.ended_ns, u64::from(tid)];
        self.channel.publish(&Record { kind: Kind::Region, time_ns: sys::now_ns(), tid, operands });
    }

    /// The thread, or its process, is about to end: what still waits to be published.
    pub fn end(&self, thread: &mut Thread) {
        if !thread.borrows && self.channel.is_open() {
            thread.allocations.regions.rest().for_each(|span| self.publish_region(thread.tid, span));
        }
    }

    /// What becomes of a block that has been forgotten.
    fn publish_of(&self, thread: &Thread, what: Kind, block: u64, old: &Old) {
        self.publish(thread, what, old.time_ns, [block, 0, 0, 0]);
    }

    fn publish(&self, thread: &Thread, kind: Kind, time_ns: u64, operands: [u64; 4]) {
        self.channel.publish(&Record { kind, time_ns, tid: thread.tid, operands });
    }
}

/// The time, later than of all that has been published by this thread: the clock may stand still for that long.
fn now() -> u64 {
    sys::now_ns() + 1
}

/// The word at an address, at or above the stack pointer. That it is there is known of the stack pointer's own page
/// alone: a call has just put its return address there.
fn on_stack(at: u64, sp: u64) -> Option<u64> {
    if at.is_multiple_of(8) && at / sys::PAGE == sp / sys::PAGE {
        // SAFETY: a word of a page that is mapped and was written a moment ago.
        return Some(unsafe { (at as *const u64).read_volatile() });
    }
    user::read(at).ok()
}

/// The size of the mapping that glibc made for this block alone, and that it moves whole when the block grows; 0 for
/// any other. Such a block begins 16 bytes into its first page, after its size, a multiple of the page size, with flag
/// 2.
fn own_mapping(block: u64) -> u64 {
    if block % sys::PAGE != 16 {
        return 0;
    }
    let size = user::read::<u64>(block - 8).unwrap_or(0);
    if size % sys::PAGE == 2 { size - 2 } else { 0 }
}
