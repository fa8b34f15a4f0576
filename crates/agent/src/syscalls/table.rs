//! What numalens knows about system calls: one row for each that it looks at ([`rows`]). All others pass.
//!
//! Everything that goes by a call's number follows from here: who handles the call, what a virtual machine answers,
//! which memory the kernel writes, what strict mode allows, which calls of the preloaded library are its own, and which
//! number of `int 0x80` is the same call. Looking up is one load from a table that the compiler makes.

mod rows;

use super::call::{Call, Verdict};
use super::memory::Change;
use super::written::Writes;
use crate::state::thread::Thread;
use rows::ROWS;

/// Looks at a call before it is executed. None: it passes.
pub type Handle = fn(&mut Thread, &Call) -> Option<Verdict>;
/// Answers a call on a virtual machine with the kernel's word. None: the machine has nothing to say.
pub type Answer = fn(&mut Thread, &Call) -> Option<u64>;

/// What is known about a system call.
pub struct Row {
    /// What it is about.
    pub subject: Subject,
    /// As the manual has it.
    pub name: &'static str,
    /// `__NR_*`.
    pub number: u32,
    /// Its numbers by `int 0x80`, where its arguments are the same there.
    pub old: &'static [u32],
    /// Who looks at it.
    pub handler: Handler,
    /// What a virtual machine answers, before the handler.
    pub machine: Option<Answer>,
    /// Which memory of the caller's the kernel writes or brings in.
    pub writes: Writes,
    /// Arguments of which the kernel makes nothing, with which the call is put to the program's filters where the agent
    /// answers it itself.
    pub probe: Option<[u64; 6]>,
    /// Seccomp's strict mode allows it.
    pub strict: bool,
    /// The preloaded library makes it for itself, wherever it stands in the code.
    pub library: bool,
}

/// Who looks at a call.
#[derive(Clone, Copy)]
pub enum Handler {
    /// Nobody.
    Nobody,
    /// A function.
    Function(Handle),
    /// It changes the memory map in this way.
    Memory(&'static dyn Change),
}

/// What a call is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Subject {
    /// The memory map, and what is in it.
    Memory,
    /// CPUs of threads, and nodes of pages.
    Placement,
    /// Threads and processes.
    Tasks,
    /// Signals.
    Signals,
    /// What a process or thread may do, and its own registers.
    Control,
    /// Descriptors.
    Descriptors,
    /// Paths of files.
    Paths,
    /// Content of files, and messages.
    Content,
    /// Anything else.
    Other,
}

impl Row {
    const fn new(subject: Subject, name: &'static str, number: u32) -> Self {
        Row {
            subject,
            name,
            number,
            old: &[],
            handler: Handler::Nobody,
            machine: None,
            writes: Writes::Nothing,
            probe: None,
            strict: false,
            library: false,
        }
    }

    const fn old(mut self, numbers: &'static [u32]) -> Self {
        self.old = numbers;
        self
    }

    const fn handled(mut self, handle: Handle) -> Self {
        self.handler = Handler::Function(handle);
        self
    }

    const fn changes(mut self, change: &'static dyn Change) -> Self {
        self.handler = Handler::Memory(change);
        self
    }

    const fn answered(mut self, answer: Answer) -> Self {
        self.machine = Some(answer);
        self
    }

    const fn writes(mut self, writes: Writes) -> Self {
        self.writes = writes;
        self
    }

    const fn probe(mut self, arguments: [u64; 6]) -> Self {
        self.probe = Some(arguments);
        self
    }

    const fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    const fn library(mut self) -> Self {
        self.library = true;
        self
    }
}

/// The row of a call.
pub fn row(number: u32) -> &'static Row {
    &ROWS[usize::from(PLACES.get(number as usize).copied().unwrap_or(0))]
}

/// The row of a call by `int 0x80`.
pub fn old_row(number: u32) -> &'static Row {
    &ROWS[usize::from(OLD_PLACES.get(number as usize).copied().unwrap_or(0))]
}

/// The number of the first row: of calls that nobody looks at.
pub const NO_CALL: u32 = u32::MAX;
/// Numbers are below it.
const MOST: usize = 512;
/// From here on numbers by `int 0x80` are those of `syscall`.
const COMMON: u32 = 424;

/// By number the place of a call's row; 0: it has none.
static PLACES: [u8; MOST] = {
    let mut places = [0; MOST];
    let mut at = 1;
    while at < ROWS.len() {
        let place = &mut places[ROWS[at].number as usize];
        assert!(*place == 0 && at <= u8::MAX as usize, "each call has one row");
        *place = at as u8;
        at += 1;
    }
    places
};

/// The same by the number of `int 0x80`.
static OLD_PLACES: [u8; MOST] = {
    let mut places = [0; MOST];
    let mut at = 1;
    while at < ROWS.len() {
        let row = &ROWS[at];
        if row.number >= COMMON {
            places[row.number as usize] = at as u8;
        }
        let mut old = 0;
        while old < row.old.len() {
            let place = &mut places[row.old[old] as usize];
            assert!(*place == 0, "each number is of one call");
            *place = at as u8;
            old += 1;
        }
        at += 1;
    }
    places
};

#[cfg(test)]
mod tests;
