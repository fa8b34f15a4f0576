//! The preloaded library that watches the heap: where it is in this process. Its code and memory are not the program's.
//!
//! What it does is not counted, its memory is not told of, and the few system calls that it makes itself are the agent's: a filter that
//! the program puts on its own calls knows nothing of them.

use crate::sys::raw;
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

/// A file was mapped, of this name, where the kernel chose: if it is the library's, the range is all of it.
pub fn mapped(range: Range<u64>, name: &[u8]) {
    if name.starts_with(NAME) {
        END.store(range.end, Relaxed);
        START.store(range.start, Release);
    }
}

/// Whether the library makes this call for itself, wherever it stands in the code.
pub fn makes(number: u32) -> bool {
    matches!(
        number,
        raw::__NR_read
            | raw::__NR_open
            | raw::__NR_close
            | raw::__NR_fstat
            | raw::__NR_mmap
            | raw::__NR_munmap
            | raw::__NR_madvise
            | raw::__NR_mprotect
            | raw::__NR_getpid
            | raw::__NR_kill
            | raw::__NR_getrlimit
            | raw::__NR_getppid
            | raw::__NR_geteuid
            | raw::__NR_gettid
            | raw::__NR_futex
            | raw::__NR_sched_getaffinity
            | raw::__NR_prctl
            | raw::__NR_clock_gettime
            | raw::__NR_nanosleep
    )
}
