//! What the words of a slot mean.
//!
//! | word | all records | wide ones |
//! |---|---|---|
//! | 0 | claim, see [`crate::ring`] | |
//! | 1 | kind (16 bits), call (8), flags (8), payload bytes (32) | |
//! | 2 | time, ns of CLOCK_MONOTONIC | |
//! | 3 | pid (32), tid (32) | |
//! | 4-7 | four operands | |
//! | 8-10 | | instruction, stack and frame pointer of the caller |
//! | 11 | | mean bytes between samples, 0: recorded for itself |
//! | 12 | | of an allocation: frames of a runtime at the beginning of the payload |
//! | 16- | | payload: stack copied from the stack pointer up, or a mask |

use crate::layout::{PAYLOAD_BYTES, PAYLOAD_WORD};

#[macro_export]
#[doc(hidden)]
macro_rules! numbered {
    ($(#[$doc:meta])* $name:ident: $int:ty { $($(#[$variant_doc:meta])* $variant:ident = $number:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr($int)]
        pub enum $name { $($(#[$variant_doc])* $variant = $number,)* }

        impl $name {
            /// Every value, in order of its number.
            pub const ALL: &[$name] = &[$($name::$variant),*];

            /// The value of this number, if it is one.
            pub fn from_number(number: $int) -> Option<Self> {
                match number { $($number => Some($name::$variant),)* _ => None }
            }
        }
    };
}

numbered! {
    /// What a record tells; the operands (a, b, c, d) in parentheses.
    Kind: u16 {
        /// Memory came to be (address, size, prot + flags<<32 of an mmap or mprotect, file offset of an mmap).
        Alloc = 1,
        /// A recorded heap allocation is released (address; 1 if the program itself declared it, see
        /// [`Call::Declared`]).
        Free = 2,
        /// A mapping went (address, size).
        Munmap = 3,
        /// A mapping moved or changed size (old address, old size, new address, new size).
        Mremap = 4,
        /// A thread runs (tid of its creator, start routine).
        ThreadStart = 5,
        /// A thread's allowed CPUs (its tid; payload: the mask).
        ThreadPlaced = 6,
        /// The calling thread's memory policy (mode; payload: nodes).
        Policy = 7,
        /// The policy of a range (address, length, mode + flags<<32, when the call began; payload: nodes).
        Mbind = 8,
        /// migrate_pages was called (pid, when it was).
        MigratePages = 9,
        /// move_pages was called with a destination (pid, number of pages, when it was).
        MovePages = 10,
        /// The library has come up in a process (parent's pid).
        ProcessStart = 11,
        /// A forked process is first seen (parent's pid).
        ForkChild = 12,
        /// exec is about to replace the program (ticket).
        Exec = 13,
        /// exec came back, the program goes on (errno).
        ExecFailed = 14,
        /// The process is about to end (ticket, status).
        ProcessExit = 15,
        /// The program asks for something by numalens.h (which [`crate::request::Request`]; payload: a name).
        Request = 16,
        /// The program names the block at an address (address; payload: the name).
        Name = 17,
        /// Parallel regions of OpenMP (return address of the call that begins one; CLOCK_MONOTONIC in ns of the first
        /// one's begin and of the last one's end, those between following soon; their thread).
        Region = 18,
        /// A heap allocation or mapping may go from now on: what becomes of it is reported later, with the same time
        /// (address).
        MayEnd = 19,
        /// It goes on (address). Else [`Kind::Free`] or [`Kind::Munmap`] is reported; an mremap later.
        Kept = 20,
    }
}

numbered! {
    /// The call that made an allocation.
    Call: u8 {
        /// `malloc`
        Malloc = 1,
        /// `calloc`
        Calloc = 2,
        /// `realloc`, `reallocarray`
        Realloc = 3,
        /// `posix_memalign`, `aligned_alloc`, `memalign`, `valloc`, `pvalloc`
        Aligned = 4,
        /// C++ `operator new`, reported by the caller of `malloc`
        New = 5,
        /// `mmap`
        Mmap = 6,
        /// `numalens_alloc` of numalens.h: a block that an allocator of the program's own has carved out of other
        /// memory.
        Declared = 7,
        /// `mprotect` that gives access: to memory that was reserved before, as far as there is such (protection as of
        /// an mmap).
        Protect = 8,
    }
}

/// Flag: the mask did not fit or the thread is not known; ask the kernel.
pub const FLAG_ASK: u8 = 1;
/// Bytes of a runtime's frame: a method and a bytecode of the [log of runtimes](crate::runtime_log), a word each.
pub const FRAME_BYTES: usize = 16;

/// A slot as a record, borrowed from a private copy of it: shared memory may change under the reader.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    words: &'a [u64],
    kind: Kind,
}

impl<'a> Record<'a> {
    /// Reads a copied slot; `None` when its kind is unknown or the slot is too short for it.
    pub fn new(words: &'a [u64]) -> Option<Self> {
        let kind = Kind::from_number(*words.get(1)? as u16)?;
        (words.len() >= 8 && (words.len() > PAYLOAD_WORD || !kind.is_wide())).then_some(Record { words, kind })
    }

    /// What it tells.
    pub fn kind(self) -> Kind {
        self.kind
    }

    /// The call, for [`Kind::Alloc`].
    pub fn call(self) -> Option<Call> {
        Call::from_number((self.words[1] >> 16) as u8)
    }

    /// [`FLAG_ASK`] or 0.
    pub fn flags(self) -> u8 {
        (self.words[1] >> 24) as u8
    }

    /// CLOCK_MONOTONIC in ns.
    pub fn time_ns(self) -> u64 {
        self.words[2]
    }

    /// The writer's process.
    pub fn pid(self) -> u32 {
        self.words[3] as u32
    }

    /// The writer's thread.
    pub fn tid(self) -> u32 {
        (self.words[3] >> 32) as u32
    }

    /// The four operands, see [`Kind`].
    pub fn operands(self) -> [u64; 4] {
        [self.words[4], self.words[5], self.words[6], self.words[7]]
    }

    /// Instruction, stack and frame pointer of the caller; the first is a return address. Zeros for a note.
    pub fn caller(self) -> [u64; 3] {
        let word = |index: usize| self.words.get(index).copied().unwrap_or(0);
        [word(8), word(9), word(10)]
    }

    /// Mean bytes between samples when this was sampled, 0 when it stands for itself alone. 0 for a note.
    pub fn mean(self) -> u64 {
        self.words.get(11).copied().unwrap_or(0)
    }

    /// Bytes of a runtime's frames, innermost first, at the beginning of the payload. 0 for a note.
    pub fn frame_bytes(self) -> usize {
        let frames = self.words.get(12).map_or(0, |&word| word.min(PAYLOAD_BYTES as u64) as usize);
        (frames * FRAME_BYTES).min(PAYLOAD_BYTES)
    }

    /// The payload in words, rounded up, and its length in bytes, which is never more than there is.
    pub fn payload(self) -> (&'a [u64], usize) {
        let all = self.words.get(PAYLOAD_WORD..).unwrap_or(&[]);
        let bytes = ((self.words[1] >> 32) as usize).min(PAYLOAD_BYTES).min(all.len() * 8);
        (&all[..bytes.div_ceil(8)], bytes)
    }
}

impl Kind {
    /// Whether it comes in a wide slot.
    pub fn is_wide(self) -> bool {
        matches!(self, Kind::Alloc | Kind::ThreadPlaced | Kind::Policy | Kind::Mbind | Kind::Request | Kind::Name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{NOTE_WORDS, WIDE_WORDS};

    #[test]
    fn numbers_round_trip() {
        for &kind in Kind::ALL {
            assert_eq!(Kind::from_number(kind as u16), Some(kind));
        }
        for &call in Call::ALL {
            assert_eq!(Call::from_number(call as u8), Some(call));
        }
        assert_eq!(Kind::from_number(0), None);
        assert_eq!(Call::from_number(99), None);
    }

    #[test]
    fn lengths_are_clamped() {
        let mut words = [0u64; WIDE_WORDS];
        words[1] = u64::from(u32::MAX) << 32 | Kind::Alloc as u64;
        let record = Record::new(&words).expect("an allocation");
        assert_eq!(record.payload().1, PAYLOAD_BYTES);
        assert_eq!(record.payload().0.len(), PAYLOAD_BYTES / 8);
    }

    #[test]
    fn a_wide_kind_in_a_note_slot_is_refused() {
        let mut words = [0u64; NOTE_WORDS];
        words[1] = Kind::Alloc as u64;
        assert!(Record::new(&words).is_none());
        words[1] = Kind::Free as u64 | 7 << 32;
        assert_eq!(Record::new(&words).expect("a note").payload().1, 0);
        assert!(Record::new(&[]).is_none());
    }
}
