//! The preloaded library that watches the heap: where it is in this process. Its code and memory are not the program's.
//!
//! What it does is not counted, its memory is not told of, and the few system calls that it makes itself are the
//! agent's: a filter that the program puts on its own calls knows nothing of them.

use core::ops::Range;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// How the kernel names its file.
const NAME: &[u8] = b"/memfd:numalens-interpose";

static START: AtomicU64 = AtomicU64::new(u64::MAX);
static END: AtomicU64 = AtomicU64::new(0);

/// Whether an address is in the library.
pub fn contains(address: u64) -> bool {
    address >= START.load(Acquire) && address < END.load(Relaxed)
}

/// Whether that is the name of its file.
pub fn is_its_name(name: &[u8]) -> bool {
    name.starts_with(NAME)
}

/// A file was mapped, of this name, where the kernel chose: if it is the library's, the range is all of it.
pub fn mapped(range: Range<u64>, name: &[u8]) {
    if is_its_name(name) {
        END.store(range.end, Relaxed);
        START.store(range.start, Release);
    }
}
