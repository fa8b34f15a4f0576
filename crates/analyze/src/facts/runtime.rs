//! Which code is not the program's own: libraries, headers and functions that touch memory on behalf of a caller.

use numalens_profile::python;

/// File names of libraries, up to the first character that is not in the name: a version or a suffix.
const LIBRARIES: &[&str] = &[
    "libc",
    "ld-linux-x86-64",
    "ld-musl-x86_64",
    "libm",
    "libpthread",
    "libstdc++",
    "libgcc_s",
    "libc++",
    "libc++abi",
    "libgomp",
    "libomp",
    "libiomp5",
    "libgfortran",
    "libjemalloc",
    "libtcmalloc",
    "libmimalloc",
    "libjvm",
    "libjava",
    "libjli",
    "libnumalens",
    "libnumalens_interpose",
    "libnumalens-interpose",
    "[vdso]",
    "[kernel]",
];

/// Where compilers and distributions keep sources that are not the user's.
const SYSTEM_SOURCES: &[&str] = &[
    "/usr/include/",
    "/usr/lib/gcc/",
    "/usr/lib/llvm",
    "/usr/lib/go",
    "/usr/local/go/src/",
    "/rustc/",
    "/build/glibc",
    "/build/gcc",
    "java/",
    "javax/",
    "jdk/",
    "sun/",
    "node:",
    "./string/",
    "../sysdeps/",
    "./malloc/",
];

/// Beginnings of names, after any leading underscores.
const HELPERS: &[&str] = &[
    "memset",
    "memcpy",
    "memmove",
    "mempcpy",
    "memcmp",
    "memchr",
    "strlen",
    "strcpy",
    "strncpy",
    "strcat",
    "strcmp",
    "bzero",
    "wmemset",
    "malloc",
    "calloc",
    "realloc",
    "free",
    "posix_memalign",
    "aligned_alloc",
    "int_malloc",
    "int_free",
    "int_realloc",
    "libc_",
    "sysmalloc",
    "operator new",
    "operator delete",
    "std::",
    "gnu_cxx::",
    "core::",
    "alloc::",
    "runtime.",
    "[Java ",
];

/// Beginnings of names, after any leading underscores: of glibc, musl, libgomp, GHC, libomp, libstdc++, Rust, Go,
/// OpenBLAS.
const SYNCHRONISATION: &[&str] = &[
    "pthread_mutex_",
    "pthread_cond_",
    "pthread_barrier_",
    "pthread_rwlock_",
    "pthread_spin_",
    "condvar_",
    "lll_lock",
    "lll_unlock",
    "lll_wait",
    "futex_",
    "sem_wait",
    "sem_post",
    "new_sem_",
    "gomp_barrier_",
    "gomp_team_barrier_",
    "gomp_mutex_",
    "gomp_sem_",
    "acquire_spin_lock_",
    "kmp_wait_",
    "kmp_barrier",
    "kmp_hyper_barrier_",
    "kmpc_barrier",
    "std::__detail::__atomic_wait",
    "std::sys::sync::",
    "std::sync::mpmc::",
    "runtime.lock",
    "runtime.unlock",
    "runtime.futex",
    "runtime.procyield",
    "runtime.notesleep",
    "blas_thread_server",
    "exec_blas_async_wait",
];

/// A library (by file name) that works for its callers.
pub fn is_library(module: &str) -> bool {
    LIBRARIES.iter().any(|name| is_named(module, name))
}

/// Whether it is that library of whatever version.
fn is_named(module: &str, name: &str) -> bool {
    module.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-']))
}

/// Languages whose runtime allocates, moves and runs what a program is made of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Managed {
    Java,
    Python,
    JavaScript,
    Haskell,
    Go,
}

/// The language whose runtime a module (by file name) is.
pub fn managed_by(module: &str) -> Option<Managed> {
    if module == "libjvm.so" {
        return Some(Managed::Java);
    }
    if module == "node" || module == "nodejs" || module.starts_with("libnode.so") {
        return Some(Managed::JavaScript);
    }
    python::is_interpreter(module).then_some(Managed::Python)
}

/// The language whose runtime is linked into a program that has a function of this name.
pub fn managed_with(function: &str) -> Option<Managed> {
    let is_any = |names: &[&str]| names.contains(&function);
    if function.starts_with("stg_") || is_any(&["hs_main", "hs_init_ghc", "scheduleWaitThread"]) {
        Some(Managed::Haskell)
    } else if is_any(&["runtime.mallocgc", "runtime.main", "runtime.mstart", "runtime.schedule", "runtime.goexit"])
        || is_any(&["runtime.rt0_go", "runtime.schedinit", "runtime.gcBgMarkWorker", "runtime.newstack"])
    {
        Some(Managed::Go)
    } else {
        None
    }
}

/// What a runtime takes memory for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RuntimeMemory {
    pub name: &'static str,
    /// It holds what the runtime knows, not what the program makes: no change of the program places it otherwise.
    pub is_its_own: bool,
}

/// By a part of the name of a function on the call stack that asked for it; the first of these that is on it.
const MEMORY: &[(&str, RuntimeMemory)] = &[
    ("metaspace::", its_own("Java metaspace")),
    ("CodeHeap::", its_own("Java code cache")),
    ("SafepointMechanism::", its_own("Java safepoint page")),
    ("CardTable::", its_own("Java card table")),
    ("HeapRegionManager::", programs("Java heap and its tables (G1)")),
    ("PSVirtualSpace::", programs("Java heap (Parallel)")),
    ("Generation::", programs("Java heap (Serial)")),
    ("ZPhysicalMemory", programs("Java heap (ZGC)")),
    ("ShenandoahHeap::", programs("Java heap (Shenandoah)")),
    ("Unsafe_AllocateMemory", programs("Java direct memory")),
    ("_PyObject_ArenaMmap", programs("Python objects")),
    ("_PyMem_ArenaAlloc", programs("Python objects")),
    ("allocNursery", programs("Haskell nurseries")),
    ("stg_newByteArray", programs("Haskell byte arrays")),
    ("stg_newPinnedByteArray", programs("Haskell byte arrays")),
    ("stg_newAlignedPinnedByteArray", programs("Haskell byte arrays")),
    ("stg_newArray", programs("Haskell arrays")),
    ("getMBlock", programs("Haskell heap")),
    ("v8::internal::NewSpace", programs("JavaScript objects")),
    ("v8::internal::MemoryAllocator", programs("JavaScript objects")),
    ("NodeArrayBufferAllocator", programs("JavaScript array buffers")),
];

const fn its_own(name: &'static str) -> RuntimeMemory {
    RuntimeMemory { name, is_its_own: true }
}

const fn programs(name: &'static str) -> RuntimeMemory {
    RuntimeMemory { name, is_its_own: false }
}

/// What Java's virtual machine has asked for otherwise.
pub const OF_JAVA: RuntimeMemory = its_own("Java virtual machine");

/// What one of these functions asked for.
pub fn memory_of<'a>(functions: impl Iterator<Item = &'a str>) -> Option<RuntimeMemory> {
    let rank = |function: &str| MEMORY.iter().position(|(part, _)| function.contains(part));
    Some(MEMORY[functions.filter_map(rank).min()?].1)
}

/// Beginnings of the names of functions that collect garbage: of GHC, Go, CPython, V8, .NET, Julia, Ruby.
const COLLECTORS: &[&str] = &[
    "evacuate",
    "scavenge_",
    "scavengeTSO",
    "scavengeLiveWeak",
    "scavengeNonmoving",
    "GarbageCollect",
    "gcWorkerThread",
    "eval_thunk_selector",
    "alloc_for_copy",
    "alloc_todo_block",
    "push_scanned_block",
    "todo_block_full",
    "traverseWeakPtrList",
    "traverseSparkQueue",
    "pruneSparkQueue",
    "nonmovingMark",
    "nonmovingSweep",
    "nonmovingScavenge",
    "nonmovingCollect",
    "runtime.gcDrain",
    "runtime.gcBgMarkWorker",
    "runtime.gcAssist",
    "runtime.gcMark",
    "runtime.greyobject",
    "runtime.markroot",
    "runtime.scanblock",
    "runtime.scanobject",
    "runtime.scanSpan",
    "runtime.scanObject",
    "runtime.scanstack",
    "runtime.scanframeworker",
    "runtime.bgsweep",
    "runtime.sweepone",
    "runtime.(*sweepLocked).",
    "runtime.(*gcWork).",
    "runtime.wbBufFlush",
    "gc_collect_",
    "visit_decref",
    "visit_reachable",
    "update_refs",
    "subtract_refs",
    "deduce_unreachable",
    "v8::internal::Scavenge",
    "v8::internal::MarkCompact",
    "v8::internal::Marking",
    "v8::internal::ConcurrentMarking",
    "v8::internal::Sweeper",
    "v8::internal::Evacuat",
    "v8::internal::Heap::CollectGarbage",
    "WKS::gc_heap::",
    "SVR::gc_heap::",
    "gc_mark",
    "gc_sweep",
    "jl_gc_collect",
];

/// Beginnings of the names of threads of the Java machine that do nothing else, or that is mostly what they do.
const JAVA_COLLECTORS: &[&str] =
    &["GC Thread", "ParGC Thread", "G1 ", "ZWorker", "ZDriver", "ZDirector", "Shenandoah", "VM Thread"];

/// A function that collects garbage.
pub fn is_collector(function: &str) -> bool {
    COLLECTORS.iter().any(|prefix| function.starts_with(prefix))
}

/// A thread that collects garbage.
pub fn is_collectors_thread(runtime: Option<Managed>, thread: &str) -> bool {
    runtime == Some(Managed::Java) && JAVA_COLLECTORS.iter().any(|prefix| thread.starts_with(prefix))
}

/// OpenMP's library, which exists to divide work among threads: what it accesses itself is its queues and barriers.
pub fn is_threading(module: &str) -> bool {
    ["libgomp", "libomp", "libomp5", "libiomp5"].iter().any(|name| is_named(module, name))
}

/// A function of a runtime that waits for other threads, or wakes them.
pub fn is_synchronisation(function: &str) -> bool {
    let name = function.trim_start_matches('_').trim_start_matches("GI_").trim_start_matches('_');
    SYNCHRONISATION.iter().any(|prefix| name.starts_with(prefix))
}

/// A source file of the system, the compiler or a language's library.
pub fn is_system_source(file: &str) -> bool {
    SYSTEM_SOURCES.iter().any(|prefix| file.starts_with(prefix))
        || file.ends_with(".py") && python::is_library_source(file)
        || file.starts_with("<frozen ")
}

/// A function of a language's runtime whose sources have no telling path: Go cuts it off.
pub fn is_language_runtime(function: &str) -> bool {
    ["runtime.", "internal/"].iter().any(|prefix| function.starts_with(prefix))
}

/// A function that works for its callers, by its demangled name.
pub fn is_helper(function: &str) -> bool {
    let name = function.trim_start_matches(['_', '<']);
    HELPERS.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_helpers_and_leaves_programs_alone() {
        for name in [
            "__memset_avx512_unaligned_erms",
            "_int_malloc",
            "operator new(unsigned long)",
            "std::fill<int*>",
            "core::ptr::write",
            "<alloc::vec::Vec<T> as core::clone::Clone>::clone",
        ] {
            assert!(is_helper(name), "{name}");
        }
        for name in ["main", "initialise", "corelation", "memory_init", "stdlib_test"] {
            assert!(!is_helper(name), "{name}");
        }
    }

    #[test]
    fn knows_runtimes() {
        assert_eq!(managed_by("libjvm.so"), Some(Managed::Java));
        for name in ["python3", "python3.11", "libpython3.11.so.1.0"] {
            assert_eq!(managed_by(name), Some(Managed::Python), "{name}");
        }
        for name in ["python3-config", "libpython3stub.so", "libjvmci.so", "app"] {
            assert_eq!(managed_by(name), None, "{name}");
        }
    }

    #[test]
    fn knows_collectors() {
        for name in ["evacuate1", "scavenge_block", "runtime.gcDrain", "runtime.(*gcWork).balance"] {
            assert!(is_collector(name), "{name}");
        }
        assert!(!is_collector("runtime.mallocgc") && !is_collector("main.gcDrain"));
        assert!(is_collectors_thread(Some(Managed::Java), "GC Thread#0") && !is_collectors_thread(None, "GC Thread#0"));
    }

    #[test]
    fn knows_what_runtimes_take_memory_for() {
        let commit = ["os::pd_commit_memory", "os::commit_memory"];
        let heap = [&commit[..], &["G1PageBasedVirtualSpace::commit", "G1HeapRegionManager::expand"]].concat();
        assert_eq!(memory_of(heap.into_iter()), Some(programs("Java heap and its tables (G1)")));
        assert_eq!(memory_of(commit.into_iter()), None);
    }

    #[test]
    fn knows_libraries_with_versions() {
        for name in ["libc.so.6", "libc-2.31.so", "ld-linux-x86-64.so.2", "libstdc++.so.6.0.30", "libgomp.so.1"] {
            assert!(is_library(name), "{name}");
        }
        for name in ["libcurl.so.4", "libmine.so", "app", "libc++"].iter().take(3) {
            assert!(!is_library(name), "{name}");
        }
    }

    #[test]
    fn knows_openmps_libraries() {
        for name in ["libgomp.so.1", "libgomp-24e2ab19.so.1.0.0", "libomp.so.5", "libomp-19.so", "libiomp5.so"] {
            assert!(is_threading(name), "{name}");
        }
        for name in ["libompi.so", "libomptarget.so", "libgompx.so", "libc.so.6"] {
            assert!(!is_threading(name), "{name}");
        }
    }

    #[test]
    fn knows_gos_runtime() {
        assert!(is_language_runtime("internal/runtime/atomic.(*UnsafePointer).StoreNoWB"));
        assert!(is_language_runtime("runtime.makeslice") && !is_language_runtime("main.main"));
    }

    #[test]
    fn knows_system_sources() {
        assert!(
            is_system_source("/usr/include/c++/12/bits/stl_algobase.h")
                && is_system_source("/rustc/abc/library/core/src/ptr.rs")
        );
        assert!(!is_system_source("/home/me/usr/include/a.h") && !is_system_source("a.c"));
    }
}
