//! Where the table of pages is, and how it moves.

use super::{CHUNK, SHADOW_BYTES, Shadow};
use crate::sys::{self, raw};
use core::ops::Range;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Relaxed, Release};

impl Shadow {
    /// Where the table is.
    pub fn base(&self) -> u64 {
        self.base.load(Relaxed)
    }

    /// All of where it is.
    pub fn range(&self) -> Range<u64> {
        self.base()..self.base() + SHADOW_BYTES
    }

    /// Takes the table to where the agent's other memory is. Whether that was possible. While there is one thread, the
    /// caller, and no code that has the old place in it is executed any more.
    pub fn move_away(&self) -> bool {
        let used = self.used.lock();
        let Ok(to) = sys::map_private(SHADOW_BYTES, raw::PROT_READ) else { return false };
        let from = self.base.swap(to, Relaxed);
        self.writable.iter().for_each(|word| word.store(0, Relaxed));
        for page in used.keys().flat_map(|chunk| chunk * CHUNK..(chunk + 1) * CHUNK) {
            // SAFETY: within the old table, which is mapped; 8 bytes, aligned.
            let word = unsafe { &*((from + page * 8) as *const AtomicU64) }.load(Relaxed);
            if word != 0 {
                self.open(page);
                self.word(page).store(word, Release);
            }
        }
        sys::unmap(from, SHADOW_BYTES);
        true
    }
}
