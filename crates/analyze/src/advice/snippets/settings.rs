//! Remedies without a change of the source.

use super::Language;
use crate::model::patterns::Remedy;

/// Commands and settings for a remedy, for a program in a language.
pub fn without_code(remedy: Remedy, language: Language) -> &'static str {
    match language {
        Language::Java => of_java(remedy),
        Language::Haskell => of_haskell(remedy),
        _ => of_any(remedy, language == Language::C { openmp: true }),
    }
}

/// Settings of Java's virtual machine.
fn of_java(remedy: Remedy) -> &'static str {
    match remedy {
        Remedy::ParallelInitialisation
        | Remedy::BlockPlacement
        | Remedy::LocalAllocation
        | Remedy::LocalStack
        | Remedy::FreshPages
        | Remedy::AlignOrPad => {
            "java -XX:+UseNUMA: each thread allocates on its own node (G1, Parallel); where the work can be divided, one Java machine for each node: numactl --cpunodebind=N --membind=N java -Xmx..."
        }
        Remedy::Interleave | Remedy::Replicate => {
            "numactl --interleave=all java ..., or java -XX:+UseNUMAInterleaving: evens out the controllers; one Java machine for each node has all of its own there"
        }
        Remedy::PinThreads | Remedy::CoLocateThreads => {
            "one Java machine for each node: numactl --cpunodebind=N --membind=N java -XX:ActiveProcessorCount=CPUS_OF_NODE -Xmx..."
        }
        Remedy::ReplicateText | Remedy::LocalText => {
            "one Java machine for each node, each with a code cache of its own (numactl --cpunodebind=N --membind=N java ...)"
        }
        Remedy::AlignToHugePages => {
            "java -XX:-UseTransparentHugePages, or -XX:+UseNUMA with -XX:G1HeapRegionSize=32m: each region then lies on one node whole"
        }
        Remedy::SplitLine => {
            "java -XX:-RestrictContended allows @jdk.internal.vm.annotation.Contended in your own classes"
        }
        Remedy::DropPolicy | Remedy::MoveToTier => of_any(remedy, false),
    }
}

/// Options of GHC's runtime.
fn of_haskell(remedy: Remedy) -> &'static str {
    match remedy {
        Remedy::ParallelInitialisation
        | Remedy::BlockPlacement
        | Remedy::LocalAllocation
        | Remedy::LocalStack
        | Remedy::FreshPages
        | Remedy::AlignOrPad
        | Remedy::Interleave => {
            "+RTS --numa -A64m -n4m -qa: each capability allocates on its node and has its thread bound there (--numa wants a runtime that is built with libnuma); else one process for each node: numactl --cpunodebind=N --membind=N PROGRAM +RTS -N"
        }
        Remedy::PinThreads | Remedy::CoLocateThreads => {
            "+RTS -N -qa binds capabilities to CPUs; a whole process on one node: numactl --cpunodebind=N --localalloc PROGRAM +RTS -NCPUS_OF_NODE"
        }
        Remedy::Replicate
        | Remedy::DropPolicy
        | Remedy::ReplicateText
        | Remedy::LocalText
        | Remedy::AlignToHugePages
        | Remedy::SplitLine
        | Remedy::MoveToTier => of_any(remedy, false),
    }
}

fn of_any(remedy: Remedy, openmp: bool) -> &'static str {
    match remedy {
        Remedy::ParallelInitialisation | Remedy::BlockPlacement => {
            "sysctl kernel.numa_balancing=1 lets the kernel move pages to their users over time; where one controller is the bottleneck, numactl --interleave=all PROGRAM evens them out"
        }
        Remedy::LocalAllocation => {
            "sysctl kernel.numa_balancing=1 lets the kernel move the pages to their users over time; threads must be pinned"
        }
        Remedy::DropPolicy => {
            "without numactl --membind, --interleave or --preferred; numactl --localalloc PROGRAM undoes what a shell or a job has set"
        }
        Remedy::FreshPages => {
            "MALLOC_MMAP_THRESHOLD_=65536 PROGRAM (glibc): larger blocks are mapped anew and lie where they are touched first, for a fault for each page"
        }
        Remedy::LocalStack if openmp => "OMP_PLACES=cores OMP_PROC_BIND=spread PROGRAM binds threads before they run",
        Remedy::LocalStack => {
            "numactl --cpunodebind=N --localalloc PROGRAM keeps a process, and the stacks of its threads, on one node"
        }
        Remedy::Interleave => "numactl --interleave=all PROGRAM interleaves all of its memory",
        Remedy::Replicate => {
            "one process for each node (numactl --cpunodebind=N --membind=N PROGRAM), where the work can be divided; numactl --interleave=all PROGRAM only evens out the controllers"
        }
        Remedy::PinThreads if openmp => {
            "OMP_PLACES=cores OMP_PROC_BIND=spread PROGRAM; a whole process on one node: numactl --cpunodebind=N --localalloc PROGRAM"
        }
        Remedy::PinThreads => "numactl --cpunodebind=N --localalloc PROGRAM keeps a whole process on one node",
        Remedy::CoLocateThreads if openmp => {
            "OMP_PLACES=sockets OMP_PROC_BIND=close PROGRAM; or for each process numactl --cpunodebind=N --localalloc PROGRAM"
        }
        Remedy::CoLocateThreads => {
            "for each process that shares within itself: numactl --cpunodebind=N --localalloc PROGRAM"
        }
        Remedy::ReplicateText | Remedy::LocalText => {
            "one process for each node, each with a copy of its own of the program and its libraries (numactl --cpunodebind=N --membind=N); a page cache page has one home however many nodes run it"
        }
        Remedy::AlignToHugePages => {
            "small pages for all of the program: prctl(PR_SET_THP_DISABLE), or transparent_hugepage=madvise for the machine; each part then lies where it is used, for more misses of the TLB"
        }
        Remedy::MoveToTier => {
            "numactl --preferred=FAST_NODE PROGRAM; sysctl kernel.numa_balancing=2 lets the kernel promote hot pages"
        }
        Remedy::AlignOrPad | Remedy::SplitLine => "none: no placement of pages mends it",
    }
}
