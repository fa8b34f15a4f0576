//! How to do it: lines of source in the program's language, and commands that do without.

use super::words as w;
use crate::model::report::{Location, Word};

/// The languages that snippets are written in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Language {
    C { openmp: bool },
    Fortran,
    Rust,
    Haskell,
    Java,
    Go,
    Python,
}

/// The language of a place; C where the file does not say.
pub fn language(place: Option<&Location>, openmp: bool) -> Language {
    let extension = place.and_then(|place| place.file.as_deref()?.rsplit_once('.')).map(|(_, extension)| extension);
    match extension.map(str::to_ascii_lowercase).as_deref() {
        Some("f" | "f77" | "f90" | "f95" | "f03" | "f08" | "for" | "ftn") => Language::Fortran,
        Some("rs") => Language::Rust,
        Some("hs" | "lhs") => Language::Haskell,
        Some("java" | "kt" | "scala") => Language::Java,
        Some("go") => Language::Go,
        Some("py" | "pyx") => Language::Python,
        _ => Language::C { openmp },
    }
}

/// Source for a remedy. `name` is the object's own, where it has one.
pub fn in_code(remedy: &Word, language: Language, name: Option<&str>) -> String {
    let array = name.filter(|name| name.chars().all(|c| c.is_alphanumeric() || c == '_')).unwrap_or("data");
    let text = match (remedy.name, language) {
        (name, Language::Java | Language::Go | Language::Python) => managed(name, language),
        (name, Language::C { openmp: true }) if name == w::PARALLEL_INITIALISATION.name => {
            "#pragma omp parallel for schedule(static)   // the same schedule as the loops that use it\nfor (size_t i = 0; i < n; i++)\n    ARRAY[i] = initial(i);"
        }
        (name, Language::C { .. }) if name == w::PARALLEL_INITIALISATION.name => {
            "/* in each thread, before it works on its part; malloc and mmap place nothing yet */\nfor (size_t i = my_begin; i < my_end; i++)\n    ARRAY[i] = initial(i);"
        }
        (name, Language::Fortran) if name == w::PARALLEL_INITIALISATION.name => {
            "!$omp parallel do schedule(static)   ! the same schedule as the loops that use it\ndo i = 1, n\n   ARRAY(i) = initial(i)\nend do\n!$omp end parallel do"
        }
        (name, Language::Rust) if name == w::PARALLEL_INITIALISATION.name => {
            "// each thread initialises the chunk that it will work on\nlet mut ARRAY: Vec<MaybeUninit<T>> = Vec::with_capacity(n); // reserves, touches nothing\nstd::thread::scope(|s| for chunk in ARRAY.spare_capacity_mut().chunks_mut(n / threads) {\n    s.spawn(move || { pin_to_node(); chunk.fill(initial) });\n});"
        }
        (name, Language::Haskell) if name == w::PARALLEL_INITIALISATION.name => {
            "-- fill each block in the capability that will use it, in place of one fill by main\nforM_ (zip [0 ..] blocks) $ \\(cap, (from, to)) ->\n    forkOn cap $ forM_ [from .. to - 1] $ \\i -> writeArray ARRAY i (initial i)"
        }
        (name, Language::Rust) if name == w::LOCAL_ALLOCATION.name => {
            "s.spawn(move || {\n    pin_to_node();\n    let mut own = vec![initial; n];  // allocated and touched in the thread that uses it\n    work(&mut own)\n});"
        }
        (name, Language::Fortran) if name == w::LOCAL_ALLOCATION.name => {
            "!$omp parallel private(own)\nallocate(own(n)); own = initial   ! in the thread that uses it\ncall work(own)\n!$omp end parallel"
        }
        (name, _) if name == w::LOCAL_ALLOCATION.name => {
            "/* at the beginning of the thread that uses it, in place of in its creator */\nown = malloc(size);\nmemset(own, 0, size);          /* the first touch places it */\n/* or let its creator place it: own = numa_alloc_onnode(size, node); */"
        }
        (name, _) if name == w::DROP_POLICY.name => {
            "set_mempolicy(MPOL_DEFAULT, NULL, 0);   /* <numaif.h>: before the memory is touched, or instead of the call that set it */"
        }
        (name, Language::Rust) if name == w::FRESH_PAGES.name => {
            "let mut own = vec![initial; n];   // once in each thread, before its loop, in place of in each turn of it\nfor step in steps { work(&mut own); }"
        }
        (name, Language::Fortran) if name == w::FRESH_PAGES.name => {
            "!$omp parallel private(own)\nallocate(own(n))   ! once in each thread, before its loop, in place of in each step of it\n!$omp end parallel"
        }
        (name, _) if name == w::FRESH_PAGES.name => {
            "own = malloc(size);   /* once in each thread, before its loop, in place of malloc and free in each turn of it */\n/* or, before the first malloc: larger blocks are mapped anew, for a fault for each page */\nmallopt(M_MMAP_THRESHOLD, 64 << 10);"
        }
        (name, Language::Rust) if name == w::LOCAL_STACK.name => {
            "s.spawn(move || {\n    pin_to_node();   // before anything large is on the stack\n    work()\n});"
        }
        (name, _) if name == w::LOCAL_STACK.name => {
            "#include <numa.h>\nnuma_run_on_node(node);   /* first thing in the thread, before it calls what needs the stack */\n/* memory of pthread_attr_setstack: nobody touches it before the thread does */\n/* what several threads use belongs on the heap, each part touched by its user */"
        }
        (name, _) if name == w::BLOCK_PLACEMENT.name => {
            "#include <numaif.h>\n/* before the first touch; blocks of whole pages; MPOL_MF_MOVE moves pages that are there already */\nunsigned long mask = 1ul << node_of_user;\nmbind(ARRAY + my_begin, my_bytes, MPOL_BIND, &mask, sizeof mask * 8, MPOL_MF_MOVE);"
        }
        (name, _) if name == w::INTERLEAVE.name => {
            "#include <numa.h>\nARRAY = numa_alloc_interleaved(size);\n/* or, for memory that is there: numa_interleave_memory(ARRAY, size, numa_all_nodes_ptr); before its first touch */"
        }
        (name, _) if name == w::REPLICATE.name => {
            "/* once it is complete: a copy on each node, read through the own node's pointer */\nfor (int node = 0; node <= numa_max_node(); node++)\n    memcpy(copy[node] = numa_alloc_onnode(size, node), ARRAY, size);\n...\nmine = copy[numa_node_of_cpu(sched_getcpu())];   /* once a thread, as threads are pinned */"
        }
        (name, Language::Rust) if name == w::SPLIT_LINE.name => {
            "#[repr(align(128))]           // two lines: processors fetch them in pairs\nstruct Own<T>(T);\nlet ARRAY: Vec<Own<AtomicU64>> = ...;  // or count in a local and add once at the end"
        }
        (name, Language::Fortran) if name == w::SPLIT_LINE.name => {
            "integer(8) :: ARRAY(16, threads)   ! 128 bytes a thread; use ARRAY(1, me), or count in a local variable"
        }
        (name, _) if name == w::SPLIT_LINE.name => {
            "struct own { uint64_t value; } __attribute__((aligned(128)));   /* two lines: processors fetch them in pairs */\nstruct own ARRAY[THREADS];\n/* or count in a local variable and add once at the end */"
        }
        (name, Language::Rust) if name == w::ALIGN_OR_PAD.name => {
            "#[repr(align(4096))]\nstruct Own<T>(T);   // what one thread uses, on pages of its own"
        }
        (name, _) if name == w::ALIGN_OR_PAD.name => {
            "own = aligned_alloc(4096, (size + 4095) / 4096 * 4096);   /* what one node uses, on pages of its own */"
        }
        (name, Language::Rust) if name == w::ALIGN_TO_HUGE_PAGES.name => {
            "// parts of whole huge pages; the memory itself begins at one (Layout::from_size_align(size, 2 << 20))\nlet part = (n / threads).next_multiple_of((2 << 20) / size_of::<T>());\nfor own in ARRAY.chunks_mut(part) { ... }"
        }
        (name, Language::Fortran) if name == w::ALIGN_TO_HUGE_PAGES.name => {
            "per_page = 2097152 / (storage_size(ARRAY) / 8)             ! elements of a huge page\npart = ((n / threads + per_page - 1) / per_page) * per_page   ! each thread's elements: whole huge pages\n!$omp parallel do schedule(static, part)"
        }
        (name, _) if name == w::ALIGN_TO_HUGE_PAGES.name => {
            "/* parts of whole huge pages, of memory that begins at one */\nenum { HUGE = 2 << 20 };\nARRAY = aligned_alloc(HUGE, (size + HUGE - 1) / HUGE * HUGE);\npart = (size / threads + HUGE - 1) / HUGE * HUGE;   /* bytes of each thread */\n/* where parts must be smaller: madvise(ARRAY, size, MADV_NOHUGEPAGE) before the first touch */"
        }
        (name, Language::C { openmp: true } | Language::Fortran) if name == w::PIN_THREADS.name => {
            "nothing: OpenMP binds threads by its environment, below"
        }
        (name, Language::Rust) if name == w::PIN_THREADS.name => {
            "// crate core_affinity, or nix::sched::sched_setaffinity, first thing in each thread\ncore_affinity::set_for_current(core_of_node(node));"
        }
        (name, Language::Haskell) if name == w::PIN_THREADS.name => {
            "forkOn cap work      -- in place of forkIO, and run with +RTS -N -xp -qa (bind capabilities to CPUs)"
        }
        (name, _) if name == w::PIN_THREADS.name => {
            "#include <numa.h>\nnuma_run_on_node(node);   /* first thing in each thread, before it allocates */"
        }
        (name, _) if name == w::CO_LOCATE_THREADS.name => {
            "/* threads of one group get one node */\nnuma_run_on_node(group % numa_num_configured_nodes());   /* first thing in each thread or process */"
        }
        (name, _) if name == w::REPLICATE_TEXT.name => {
            "/* code made at run time: make it once for each node, from a thread that runs there, and call the own node's */\ncode = code_of_node[numa_node_of_cpu(sched_getcpu())];\n/* libraries: link statically, or a copy of the file for each node's processes */"
        }
        (name, _) if name == w::LOCAL_TEXT.name => {
            "numa_set_preferred(node);   /* before dlopen, or before the code is written, in a thread of the node that runs it */"
        }
        (name, _) if name == w::MOVE_TO_TIER.name => {
            "unsigned long fast = 1ul << fast_node;\nmbind(ARRAY, size, MPOL_PREFERRED, &fast, sizeof fast * 8, MPOL_MF_MOVE);"
        }
        _ => "",
    };
    text.replace("ARRAY", array)
}

/// The same in a language whose runtime allocates and moves memory: where it leaves nothing to say, what to look at.
fn managed(remedy: &str, language: Language) -> &'static str {
    let of = |word: &Word| remedy == word.name;
    let in_user = of(&w::PARALLEL_INITIALISATION)
        || of(&w::LOCAL_ALLOCATION)
        || of(&w::LOCAL_STACK)
        || of(&w::BLOCK_PLACEMENT)
        || of(&w::ALIGN_TO_HUGE_PAGES)
        || of(&w::ALIGN_OR_PAD);
    match language {
        Language::Java if in_user => {
            "// each worker makes and fills the part that it uses: -XX:+UseNUMA places it on the worker's node\nexecutor.submit(() -> { double[] own = new double[n / workers]; Arrays.fill(own, initial); work(own); });"
        }
        Language::Java if of(&w::REPLICATE) => {
            "// once it is complete: a copy made by a worker of each node, which the workers of that node read\nfinal double[] mine = ARRAY.clone();"
        }
        Language::Java if of(&w::SPLIT_LINE) => {
            "LongAdder ARRAY = new LongAdder();   // java.util.concurrent.atomic: a cell for each thread; or @Contended fields"
        }
        Language::Java => "nothing in Java itself: see the settings below; -XX:+UseNUMA, -XX:+UseNUMAInterleaving",
        Language::Go if in_user => {
            "go func(part []float64) {          // make reserves, the first write places\n    runtime.LockOSThread()\n    unix.SchedSetaffinity(0, &cpusOfNode)\n    for i := range part {\n        part[i] = initial(i)\n    }\n}(ARRAY[begin:end])"
        }
        Language::Go if of(&w::REPLICATE) => {
            "// once it is complete: a copy made by a goroutine that is locked to a thread of each node\nmine := slices.Clone(ARRAY)"
        }
        Language::Go if of(&w::SPLIT_LINE) => {
            "type own struct {\n    n atomic.Int64\n    _ [120]byte   // two lines: processors fetch them in pairs\n}"
        }
        Language::Go => {
            "runtime.LockOSThread()\nunix.SchedSetaffinity(0, &cpusOfNode)   // golang.org/x/sys/unix; first thing in the goroutine"
        }
        _ if in_user => {
            "ARRAY = np.empty(n)                  # reserves, touches nothing\nwith ThreadPoolExecutor(workers) as pool:   # each worker fills the part that it uses\n    pool.map(lambda part: ARRAY[part].fill(initial), parts)"
        }
        _ if of(&w::REPLICATE) => {
            "mine = ARRAY.copy()   # in a worker of each node, after os.sched_setaffinity(0, cpus_of_node)"
        }
        _ => "os.sched_setaffinity(0, cpus_of_node)   # first thing in the worker, before it allocates",
    }
}

/// Commands and settings for a remedy.
pub fn without_code(remedy: &Word, openmp: bool) -> String {
    let text = match remedy.name {
        name if name == w::PARALLEL_INITIALISATION.name || name == w::BLOCK_PLACEMENT.name => {
            "sysctl kernel.numa_balancing=1 lets the kernel move pages to their users over time; where one controller is the bottleneck, numactl --interleave=all PROGRAM evens them out"
        }
        name if name == w::LOCAL_ALLOCATION.name => {
            "sysctl kernel.numa_balancing=1 lets the kernel move the pages to their users over time; threads must be pinned"
        }
        name if name == w::DROP_POLICY.name => {
            "without numactl --membind, --interleave or --preferred; numactl --localalloc PROGRAM undoes what a shell or a job has set"
        }
        name if name == w::FRESH_PAGES.name => {
            "MALLOC_MMAP_THRESHOLD_=65536 PROGRAM (glibc): larger blocks are mapped anew and lie where they are touched first, for a fault for each page"
        }
        name if name == w::LOCAL_STACK.name && openmp => {
            "OMP_PLACES=cores OMP_PROC_BIND=spread PROGRAM binds threads before they run"
        }
        name if name == w::LOCAL_STACK.name => {
            "numactl --cpunodebind=N --localalloc PROGRAM keeps a process, and the stacks of its threads, on one node"
        }
        name if name == w::INTERLEAVE.name => "numactl --interleave=all PROGRAM interleaves all of its memory",
        name if name == w::REPLICATE.name => {
            "one process for each node (numactl --cpunodebind=N --membind=N PROGRAM), where the work can be divided; numactl --interleave=all PROGRAM only evens out the controllers"
        }
        name if name == w::PIN_THREADS.name && openmp => {
            "OMP_PLACES=cores OMP_PROC_BIND=spread PROGRAM; a whole process on one node: numactl --cpunodebind=N --localalloc PROGRAM"
        }
        name if name == w::PIN_THREADS.name => {
            "numactl --cpunodebind=N --localalloc PROGRAM keeps a whole process on one node"
        }
        name if name == w::CO_LOCATE_THREADS.name && openmp => {
            "OMP_PLACES=sockets OMP_PROC_BIND=close PROGRAM; or for each process numactl --cpunodebind=N --localalloc PROGRAM"
        }
        name if name == w::CO_LOCATE_THREADS.name => {
            "for each process that shares within itself: numactl --cpunodebind=N --localalloc PROGRAM"
        }
        name if name == w::REPLICATE_TEXT.name || name == w::LOCAL_TEXT.name => {
            "one process for each node, each with a copy of its own of the program and its libraries (numactl --cpunodebind=N --membind=N); a page cache page has one home however many nodes run it"
        }
        name if name == w::ALIGN_TO_HUGE_PAGES.name => {
            "small pages for all of the program: prctl(PR_SET_THP_DISABLE), or transparent_hugepage=madvise for the machine; each part then lies where it is used, for more misses of the TLB"
        }
        name if name == w::MOVE_TO_TIER.name => {
            "numactl --preferred=FAST_NODE PROGRAM; sysctl kernel.numa_balancing=2 lets the kernel promote hot pages"
        }
        name if name == w::ALIGN_OR_PAD.name || name == w::SPLIT_LINE.name => "none: no placement of pages mends it",
        _ => "",
    };
    text.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_remedy_says_how_in_every_language() {
        let languages = [
            Language::C { openmp: true },
            Language::C { openmp: false },
            Language::Fortran,
            Language::Rust,
            Language::Haskell,
            Language::Java,
            Language::Go,
            Language::Python,
        ];
        for remedy in w::REMEDIES {
            for language in languages {
                assert!(!in_code(remedy, language, None).is_empty(), "{} in {language:?}", remedy.name);
            }
            assert!(!without_code(remedy, false).is_empty(), "{}", remedy.name);
        }
        let named = in_code(&w::PARALLEL_INITIALISATION, Language::Fortran, Some("grid"));
        assert!(named.contains("grid(i)") && !named.contains("ARRAY"), "{named}");
    }

    #[test]
    fn the_file_tells_the_language() {
        let place = |file: &str| Location { file: Some(file.to_string()), ..Location::default() };
        assert_eq!(language(Some(&place("/src/a.F90")), true), Language::Fortran);
        assert_eq!(language(Some(&place("a.rs")), true), Language::Rust);
        assert_eq!(language(Some(&place("a.cc")), true), Language::C { openmp: true });
        assert_eq!(language(None, false), Language::C { openmp: false });
    }
}
