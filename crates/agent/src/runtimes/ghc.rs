//! GHC's collector of garbage, of programs that have the runtime linked in with its symbols (9.0 and later).
//!
//! ```text
//!   GarbageCollect(generation, ...)    the thread that leads a collection, from its entry to its return
//!   gcWorkerThread(capability)         each other thread that takes part
//!   evacuate(StgClosure **p)           an object is processed: *p, with a tag in its lowest bits
//! ```
//! An object is counted once for each pointer to it that a thread comes to, by where it lies then. It is in the heap if
//! it is within `mblock_address_space`, else static. Of one in the heap the generation stands in the descriptor of its
//! block, which is found by arithmetic: memory comes in megablocks of 1 MiB that begin with the descriptors of their
//! blocks of 4 KiB.
//!
//! ```text
//!   megablock   | descriptor 0 | descriptor 1 | ... 64 bytes each |   blocks ...            |
//!   object p    |                      ^ (p & 0xff000) >> 6       |        p & ~0xfffff ... |
//! ```
//! 1. The program is about to read the object's word and its descriptor itself, so they are there. A descriptor on a
//!    page that nobody has touched is not read: then the pointer is no closure's, and is not counted.
//! 2. A page whose home is not known yet waits until the thread's part of the collection is over.
//! 3. A thread adds up in memory of its own, and logs when its part is over: what a killed program had under way is
//!    lost.

use crate::state::collecting::Part;
use crate::state::runtime::runtime;
use crate::state::thread::Thread;
use crate::sys::{self, user};
use alloc::vec::Vec;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;
use numalens_isa::convention::function::{ARGUMENTS, STACK_POINTER};
use numalens_translator::Watch;
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader, Sym};
use object::{LittleEndian, ReadRef};

/// A section that GHC puts into what it links.
const MADE_BY_GHC: &[u8] = b".debug-ghc-link-info";
/// The generation of the latest collection that has begun. Other threads take part in it before and until it has ended.
static GENERATION_NOW: AtomicU32 = AtomicU32::new(0);

/// Where the runtime of this program has its functions and variables.
#[derive(Default)]
pub struct Ghc {
    leads: u64,
    helps: u64,
    evacuates: [u64; 2],
    /// `mblock_address_space`: the first address of the heap, and the last.
    space: u64,
}

impl Ghc {
    /// That of the program of this process, whose file this is and which begins with the first stack `stack`.
    pub fn find<'a>(stack: u64, data: impl ReadRef<'a>) -> Option<Self> {
        let header = FileHeader64::<LittleEndian>::parse(data).ok()?;
        let endian = header.endian().ok()?;
        let sections = header.sections(endian, data).ok()?;
        if !sections.iter().any(|section| sections.section_name(endian, section) == Ok(MADE_BY_GHC)) {
            return None;
        }
        let moved_by = if header.e_type(endian) == elf::ET_EXEC {
            0
        } else {
            user::entry_of_program(stack)?.wrapping_sub(header.e_entry(endian))
        };
        let symbols = sections.symbols(endian, data, elf::SHT_SYMTAB).ok()?;
        let mut ghc = Ghc::default();
        for symbol in symbols.iter().filter(|symbol| !symbol.is_undefined(endian)) {
            let Ok(name) = symbols.symbol_name(endian, symbol) else { continue };
            let place = match name {
                b"GarbageCollect" => &mut ghc.leads,
                b"gcWorkerThread" => &mut ghc.helps,
                b"evacuate" => &mut ghc.evacuates[0],
                b"evacuate1" => &mut ghc.evacuates[1],
                b"mblock_address_space" => &mut ghc.space,
                _ => continue,
            };
            *place = symbol.st_value(endian).wrapping_add(moved_by);
        }
        // Without threads there are no helpers, and one way of evacuating.
        (ghc.leads != 0 && ghc.evacuates[0] != 0 && ghc.space != 0).then_some(ghc)
    }

    /// What is to be watched.
    pub fn watched(&self) -> Vec<(u64, Watch)> {
        let pointee = Watch::Pointee(ARGUMENTS[0].number());
        let functions = [self.leads, self.helps].map(|at| (at, Watch::Reached));
        let all = self.evacuates.map(|at| (at, pointee)).into_iter().chain(functions);
        all.filter(|&(at, _)| at != 0).collect()
    }

    /// The program has come to one of these, or to where one returns to.
    pub fn reached(&self, thread: &mut Thread, ip: u64, home_of: impl Fn(u64) -> Option<u16>) {
        let sp = thread.context.register(STACK_POINTER);
        let part = thread.collecting.get_mut().part.take_if(|part| part.back == ip && part.sp + 8 == sp);
        if let Some(part) = part {
            let node = thread.node_now();
            let generation = GENERATION_NOW.load(Relaxed);
            thread.collecting.get_mut().end(&part, (thread.first.0, node), generation, home_of);
        }
        if ip != self.leads && ip != self.helps {
            return;
        }
        let Ok(back) = user::read_own_stack(sp) else { return };
        let leads = ip == self.leads;
        if leads {
            // The lowest member of a structure in the versions that hand one over.
            GENERATION_NOW.store(thread.context.register(ARGUMENTS[0]) as u32, Relaxed);
        }
        let [first, last] = user::read::<[u64; 2]>(self.space).unwrap_or_default();
        thread.collecting.get_mut().begin(Part { sp, back, begun_ns: sys::now_ns(), leads }, first..last);
        runtime().code.lock().watch(back);
    }
}
