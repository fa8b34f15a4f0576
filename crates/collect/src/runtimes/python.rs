//! Which line of Python each thread executes, looked at from outside.
//!
//! The library in the process tells where one thread's state is (`interpose/c/python.c`, which has the same table for
//! frames). From there the states of all threads of the interpreter can be reached, as they are linked. The program
//! runs meanwhile, so anything may change between two reads: what is no code object any more is no frame, and a state
//! that has another interpreter is none.
//!
//! ```text
//!   state <-> state <-> state      prev, next
//!     | thread: glibc's structure -> its number in the kernel
//!     | frame -> frame -> ...      the first that is Python's own
//!         | code -> name, file, table of lines
//! ```

use super::lines::{Lines, lines};
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;
use rustc_hash::FxHashMap;
use std::io::IoSliceMut;

/// Where fields are, in bytes; none: there is no such field. By version (see `python.c`).
struct Layout {
    minor: u64,
    /// In the state of a thread: glibc's word for it.
    thread: u64,
    /// The header of an ASCII text, and of any other.
    ascii: u64,
    compact: u64,
    /// The innermost frame: in the state, and in what that points to.
    in_state: u64,
    through: Option<u64>,
    /// In a frame.
    code: u64,
    back: u64,
    at: u64,
    owner: Option<u64>,
    /// In a code object.
    file: u64,
    name: u64,
    lines: u64,
    first_line: u64,
    instructions: Option<u64>,
    /// Bytes of what `at` counts.
    unit: u64,
}

const OLD: Layout = Layout {
    minor: 8,
    thread: 176,
    ascii: 48,
    compact: 72,
    in_state: 24,
    through: None,
    code: 32,
    back: 24,
    at: 104,
    owner: None,
    file: 104,
    name: 112,
    lines: 120,
    first_line: 40,
    instructions: None,
    unit: 1,
};

const NEW: Layout = Layout {
    minor: 12,
    thread: 136,
    ascii: 40,
    compact: 56,
    in_state: 56,
    through: Some(0),
    code: 0,
    back: 8,
    at: 56,
    owner: Some(70),
    file: 112,
    name: 128,
    lines: 136,
    first_line: 68,
    instructions: Some(192),
    unit: 1,
};

const LAYOUTS: [Layout; 6] = [
    OLD,
    Layout { minor: 9, ..OLD },
    Layout { minor: 10, at: 96, unit: 2, ..OLD },
    Layout {
        minor: 11,
        thread: 152,
        ascii: 48,
        compact: 72,
        through: Some(8),
        code: 32,
        back: 48,
        owner: Some(69),
        first_line: 72,
        instructions: Some(184),
        ..NEW
    },
    NEW,
    Layout { minor: 13, thread: 152, in_state: 72, through: None, instructions: Some(200), ..NEW },
];

/// Of a frame that C code made for itself.
const OWNED_BY_C: u8 = 3;
/// Where objects have their type, and texts and bytes their length; where texts say what they are, and bytes begin.
const TYPE: u64 = 8;
const LENGTH: u64 = 16;
const STATE: u64 = 32;
const BYTES: u64 = 32;
/// Where glibc has the kernel's number of a thread.
const KERNELS_NUMBER: u64 = 720;
/// Threads, frames of one, bytes of a table of lines, and characters of a text: at most.
const MOST_THREADS: usize = 4096;
const MOST_FRAMES: usize = 128;
const MOST_TABLE: u64 = 1 << 20;
const MOST_TEXT: u64 = 480;
/// Instructions of a function that are told apart.
const MOST_INSTRUCTIONS: u64 = 0xffff;

/// Memory of a process.
#[derive(Clone, Copy)]
struct Memory(i32);

impl Memory {
    fn read(self, address: u64, into: &mut [u8]) -> Option<()> {
        let length = into.len();
        let remote = [RemoteIoVec { base: usize::try_from(address).ok()?, len: length }];
        let read = process_vm_readv(Pid::from_raw(self.0), &mut [IoSliceMut::new(into)], &remote).ok()?;
        (read == length).then_some(())
    }

    fn bytes<const N: usize>(self, address: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.read(address, &mut bytes)?;
        Some(bytes)
    }

    fn word(self, address: u64) -> Option<u64> {
        self.bytes(address).map(u64::from_ne_bytes)
    }
}

fn word_in(bytes: &[u8], at: u64) -> u64 {
    let at = at as usize;
    bytes.get(at..at + 8).and_then(|word| word.try_into().ok()).map_or(0, u64::from_ne_bytes)
}

fn half_in(bytes: &[u8], at: u64) -> u32 {
    let at = at as usize;
    bytes.get(at..at + 4).and_then(|half| half.try_into().ok()).map_or(0, u32::from_ne_bytes)
}

/// A frame's function, and where in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct At {
    /// What the library calls the function.
    pub method: u64,
    pub instruction: u64,
    code: u64,
}

/// An interpreter in a process.
pub struct Python {
    layout: &'static Layout,
    /// Of code objects.
    code_type: u64,
    memory: Memory,
    interpreter: u64,
    /// States of threads by which the others are found: the one that was told of, and those that were found last.
    told: u64,
    known: Vec<u64>,
}

impl Python {
    /// What was told by a process: the second number of the version, a thread's state, the type of code objects.
    pub fn new(pid: i32, [minor, state, code_type]: [u64; 3]) -> Option<Self> {
        let layout = LAYOUTS.iter().find(|layout| layout.minor == minor)?;
        let memory = Memory(pid);
        Some(Python {
            layout,
            code_type,
            memory,
            interpreter: memory.word(state + 16)?,
            told: state,
            known: vec![state],
        })
    }

    /// The interpreter of a forked child, which has the same memory.
    pub fn forked(&self, pid: u32) -> Self {
        let &Python { layout, code_type, interpreter, told, .. } = self;
        Python { layout, code_type, memory: Memory(pid as i32), interpreter, told, known: self.known.clone() }
    }

    /// Calls `found` for each thread that executes Python, with its number in the kernel and its innermost frame of the
    /// program's own, or where there is none the innermost. `is_own` says which are.
    pub fn each(&mut self, mut is_own: impl FnMut(&Python, At) -> bool, mut found: impl FnMut(u32, At)) {
        let mut links: FxHashMap<u64, [u64; 2]> = FxHashMap::default();
        let mut next = self.known.clone();
        while let Some(state) = next.pop().filter(|_| links.len() < MOST_THREADS) {
            let Some([prev, after, interpreter]) = self.links(state) else { continue };
            if interpreter == self.interpreter && links.insert(state, [prev, after]).is_none() {
                next.extend([prev, after].into_iter().filter(|&state| state != 0));
            }
        }
        // One that has been given up still has its words, but no other one leads to it.
        let is_linked = |(state, [prev, _]): (&u64, &[u64; 2])| {
            *prev == 0 || links.get(prev).is_some_and(|[_, after]| after == state)
        };
        self.known = links.iter().filter(|(state, of)| is_linked((state, of))).map(|(state, _)| *state).collect();
        self.known.sort_unstable();
        for &state in &self.known {
            if let Some((tid, at)) = self.frame(state, |at| is_own(self, at)) {
                found(tid, at);
            }
        }
        // The thread that was told of is the first one, mostly, and stays.
        self.known.push(self.told);
    }

    fn links(&self, state: u64) -> Option<[u64; 3]> {
        let bytes: [u8; 24] = self.memory.bytes(state)?;
        Some([0, 8, 16].map(|at| word_in(&bytes, at)))
    }

    fn frame(&self, state: u64, mut is_own: impl FnMut(At) -> bool) -> Option<(u32, At)> {
        let &Python { layout, memory, .. } = self;
        let thread = memory.word(state + layout.thread).filter(|&thread| thread != 0)?;
        let tid = u32::from_ne_bytes(memory.bytes(thread + KERNELS_NUMBER)?);
        let mut frame = memory.word(state + layout.in_state)?;
        if let Some(through) = layout.through {
            frame = memory.word(frame + through)?;
        }
        let mut innermost = None;
        for _ in 0..MOST_FRAMES {
            let Some(bytes) = Some(frame).filter(|&frame| frame != 0).and_then(|frame| memory.bytes::<112>(frame))
            else {
                break;
            };
            frame = word_in(&bytes, layout.back);
            if layout.owner.is_some_and(|owner| bytes[owner as usize] == OWNED_BY_C) {
                continue;
            }
            let Some(at) = self.at(word_in(&bytes, layout.code), &bytes) else { break };
            if is_own(at) {
                return Some((tid, at));
            }
            innermost = innermost.or(Some(at));
        }
        innermost.map(|at| (tid, at))
    }

    /// As the library has it (`id_of` and `numalens_python_frames` there).
    fn at(&self, code: u64, frame: &[u8]) -> Option<At> {
        let layout = self.layout;
        let object: [u8; 144] = self.memory.bytes(code)?;
        if word_in(&object, TYPE) != self.code_type {
            return None;
        }
        let first_line = u64::from(half_in(&object, layout.first_line));
        let mixed = (code ^ word_in(&object, layout.lines) << 20 ^ first_line).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let bytes = match layout.instructions {
            Some(instructions) => (word_in(frame, layout.at) as i64).wrapping_sub((code + instructions) as i64),
            None => i64::from(half_in(frame, layout.at) as i32) * layout.unit as i64,
        };
        let instruction = u64::try_from(bytes / 2).unwrap_or(0).min(MOST_INSTRUCTIONS);
        Some(At { method: mixed >> 17 | 1, instruction, code })
    }

    /// The function of a frame: its name, its file, and the first instruction of each line.
    pub fn function(&self, at: At) -> Option<(String, String, Lines)> {
        let &Python { layout, memory, .. } = self;
        let object: [u8; 144] = memory.bytes(at.code)?;
        let [name, file] = [layout.name, layout.file].map(|field| self.text(word_in(&object, field)));
        let table = word_in(&object, layout.lines);
        let length = memory.word(table + LENGTH).filter(|&length| length <= MOST_TABLE)?;
        let mut bytes = vec![0; length as usize];
        memory.read(table + BYTES, &mut bytes)?;
        Some((name?, file?, lines(layout.minor, &bytes, half_in(&object, layout.first_line))))
    }

    fn text(&self, text: u64) -> Option<String> {
        let header: [u8; 40] = self.memory.bytes(text)?;
        let (length, state) = (word_in(&header, LENGTH).min(MOST_TEXT), half_in(&header, STATE));
        let (width, is_compact, is_ascii) = (state >> 2 & 7, state >> 5 & 1 == 1, state >> 6 & 1 == 1);
        if !is_compact || ![1, 2, 4].contains(&width) {
            return None;
        }
        let from = text + if is_ascii { self.layout.ascii } else { self.layout.compact };
        let mut bytes = vec![0; (length * u64::from(width)) as usize];
        self.memory.read(from, &mut bytes)?;
        let letter = |bytes: &[u8]| {
            let code = bytes.iter().rev().fold(0, |code, &byte| code << 8 | u32::from(byte));
            char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
        };
        Some(bytes.chunks_exact(width as usize).map(letter).collect())
    }
}
