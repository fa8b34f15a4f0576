//! Call stacks of first touches.
//!
//! The collector unwinds; what it needs is logged here: the instruction and stack pointers, the frame pointer,
//! and the words of the stack that can lead unwinding: those that point into code (return addresses) or into the stack
//! (frame pointers that were saved), each with its place. What else there is changes from pass to pass and leads
//! nowhere: counters, data.
//!
//! A loop that touches a million pages does so from one call stack, so a stack is logged once. It is that of before
//! where nothing that unwinding would read differs:
//!
//! ```text
//!   same instruction, same stack pointer, same rbp if that points into the stack,
//!   the same words in all places that were logged of the one of before,
//!   and no code has come or gone since
//! ```
//!
//! Places whose words led nowhere then are not compared: unwinding takes the first word that it reads from a place that
//! was logged, so it is led to the second by the same rule as then, and so on to the end.

use crate::call;
use crate::state::maps::Maps;
use crate::state::own;
use crate::state::runtime::runtime;
use crate::state::session_file::ProcessMemory;
use crate::state::thread::Thread;
use crate::state::thread_context::ThreadContext;
use crate::sys::lock::Lock;
use crate::sys::{self, PAGE};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::Ordering::Relaxed;
use hashbrown::HashMap;
use numalens_event::exact::process::LOG_BYTES;
use numalens_event::exact::{Extent, log};
use numalens_isa::convention::function::{FRAME_POINTER, STACK_POINTER};
use numalens_translator::{Cache, SiteId, context as fixed};
use rustc_hash::FxBuildHasher;

/// Bytes of a stack that are looked through.
const MOST_BYTES: u64 = 64 << 10;
/// Words of a stack that are logged: return addresses and frame pointers of all the frames that the collector unwinds,
/// and as many that were left over from calls of before.
const MOST_WORDS: usize = 512;
/// Words of stacks remembered before they are forgotten.
const MOST_KNOWN: usize = 1 << 17;
/// Stacks of one place that are compared with.
const MOST_ALIKE: usize = 16;
/// Above its pointer, a stack reaches so far at most: what points further is data.
const MOST_STACK: u64 = 8 << 20;
/// The place of a word is logged in its upper bits.
const PLACE: u32 = log::STACK_PLACE;

/// Stacks in the log, by where they begin.
static KNOWN: Lock<Known> =
    Lock::new(Known { of: Extent::NONE, code_changes: 0, words: 0, stacks: HashMap::with_hasher(FxBuildHasher) });

struct Known {
    /// The log that they are in: a forked child has its own.
    of: Extent,
    /// The changes of code that they were logged after.
    code_changes: u64,
    words: usize,
    /// By instruction and stack pointer; what was found last stands first.
    stacks: HashMap<(u64, u64), Vec<LoggedStack>, FxBuildHasher>,
}

/// A stack that is in the log.
struct LoggedStack {
    /// What a page's record says of it.
    number: u32,
    frame: Option<u64>,
    words: Box<[Word]>,
}

/// A word that can lead unwinding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Word {
    /// Words above the stack pointer.
    place: u16,
    value: u64,
}

/// The stack of the calling thread, as far as it is there.
struct OwnStack {
    sp: u64,
    /// Where it ends.
    end: u64,
    /// Up to here it was found readable.
    readable: u64,
}

impl OwnStack {
    /// The stack at `sp`, which began at `first`; 0: not known.
    fn new(sp: u64, first: u64) -> Self {
        let end = if stack_from(sp).contains(&first) { first.min(sp + MOST_BYTES) } else { sp + MOST_BYTES };
        OwnStack { sp, end, readable: sp }
    }

    /// A word of it, by how many words above the stack pointer it is.
    fn word(&mut self, place: u16) -> Option<u64> {
        let at = self.sp + u64::from(place) * 8;
        if at + 8 > self.end {
            return None;
        }
        while at + 8 > self.readable {
            if !sys::is_readable(self.readable) {
                self.end = self.readable;
                return None;
            }
            self.readable = (self.readable | (PAGE - 1)) + 1;
        }
        // SAFETY: its pages were found readable a moment ago, and are this thread's stack, which nobody else may unmap
        // meanwhile: that would be the end of the thread without us too.
        Some(unsafe { (at as *const u64).read_unaligned() })
    }
}

impl LoggedStack {
    /// Whether a stack is this one.
    fn is(&self, stack: &mut OwnStack, frame: Option<u64>) -> bool {
        frame == self.frame && self.words.iter().all(|word| stack.word(word.place) == Some(word.value))
    }
}

impl Known {
    /// Forgets what holds no longer, or is too much.
    fn tidy(&mut self, of: Extent, code_changes: u64) {
        if self.of != of || self.code_changes != code_changes || self.words >= MOST_KNOWN {
            (self.of, self.code_changes, self.words) = (of, code_changes, 0);
            self.stacks.clear();
        }
    }

    /// What a page's record says of a stack, if it was logged.
    fn find(&mut self, ip: u64, stack: &mut OwnStack, frame: Option<u64>) -> Option<u32> {
        let alike = self.stacks.get_mut(&(ip, stack.sp))?;
        let at = alike.iter().position(|logged| logged.is(stack, frame))?;
        alike.swap(0, at);
        Some(alike[0].number)
    }

    fn insert(&mut self, ip: u64, sp: u64, logged: LoggedStack) {
        self.words += logged.words.len() + 1;
        let alike = self.stacks.entry((ip, sp)).or_default();
        if alike.len() >= MOST_ALIKE {
            alike.pop();
        }
        alike.insert(0, logged);
    }
}

/// Nobody else may use the stacks until [`release`]: around a fork.
pub fn hold() {
    KNOWN.hold();
}

/// Ends [`hold`].
///
/// # Safety
/// By the thread that held them, or in its forked child.
pub unsafe fn release() {
    // SAFETY: the caller's promise.
    unsafe { KNOWN.force_free() };
}

/// Notes the call stack of a thread, which came here to count an access of `site`. Returns what the page's record says
/// of it.
pub fn note(memory: &ProcessMemory, thread: &Thread, site: SiteId) -> Option<u32> {
    let context = thread.context;
    let bp = frame_pointer(&runtime().code.lock().cache, context);
    note_at(memory, thread, memory.site(site.0).address.load(Relaxed), context.get(own::COUNT_STACK), bp)
}

/// Notes the call stack of a thread, which came here to make the system call at `ip`. As [`note`].
pub fn note_call(memory: &ProcessMemory, thread: &Thread, ip: u64) -> Option<u32> {
    note_at(memory, thread, ip, thread.context.register(STACK_POINTER), thread.context.register(FRAME_POINTER))
}

fn note_at(memory: &ProcessMemory, thread: &Thread, ip: u64, sp: u64, bp: u64) -> Option<u32> {
    let first = runtime().session.entry(thread.first).stack.load(Relaxed);
    let mut own_stack = OwnStack::new(sp, first);
    let code_changes = runtime().code.lock().env.maps.code_changes();
    let frame = Some(bp).filter(|bp| stack_from(sp).contains(bp));
    {
        let mut known = KNOWN.lock();
        known.tidy(memory.extent, code_changes);
        if let Some(stack) = known.find(ip, &mut own_stack, frame) {
            return Some(stack);
        }
    }
    let (words, bytes) = {
        let code = runtime().code.lock();
        leading(&code.env.maps, &mut own_stack)
    };
    let stack = log_stack(memory, [ip, sp, bp, bytes], &words)?;
    let mut known = KNOWN.lock();
    known.tidy(memory.extent, code_changes);
    known.insert(ip, sp, LoggedStack { number: stack, frame, words });
    Some(stack)
}

/// Puts a stack into the log, unless half of that is full: memory maps are to have room too.
fn log_stack(memory: &ProcessMemory, registers: [u64; 4], words: &[Word]) -> Option<u32> {
    if memory.logged() >= LOG_BYTES / 2 {
        return None;
    }
    let said = words.iter().flat_map(|word| [u64::from(word.place) << PLACE | word.value]);
    let said: Vec<u64> = registers.into_iter().chain(said).collect();
    let at = memory.log(log::STACK, &said, &[])?;
    u32::try_from(at / 8 + 1).ok()
}

/// Where frames of a stack can lie.
fn stack_from(sp: u64) -> Range<u64> {
    sp..sp.saturating_add(MOST_STACK)
}

/// The words of a stack that can lead unwinding, and how many bytes were looked through.
fn leading(maps: &Maps, own_stack: &mut OwnStack) -> (Box<[Word]>, u64) {
    let stack = stack_from(own_stack.sp);
    let code: Vec<Range<u64>> =
        maps.iter().filter(|mapping| mapping.executable()).map(|mapping| mapping.start..mapping.end).collect();
    let is_code = |word: u64| {
        let at = code.partition_point(|range| range.end <= word);
        code.get(at).is_some_and(|range| range.start <= word)
    };
    let leads = |word: u64| word < 1 << PLACE && (stack.contains(&word) || word >= PAGE && is_code(word));
    let (mut words, mut place) = (Vec::with_capacity(64), 0);
    while words.len() < MOST_WORDS
        && let Some(value) = own_stack.word(place)
    {
        if leads(value) {
            words.push(Word { place, value });
        }
        place += 1;
    }
    (words.into_boxed_slice(), u64::from(place) * 8)
}

/// The program's rbp: generated code may have put it aside.
fn frame_pointer(cache: &Cache, context: ThreadContext) -> u64 {
    match cache.locate(context.get(fixed::COUNT_RETURN)) {
        Some(position) if position.spilled & FRAME_POINTER.bit() != 0 => context.spilled(FRAME_POINTER),
        _ => context.get(own::COUNT_FRAME),
    }
}

/// Copies what is there of the memory from `at` on, up to the end of what is mapped.
pub fn copy(at: u64, into: &mut [u8]) -> usize {
    let local = [into.as_mut_ptr() as u64, into.len() as u64];
    // In two pieces, of which the second may lie beyond the end of the stack.
    let first = (sys::PAGE - at % sys::PAGE).min(into.len() as u64);
    let remote = [at, first, at + first, into.len() as u64 - first];
    let copied =
        // SAFETY: memory of our own to fill; the kernel checks the other.
        unsafe { call!(__NR_process_vm_readv, sys::process_id(), &raw const local, 1, &raw const remote, 2, 0) };
    copied.unwrap_or(0) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::maps::Mapping;
    use alloc::vec::Vec;

    const CODE: u64 = 0x40_0000;

    fn maps() -> Maps {
        let mut maps = Maps::default();
        maps.insert(Mapping::anonymous(CODE, CODE + 0x1000, crate::sys::raw::PROT_EXEC));
        maps.insert(Mapping::anonymous(0x50_0000, 0x51_0000, crate::sys::raw::PROT_READ));
        maps
    }

    /// The words as a stack that ends behind them.
    fn stack(words: &[u64]) -> OwnStack {
        let range = words.as_ptr_range();
        OwnStack::new(range.start as u64, range.end as u64)
    }

    #[test]
    fn a_stack_is_itself_a_pass_later_and_no_other() {
        let mut words = [1, CODE + 0x10, 0x50_0000, 0, CODE + 0x30, 1 << 63];
        let sp = words.as_ptr() as u64;
        words[3] = sp + 32;
        let frame = Some(sp + 8);
        let (leads, bytes) = leading(&maps(), &mut stack(&words));
        let found: Vec<(u16, u64)> = leads.iter().map(|word| (word.place, word.value)).collect();
        assert_eq!(found, [(1, CODE + 0x10), (3, sp + 32), (4, CODE + 0x30)], "code and stack");
        assert_eq!(bytes, 48, "as far as there is stack");
        let logged = LoggedStack { number: 1, frame, words: leads };
        let mut is = |at: usize, word: u64| {
            let before = core::mem::replace(&mut words[at], word);
            // Its reader goes by an address.
            let same = logged.is(&mut stack(core::hint::black_box(&words)), frame);
            words[at] = before;
            same
        };
        assert!(is(0, 2) && is(2, 0x50_1000), "counters and data");
        assert!(!is(1, CODE + 0x20), "another caller");
        assert!(!is(4, CODE + 0x38), "another caller's caller, all else alike");
        assert!(!logged.is(&mut stack(&words), None) && !logged.is(&mut stack(&words), Some(sp + 16)), "another frame");
        assert!(!logged.is(&mut stack(&words[..4]), frame), "a shorter stack");
    }

    #[test]
    fn stacks_are_forgotten_when_code_changes() {
        let mut maps = maps();
        let before = maps.code_changes();
        maps.insert(Mapping::anonymous(0x50_0000, 0x51_0000, crate::sys::raw::PROT_READ));
        assert_eq!(maps.code_changes(), before, "data");
        maps.protect(CODE..CODE + 0x1000, crate::sys::raw::PROT_READ);
        assert_ne!(maps.code_changes(), before);
    }
}
