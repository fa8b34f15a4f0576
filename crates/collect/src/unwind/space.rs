//! One process: what code is mapped where, and unwinding through it.
//!
//! Each step asks how the frame's address is to be unwound ([`Kind`], remembered per address), then takes the step:
//! by framehop's cached rules, by an expression, over a signal frame, or, where nothing covers the address, by two
//! guesses that must prove themselves: the word at the stack pointer (a leaf without a frame) or the frame pointer,
//! accepted when a call instruction ends at the return address they give. Code that uses rbp for something else (GHC's
//! stack pointer) fails that proof, and the stack ends honestly.
//!
//! Measured on a busy machine: 30 ns a frame, 0.3 us for a stack of ten, once its addresses are known; the first visit
//! of an address costs about fifty times that, with the reading of its module's tables once more.

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;

use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{FrameAddress, MustNotAllocateDuringUnwind, Unwinder};
use rustc_hash::FxHashMap;

use super::call::{LONGEST_CALL, ends_with_call};
use super::evaluate::{Classify, Context, Kind, Registers, Step, Stepped, is_signal_return, signal_context};
use super::module::{Module, SharedBytes};
use super::{ModuleCache, Stack, StackEnd};
use numalens_isa::convention::function::{FRAME_POINTER, STACK_POINTER};
use numalens_isa::{PAGE, Register};

/// A read this far beyond the copied bytes still counts as "the copy was too short"; farther is no stack at all.
const FARTHEST_FRAME: u64 = 64 << 20;
/// User addresses end here (47 bits; 57-bit addresses are given only to programs that ask).
const USER_END: u64 = 1 << 47;
/// Remembered addresses per process, before starting anew.
const MOST_KNOWN: usize = 1 << 15;

/// All that a stack followed from, besides instruction, stack and frame pointer, and the code that is mapped: where
/// that is the same, so is the stack.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Basis {
    /// Words that were read.
    words: Vec<Read>,
    /// Whether general registers besides the stack and the frame pointer were asked for.
    registers: bool,
}

impl Basis {
    /// How many words were read.
    pub fn words(&self) -> usize {
        self.words.len()
    }

    /// Whether the bytes `stack` from `sp` upwards would have been read the same, and the registers need not be
    /// compared or are equal.
    pub fn holds(&self, sp: u64, stack: &[u8], same_registers: bool) -> bool {
        (same_registers || !self.registers)
            && self.words.iter().all(|read| {
                let word = word_at(sp, stack, read.address);
                word == read.word
                    || read.leads_nowhere && word.is_some_and(|word| frame_pointer(sp, stack, word).is_none())
            })
    }
}

/// A word that unwinding has read.
#[derive(Debug, PartialEq, Eq)]
struct Read {
    address: u64,
    /// None: it was not there.
    word: Option<u64>,
    /// It was a frame pointer that points to no frame: any other such does as well. `rbp` is a register like any other
    /// where code keeps no frame pointers, and differs from call to call.
    leads_nowhere: bool,
}

/// The frame pointer `bp`, if it can point to a frame in the bytes `stack` from `sp` upwards, or beyond.
pub fn frame_pointer(sp: u64, stack: &[u8], bp: u64) -> Option<u64> {
    (bp >= sp && bp - sp < stack.len() as u64 + FARTHEST_FRAME).then_some(bp)
}

/// An executable mapping of a process.
#[derive(Clone, Debug)]
pub struct CodeMapping {
    /// First address.
    pub start: u64,
    /// One past the last.
    pub end: u64,
    /// The file's image, when it is an ELF file that could be read.
    pub module: Option<Arc<Module>>,
    /// `address = svma + bias` (wrapping), for addresses stated in `module`.
    pub bias: u64,
    /// Where in the file `start` is.
    pub file_offset: u64,
    /// Known to framehop under `start`.
    registered: bool,
}

impl CodeMapping {
    /// The address stated in the file for an address in this mapping.
    pub fn svma(&self, address: u64) -> u64 {
        address.wrapping_sub(self.bias)
    }
}

/// The executable memory of one process.
#[derive(Default)]
pub struct AddressSpace {
    pid: Option<i32>,
    /// By address, disjoint.
    mappings: Vec<CodeMapping>,
    unwinder: UnwinderX86_64<SharedBytes, MustNotAllocateDuringUnwind>,
    /// Made when the first stack comes: most processes of a machine are never sampled.
    known: Option<Box<Known>>,
}

/// framehop remembers the rules of 509 addresses; a compiler's stacks go through ten times as many. So there are
/// several of its caches, each for its share of the addresses.
const RULE_CACHES: usize = 16;

struct Known {
    rules: [Option<Box<CacheX86_64<MustNotAllocateDuringUnwind>>>; RULE_CACHES],
    context: Context,
    kinds: FxHashMap<u64, Kind>,
    calls: FxHashMap<u64, bool>,
}

/// What a step led to.
enum Next {
    Caller(Registers),
    /// The caller was interrupted there, not calling.
    Interrupted(Registers),
    Root,
    Lost,
}

impl AddressSpace {
    /// An empty address space whose files are looked up in this mount namespace.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty address space of process `pid`: files are looked up as that process sees them.
    pub fn of_process(pid: i32) -> Self {
        Self { pid: Some(pid), ..Self::default() }
    }

    /// The process, when known.
    pub fn pid(&self) -> Option<i32> {
        self.pid
    }

    /// Says whose address space this is, after [`AddressSpace::fork`].
    pub fn set_pid(&mut self, pid: i32) {
        self.pid = Some(pid);
    }

    /// The executable mappings by address.
    pub fn mappings(&self) -> &[CodeMapping] {
        &self.mappings
    }

    /// The mapping that holds `address`.
    pub fn find(&self, address: u64) -> Option<&CodeMapping> {
        self.position(address).map(|at| &self.mappings[at])
    }

    fn position(&self, address: u64) -> Option<usize> {
        let at = self.mappings.partition_point(|mapping| mapping.start <= address).checked_sub(1)?;
        (address < self.mappings[at].end).then_some(at)
    }

    /// Adds an executable mapping; what it overlaps is replaced, as mmap does. `path` is what the kernel calls the file
    /// (a trailing ` (deleted)` included), empty or in brackets for memory without one.
    pub fn add_mapping(&mut self, cache: &mut ModuleCache, start: u64, end: u64, file_offset: u64, path: &Path) {
        if start >= end {
            return;
        }
        let module = cache.open(self.pid, start, end, path);
        let bias = module.as_ref().and_then(|module| module.bias(start, file_offset, true));
        let (module, bias) = bias.map_or((None, 0), |bias| (module, bias));
        if let Some(at) = self.position(start) {
            let same = &self.mappings[at];
            let same_module = same.module.as_ref().map(Arc::as_ptr) == module.as_ref().map(Arc::as_ptr);
            if same_module && same.bias == bias && end <= same.end {
                return;
            }
        }
        self.remove(start, end);
        let at = self.mappings.partition_point(|mapping| mapping.start < start);
        self.mappings.insert(at, CodeMapping { start, end, module, bias, file_offset, registered: false });
    }

    /// Forgets the code in `start..end`; mappings that reach beyond are cut.
    pub fn remove(&mut self, start: u64, end: u64) {
        let first = self.mappings.partition_point(|mapping| mapping.end <= start);
        let last = self.mappings.partition_point(|mapping| mapping.start < end);
        if let Some(known) = &mut self.known {
            // Even without an overlap: addresses that nothing covered may be covered now.
            known.kinds.clear();
            known.calls.clear();
        }
        if first >= last {
            return;
        }
        let mut remaining = Vec::new();
        for mapping in &self.mappings[first..last] {
            if mapping.registered {
                self.unwinder.remove_module(mapping.start);
            }
            let piece = |start, end| {
                let file_offset = mapping.file_offset.wrapping_add(start - mapping.start);
                CodeMapping { start, end, file_offset, registered: false, ..mapping.clone() }
            };
            remaining.extend((mapping.start < start).then(|| piece(mapping.start, start)));
            remaining.extend((mapping.end > end).then(|| piece(end, mapping.end)));
        }
        self.mappings.splice(first..last, remaining);
        // framehop tells rules of different mappings apart by a 16-bit count that wraps in long recordings.
        self.known = None;
    }

    /// The address space of a child just forked. Follow with [`AddressSpace::set_pid`].
    #[must_use]
    pub fn fork(&self) -> Self {
        Self { pid: self.pid, mappings: self.mappings.clone(), unwinder: self.unwinder.clone(), known: None }
    }

    /// The call stack of a thread stopped at `ip` with stack pointer `sp` and frame pointer `bp`; `stack` holds the
    /// bytes from `sp` upwards, as many as were copied. At most `max` frames, at least the one at `ip`.
    pub fn unwind(&mut self, ip: u64, sp: u64, bp: u64, stack: &[u8], max: usize) -> (Stack, Basis) {
        self.walk(Registers { ip, sp, bp }, None, stack, max)
    }

    /// Like [`AddressSpace::unwind`], with all general registers in the order of the instruction encoding (rax rcx rdx
    /// rbx rsp rbp rsi rdi r8..r15): some instructions of functions that realign the stack need one of them.
    pub fn unwind_registers(&mut self, ip: u64, general: &[u64; 16], stack: &[u8], max: usize) -> (Stack, Basis) {
        let of = |register: Register| general[usize::from(register.number())];
        let start = Registers { ip, sp: of(STACK_POINTER), bp: of(FRAME_POINTER) };
        self.walk(start, Some(general), stack, max)
    }

    fn walk(&mut self, start: Registers, general: Option<&[u64; 16]>, stack: &[u8], max: usize) -> (Stack, Basis) {
        let mut known = self.known.take().unwrap_or_else(|| {
            Box::new(Known {
                rules: Default::default(),
                context: Context::new_in(),
                kinds: FxHashMap::default(),
                calls: FxHashMap::default(),
            })
        });
        if known.kinds.len() + known.calls.len() > MOST_KNOWN {
            known.kinds.clear();
            known.calls.clear();
        }
        let mut walk = Walk {
            space: self,
            known: &mut known,
            general: general.copied(),
            asked: Cell::new(false),
            careful: false,
            blind: false,
            copy: Copied { bottom: start.sp, bytes: stack, beyond: false, read: Vec::with_capacity(64) },
        };
        let mut result = walk.run(start, max);
        if walk.blind && general.is_some() {
            // The dynamic linker's lazy resolver keeps the stack pointer in rbx, saved by the functions it calls.
            (walk.general, walk.careful) = (general.copied(), true);
            result = walk.run(start, max);
        }
        let basis = Basis { words: walk.copy.read, registers: walk.asked.get() };
        self.known = Some(known);
        (result, basis)
    }

    /// How frames at `address` are unwound; makes its mapping known to framehop when that is to do it.
    fn classify(&mut self, address: u64, exact_ip: u64, context: &mut Context) -> Kind {
        let Some(at) = self.position(address) else {
            return Kind::Uncovered;
        };
        let mapping = &self.mappings[at];
        let Some(module) = mapping.module.clone() else {
            return Kind::Uncovered;
        };
        let (start, end, bias) = (mapping.start, mapping.end, mapping.bias);
        let svma = address.wrapping_sub(bias);
        match module.frames().visit(svma, Classify { svma, context }) {
            None => {
                let mut code = [0; 9];
                let read = module.read(exact_ip.wrapping_sub(bias), &mut code).unwrap_or(0);
                if is_signal_return(&code[..read]) { Kind::SignalReturn } else { Kind::Uncovered }
            }
            Some(Kind::Plain) => {
                let base_svma = module.base_svma();
                let base = base_svma.wrapping_add(bias);
                // framehop counts addresses from the image's base in 32 bits.
                if base > start || end - base > u64::from(u32::MAX) {
                    return Kind::Expression;
                }
                if !mapping.registered {
                    let info = module.frames().section_info(base_svma);
                    let name = module.path().to_string_lossy().into_owned();
                    self.unwinder.add_module(framehop::Module::new(name, start..end, base, info));
                    self.mappings[at].registered = true;
                }
                Kind::Plain
            }
            Some(kind) => kind,
        }
    }

    /// Whether a call ends at `address`, as far as its file tells; `None` where there is no file.
    fn follows_call(&self, address: u64) -> Option<bool> {
        let mapping = self.find(address.wrapping_sub(1))?;
        let module = mapping.module.as_ref()?;
        let mut code = [0; LONGEST_CALL];
        let from = mapping.svma(address).checked_sub(LONGEST_CALL as u64)?;
        Some(module.read(from, &mut code) == Some(LONGEST_CALL) && ends_with_call(&code))
    }
}

/// One stack on its way from leaf to root.
struct Walk<'a> {
    space: &'a mut AddressSpace,
    known: &'a mut Known,
    /// All general registers of the frame, where they are known: in the innermost one, and everywhere when `careful`.
    general: Option<[u64; 16]>,
    /// Whether they were asked for.
    asked: Cell<bool>,
    /// Follow all registers that calls preserve, by full evaluation of every rule: ten times slower.
    careful: bool,
    /// An expression wanted a register that was not followed.
    blind: bool,
    copy: Copied<'a>,
}

/// The bytes of a stack that were copied.
struct Copied<'a> {
    bottom: u64,
    bytes: &'a [u8],
    /// The last step wanted bytes just beyond the copy.
    beyond: bool,
    read: Vec<Read>,
}

impl Copied<'_> {
    fn word(&mut self, address: u64) -> Result<u64, ()> {
        let word = word_at(self.bottom, self.bytes, address);
        self.read.push(Read { address, word, leads_nowhere: false });
        let beyond = address >= self.bottom && address - self.bottom < self.bytes.len() as u64 + FARTHEST_FRAME;
        self.beyond |= word.is_none() && beyond;
        word.ok_or(())
    }
}

impl Walk<'_> {
    fn run(&mut self, start: Registers, max: usize) -> Stack {
        let mut frames = Vec::with_capacity(max.clamp(1, 32));
        let mut registers = start;
        let mut exact = true;
        frames.push(start.ip);
        let end = loop {
            if frames.len() >= max {
                break StackEnd::Limit;
            }
            self.copy.beyond = false;
            let lookup = registers.ip.wrapping_sub(u64::from(!exact));
            let (caller, interrupted) = match self.step(lookup, exact, registers) {
                Next::Caller(caller) => (caller, false),
                Next::Interrupted(caller) => (caller, true),
                Next::Root => break StackEnd::Root,
                Next::Lost if self.copy.beyond => break StackEnd::CopyEnded,
                Next::Lost => break StackEnd::Lost,
            };
            if caller.ip == 0 {
                break StackEnd::Root;
            }
            // The stack pointer grows from callee to caller, except over a signal frame on an alternate stack.
            if caller.ip >= USER_END || caller.ip < PAGE || (caller.sp <= registers.sp && !interrupted) {
                break StackEnd::Lost;
            }
            frames.push(caller.ip.wrapping_sub(u64::from(!interrupted)));
            (registers, exact) = (caller, interrupted);
            if !self.careful {
                self.general = None;
            }
        };
        // Frames in memory that is not known to hold code are believed only when a known one follows (code that was
        // made executable later, by a compiler at run time): no stack ends in the unknown.
        if end != StackEnd::CopyEnded {
            while frames.len() > 1 && frames.last().is_some_and(|&frame| self.space.position(frame).is_none()) {
                frames.pop();
            }
        }
        Stack { frames, end }
    }

    fn step(&mut self, lookup: u64, exact: bool, registers: Registers) -> Next {
        // Bit 0 keeps an exact address apart from the same number reached as a return address.
        let key = lookup << 1 | u64::from(exact);
        let kind = match self.known.kinds.get(&key) {
            Some(&kind) => kind,
            None => {
                let kind = self.space.classify(lookup, registers.ip, &mut self.known.context);
                self.known.kinds.insert(key, kind);
                kind
            }
        };
        match kind {
            Kind::Plain if !self.careful => self.plain(exact, registers),
            Kind::Plain | Kind::Expression => self.expression(lookup, registers).unwrap_or(Next::Lost),
            Kind::SignalReturn => {
                signal_context(registers.sp, |address| self.copy.word(address)).map_or(Next::Lost, Next::Interrupted)
            }
            Kind::Uncovered => self.guess(exact, registers),
        }
    }

    fn plain(&mut self, exact: bool, registers: Registers) -> Next {
        let address = match FrameAddress::from_return_address(registers.ip) {
            Some(address) if !exact => address,
            _ => FrameAddress::from_instruction_pointer(registers.ip),
        };
        let before = self.copy.read.len();
        let copy = &mut self.copy;
        let mut read = |address| copy.word(address);
        let mut frame = UnwindRegsX86_64::new(registers.ip, registers.sp, registers.bp);
        // Within a cache the place is the address modulo 509.
        let share = (address.address_for_lookup() / 509) as usize % RULE_CACHES;
        let rules = self.known.rules[share].get_or_insert_with(|| Box::new(CacheX86_64::new_in()));
        match self.space.unwinder.unwind_frame(address, &mut frame, rules, &mut read) {
            Ok(Some(ip)) => {
                let bp = frame.bp();
                if frame_pointer(self.copy.bottom, self.copy.bytes, bp).is_none() {
                    let restored = |read: &&mut Read| read.word == Some(bp) && bp != ip;
                    self.copy.read[before..].iter_mut().filter(restored).for_each(|read| read.leads_nowhere = true);
                }
                Next::Caller(Registers { ip, sp: frame.sp(), bp })
            }
            Ok(None) => Next::Root,
            Err(_) => Next::Lost,
        }
    }

    fn expression(&mut self, lookup: u64, registers: Registers) -> Option<Next> {
        let mapping = self.space.find(lookup)?;
        let module = mapping.module.as_ref()?;
        let svma = mapping.svma(lookup);
        let copy = &mut self.copy;
        let (general, asked) = (self.general, &self.asked);
        let step = Step { svma, registers, general, asked, context: &mut self.known.context, read: |at| copy.word(at) };
        let Some(stepped) = module.frames().visit(svma, step) else {
            self.blind = !self.copy.beyond;
            return None;
        };
        if self.careful {
            self.general = stepped.general;
        }
        Some(match stepped {
            Stepped { root: true, .. } => Next::Root,
            Stepped { interrupted: true, caller, .. } => Next::Interrupted(caller),
            Stepped { caller, .. } => Next::Caller(caller),
        })
    }

    /// Code that nothing describes: a leaf without a frame, or a frame pointer, if either proves itself.
    fn guess(&mut self, exact: bool, registers: Registers) -> Next {
        let Registers { sp, bp, .. } = registers;
        if exact
            && let Ok(ip) = self.read(sp)
            && self.follows_call(ip) == Some(true)
        {
            return Next::Caller(Registers { ip, sp: sp.wrapping_add(8), bp });
        }
        self.copy.beyond = false;
        if bp == 0 && !exact {
            return Next::Root;
        }
        if bp < sp || !bp.is_multiple_of(8) {
            return Next::Lost;
        }
        let (Ok(caller_bp), Ok(ip)) = (self.read(bp), self.read(bp.wrapping_add(8))) else {
            return Next::Lost;
        };
        if self.follows_call(ip) == Some(false) {
            return Next::Lost;
        }
        Next::Caller(Registers { ip, sp: bp.wrapping_add(16), bp: caller_bp })
    }

    fn follows_call(&mut self, address: u64) -> Option<bool> {
        if let Some(&known) = self.known.calls.get(&address) {
            return Some(known);
        }
        let follows = self.space.follows_call(address)?;
        self.known.calls.insert(address, follows);
        Some(follows)
    }

    fn read(&mut self, address: u64) -> Result<u64, ()> {
        self.copy.word(address)
    }
}

fn word_at(bottom: u64, bytes: &[u8], address: u64) -> Option<u64> {
    let at = usize::try_from(address.wrapping_sub(bottom)).ok()?;
    let word = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(word.try_into().ok()?))
}
