//! Remedies in languages whose runtime allocates and moves memory: where it leaves nothing to say, what to look at.

use crate::model::patterns::Remedy;

/// What a remedy changes in such a program: these languages have one way for each.
enum Change {
    /// Who makes and fills memory.
    Maker,
    /// Each reader has a copy.
    Copy,
    /// What shares a cache line is set apart.
    Apart,
    /// Nothing in the source, or where threads execute.
    Setting,
}

fn change(remedy: Remedy) -> Change {
    match remedy {
        Remedy::LocalAllocation
        | Remedy::LocalStack
        | Remedy::ParallelInitialisation
        | Remedy::BlockPlacement
        | Remedy::AlignOrPad
        | Remedy::AlignToHugePages => Change::Maker,
        Remedy::Replicate => Change::Copy,
        Remedy::SplitLine => Change::Apart,
        Remedy::Interleave
        | Remedy::DropPolicy
        | Remedy::FreshPages
        | Remedy::CoLocateThreads
        | Remedy::PinThreads
        | Remedy::LocalText
        | Remedy::ReplicateText
        | Remedy::MoveToTier => Change::Setting,
    }
}

/// Lines for a remedy.
pub fn in_java(remedy: Remedy) -> &'static str {
    match change(remedy) {
        Change::Maker => {
            "// each worker makes and fills the part that it uses: -XX:+UseNUMA places it on the worker's node\nexecutor.submit(() -> { double[] own = new double[n / workers]; Arrays.fill(own, initial); work(own); });"
        }
        Change::Copy => {
            "// once it is complete: a copy made by a worker of each node, which the workers of that node read\nfinal double[] mine = ARRAY.clone();"
        }
        Change::Apart => {
            "LongAdder ARRAY = new LongAdder();   // java.util.concurrent.atomic: a cell for each thread; or @Contended fields"
        }
        Change::Setting => "nothing in Java itself: see the settings below; -XX:+UseNUMA, -XX:+UseNUMAInterleaving",
    }
}

/// Lines for a remedy.
pub fn in_go(remedy: Remedy) -> &'static str {
    match change(remedy) {
        Change::Maker => {
            "go func(part []float64) {          // make reserves, the first write places\n    runtime.LockOSThread()\n    unix.SchedSetaffinity(0, &cpusOfNode)\n    for i := range part {\n        part[i] = initial(i)\n    }\n}(ARRAY[begin:end])"
        }
        Change::Copy => {
            "// once it is complete: a copy made by a goroutine that is locked to a thread of each node\nmine := slices.Clone(ARRAY)"
        }
        Change::Apart => {
            "type own struct {\n    n atomic.Int64\n    _ [120]byte   // two lines: processors fetch them in pairs\n}"
        }
        Change::Setting => {
            "runtime.LockOSThread()\nunix.SchedSetaffinity(0, &cpusOfNode)   // golang.org/x/sys/unix; first thing in the goroutine"
        }
    }
}

/// Lines for a remedy.
pub fn in_python(remedy: Remedy) -> &'static str {
    match change(remedy) {
        Change::Maker => {
            "ARRAY = np.empty(n)                  # reserves, touches nothing\nwith ThreadPoolExecutor(workers) as pool:   # each worker fills the part that it uses\n    pool.map(lambda part: ARRAY[part].fill(initial), parts)"
        }
        Change::Copy => "mine = ARRAY.copy()   # in a worker of each node, after os.sched_setaffinity(0, cpus_of_node)",
        Change::Apart | Change::Setting => {
            "os.sched_setaffinity(0, cpus_of_node)   # first thing in the worker, before it allocates"
        }
    }
}

/// Lines for a remedy.
pub fn in_haskell(remedy: Remedy) -> &'static str {
    if remedy == Remedy::ParallelInitialisation {
        return "-- fill each block in the capability that will use it, in place of one fill by main\nforM_ (zip [0 ..] blocks) $ \\(cap, (from, to)) ->\n    forkOn cap $ forM_ [from .. to - 1] $ \\i -> writeArray ARRAY i (initial i)";
    }
    match change(remedy) {
        Change::Maker => {
            "-- make each part in the capability that uses it: what it allocates lies in its own nursery\nforkOn cap $ do\n    own <- newArray (from, to) initial :: IO (IOUArray Int Double)\n    work own"
        }
        Change::Copy => {
            "-- once it is complete: a copy made by the capability that reads it\nforkOn cap $ do\n    mine <- freeze =<< (thaw ARRAY :: IO (IOUArray Int Double)) :: IO (UArray Int Double)\n    work mine"
        }
        Change::Apart => {
            "own <- replicateM caps (newIORef 0)   -- one for each capability, made in it; their sum is taken at the end"
        }
        Change::Setting => {
            "forkOn cap work      -- in place of forkIO, and run with +RTS -N -xp -qa (bind capabilities to CPUs)"
        }
    }
}

/// Lines for a remedy.
pub fn in_javascript(remedy: Remedy) -> &'static str {
    match change(remedy) {
        Change::Maker => {
            "// in the worker: make and fill the part that it uses; new SharedArrayBuffer reserves, the first write places\nconst own = new Float64Array(ARRAY, begin * 8, end - begin);\nfor (let i = 0; i < own.length; i++) own[i] = initial(begin + i);"
        }
        Change::Copy => {
            "// once it is complete: a copy made by the worker that reads it\nconst mine = new Float64Array(ARRAY).slice();"
        }
        Change::Apart => {
            "const own = new BigInt64Array(buffer, worker * 128, 1);   // two lines: processors fetch them in pairs"
        }
        Change::Setting => "nothing in JavaScript itself: see the settings below",
    }
}
