//! Remedies in C, and in languages that call the same functions.

use crate::model::patterns::Remedy;

/// Lines for a remedy.
pub fn in_c(remedy: Remedy, openmp: bool) -> &'static str {
    match remedy {
        Remedy::Replicate => {
            "/* once it is complete: a copy on each node, read through the own node's pointer */\nfor (int node = 0; node <= numa_max_node(); node++)\n    memcpy(copy[node] = numa_alloc_onnode(size, node), ARRAY, size);\n...\nmine = copy[numa_node_of_cpu(sched_getcpu())];   /* once a thread, as threads are pinned */"
        }
        Remedy::Interleave => {
            "#include <numa.h>\nARRAY = numa_alloc_interleaved(size);\n/* or, for memory that is there: numa_interleave_memory(ARRAY, size, numa_all_nodes_ptr); before its first touch */"
        }
        Remedy::LocalAllocation => {
            "/* at the beginning of the thread that uses it, in place of in its creator */\nown = malloc(size);\nmemset(own, 0, size);          /* the first touch places it */\n/* or let its creator place it: own = numa_alloc_onnode(size, node); */"
        }
        Remedy::DropPolicy => {
            "set_mempolicy(MPOL_DEFAULT, NULL, 0);   /* <numaif.h>: before the memory is touched, or instead of the call that set it */"
        }
        Remedy::FreshPages => {
            "own = malloc(size);   /* once in each thread, before its loop, in place of malloc and free in each turn of it */\n/* or, before the first malloc: larger blocks are mapped anew, for a fault for each page */\nmallopt(M_MMAP_THRESHOLD, 64 << 10);"
        }
        Remedy::LocalStack => {
            "#include <numa.h>\nnuma_run_on_node(node);   /* first thing in the thread, before it calls what needs the stack */\n/* memory of pthread_attr_setstack: nobody touches it before the thread does */\n/* what several threads use belongs on the heap, each part touched by its user */"
        }
        Remedy::ParallelInitialisation if openmp => {
            "#pragma omp parallel for schedule(static)   // the same schedule as the loops that use it\nfor (size_t i = 0; i < n; i++)\n    ARRAY[i] = initial(i);"
        }
        Remedy::ParallelInitialisation => {
            "/* in each thread, before it works on its part; malloc and mmap place nothing yet */\nfor (size_t i = my_begin; i < my_end; i++)\n    ARRAY[i] = initial(i);"
        }
        Remedy::BlockPlacement => {
            "#include <numaif.h>\n/* before the first touch; blocks of whole pages; MPOL_MF_MOVE moves pages that are there already */\nunsigned long mask = 1ul << node_of_user;\nmbind(ARRAY + my_begin, my_bytes, MPOL_BIND, &mask, sizeof mask * 8, MPOL_MF_MOVE);"
        }
        Remedy::CoLocateThreads => {
            "/* threads of one group get one node */\nnuma_run_on_node(group % numa_num_configured_nodes());   /* first thing in each thread or process */"
        }
        Remedy::PinThreads if openmp => "nothing: OpenMP binds threads by its environment, below",
        Remedy::PinThreads => {
            "#include <numa.h>\nnuma_run_on_node(node);   /* first thing in each thread, before it allocates */"
        }
        Remedy::AlignOrPad => {
            "own = aligned_alloc(4096, (size + 4095) / 4096 * 4096);   /* what one node uses, on pages of its own */"
        }
        Remedy::AlignToHugePages => {
            "/* parts of whole huge pages, of memory that begins at one */\nenum { HUGE = 2 << 20 };\nARRAY = aligned_alloc(HUGE, (size + HUGE - 1) / HUGE * HUGE);\npart = (size / threads + HUGE - 1) / HUGE * HUGE;   /* bytes of each thread */\n/* where parts must be smaller: madvise(ARRAY, size, MADV_NOHUGEPAGE) before the first touch */"
        }
        Remedy::SplitLine => {
            "struct own { uint64_t value; } __attribute__((aligned(128)));   /* two lines: processors fetch them in pairs */\nstruct own ARRAY[THREADS];\n/* or count in a local variable and add once at the end */"
        }
        Remedy::LocalText => {
            "numa_set_preferred(node);   /* before dlopen, or before the code is written, in a thread of the node that runs it */"
        }
        Remedy::ReplicateText => {
            "/* code made at run time: make it once for each node, from a thread that runs there, and call the own node's */\ncode = code_of_node[numa_node_of_cpu(sched_getcpu())];\n/* libraries: link statically, or a copy of the file for each node's processes */"
        }
        Remedy::MoveToTier => {
            "unsigned long fast = 1ul << fast_node;\nmbind(ARRAY, size, MPOL_PREFERRED, &fast, sizeof fast * 8, MPOL_MF_MOVE);"
        }
    }
}
