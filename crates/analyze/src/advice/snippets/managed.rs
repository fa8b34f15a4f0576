//! Remedies in languages whose runtime allocates and moves memory: where it leaves nothing to say, what to look at.

use crate::model::patterns::Remedy;

/// Lines for a remedy.
pub fn in_java(remedy: Remedy) -> &'static str {
    match remedy {
        Remedy::LocalAllocation
        | Remedy::LocalStack
        | Remedy::ParallelInitialisation
        | Remedy::BlockPlacement
        | Remedy::AlignOrPad
        | Remedy::AlignToHugePages => {
            "// each worker makes and fills the part that it uses: -XX:+UseNUMA places it on the worker's node\nexecutor.submit(() -> { double[] own = new double[n / workers]; Arrays.fill(own, initial); work(own); });"
        }
        Remedy::Replicate => {
            "// once it is complete: a copy made by a worker of each node, which the workers of that node read\nfinal double[] mine = ARRAY.clone();"
        }
        Remedy::SplitLine => {
            "LongAdder ARRAY = new LongAdder();   // java.util.concurrent.atomic: a cell for each thread; or @Contended fields"
        }
        Remedy::Interleave
        | Remedy::DropPolicy
        | Remedy::FreshPages
        | Remedy::CoLocateThreads
        | Remedy::PinThreads
        | Remedy::LocalText
        | Remedy::ReplicateText
        | Remedy::MoveToTier => {
            "nothing in Java itself: see the settings below; -XX:+UseNUMA, -XX:+UseNUMAInterleaving"
        }
    }
}

/// Lines for a remedy.
pub fn in_go(remedy: Remedy) -> &'static str {
    match remedy {
        Remedy::LocalAllocation
        | Remedy::LocalStack
        | Remedy::ParallelInitialisation
        | Remedy::BlockPlacement
        | Remedy::AlignOrPad
        | Remedy::AlignToHugePages => {
            "go func(part []float64) {          // make reserves, the first write places\n    runtime.LockOSThread()\n    unix.SchedSetaffinity(0, &cpusOfNode)\n    for i := range part {\n        part[i] = initial(i)\n    }\n}(ARRAY[begin:end])"
        }
        Remedy::Replicate => {
            "// once it is complete: a copy made by a goroutine that is locked to a thread of each node\nmine := slices.Clone(ARRAY)"
        }
        Remedy::SplitLine => {
            "type own struct {\n    n atomic.Int64\n    _ [120]byte   // two lines: processors fetch them in pairs\n}"
        }
        Remedy::Interleave
        | Remedy::DropPolicy
        | Remedy::FreshPages
        | Remedy::CoLocateThreads
        | Remedy::PinThreads
        | Remedy::LocalText
        | Remedy::ReplicateText
        | Remedy::MoveToTier => {
            "runtime.LockOSThread()\nunix.SchedSetaffinity(0, &cpusOfNode)   // golang.org/x/sys/unix; first thing in the goroutine"
        }
    }
}

/// Lines for a remedy.
pub fn in_python(remedy: Remedy) -> &'static str {
    match remedy {
        Remedy::LocalAllocation
        | Remedy::LocalStack
        | Remedy::ParallelInitialisation
        | Remedy::BlockPlacement
        | Remedy::AlignOrPad
        | Remedy::AlignToHugePages => {
            "ARRAY = np.empty(n)                  # reserves, touches nothing\nwith ThreadPoolExecutor(workers) as pool:   # each worker fills the part that it uses\n    pool.map(lambda part: ARRAY[part].fill(initial), parts)"
        }
        Remedy::Replicate => {
            "mine = ARRAY.copy()   # in a worker of each node, after os.sched_setaffinity(0, cpus_of_node)"
        }
        Remedy::Interleave
        | Remedy::DropPolicy
        | Remedy::FreshPages
        | Remedy::CoLocateThreads
        | Remedy::PinThreads
        | Remedy::SplitLine
        | Remedy::LocalText
        | Remedy::ReplicateText
        | Remedy::MoveToTier => {
            "os.sched_setaffinity(0, cpus_of_node)   # first thing in the worker, before it allocates"
        }
    }
}
