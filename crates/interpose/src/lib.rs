//! The library that the collector starts a program with (`LD_PRELOAD`), as bytes.
//!
//! It is written in C because it lives inside the target, beside any libc: it links nothing, allocates nothing and
//! never blocks (but for the bounded handshake at exit). Its parts, in `c/`:
//!
//! | file | job |
//! |---|---|
//! | `system.h`, `state.h` | the kernel without libc; what the parts share |
//! | `resolve.c` | finds the function that it stands before |
//! | `channel.c`, `ring.h` | joins the channel, writes records |
//! | `environment.c`, `exec.c` | hides itself from the program, follows its children |
//! | `heap.c`, `track.c` | the malloc family |
//! | `operators.c` | C++ `new` and `delete` of allocators that have their own |
//! | `openmp.c` | parallel regions of OpenMP, by libgomp's entry points and by OMPT |
//! | `request.c` | what the program asks for by `include/numalens.h` |
//! | `map.c`, `policy.c`, `thread.c`, `exit.c` | mappings, memory policies, threads and their places, fork and the end |
//!
//! Where it cannot see: programs linked statically, setuid programs (the loader refuses), children that a program
//! starts by system calls of its own, heaps of an allocator linked into the executable (jemalloc, tcmalloc, Go; their
//! `mmap` calls are seen where they go through libc), `brk`, and allocations before libc is up. Programs whose address
//! sanitizer insists on being first in `LD_PRELOAD` refuse to start with any preloaded library.

/// The shared library as a file's content; empty on targets other than x86-64 Linux, where there is none.
pub const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libnumalens_interpose.so"));
