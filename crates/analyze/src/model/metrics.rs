//! The metrics: each one's name, unit and help text, once. Reports, views and the documentation take them from here.

/// A quantity that reports show.
#[derive(PartialEq, Eq, Debug)]
pub struct Metric {
    /// The name in JSON, in CSV and after `--sort`.
    pub name: &'static str,
    /// The heading over a column.
    pub title: &'static str,
    /// What one of it is; `recorded unit` is what the profile says in `meta.unit`.
    pub unit: &'static str,
    /// One sentence: what it counts.
    pub help: &'static str,
}

impl Metric {
    /// Whether it is there at a time, rather than happening in it: over time there is a most of it, and no sum.
    pub fn is_level(&self) -> bool {
        [LIVE.name, PLACED.name].contains(&self.name)
    }
}

macro_rules! metrics {
    ($($constant:ident = $name:literal, $title:literal, $unit:literal, $help:literal;)*) => {
        $(
            #[doc = $help]
            pub static $constant: Metric = Metric { name: $name, title: $title, unit: $unit, help: $help };
        )*

        /// Every metric, in the order in which the documentation lists them.
        pub static ALL: &[&Metric] = &[$(&$constant,)*];
    };
}

metrics! {
    ACCESSES = "accesses", "accesses", "recorded unit",
        "Reads and writes; a read-modify-write is one of each.";
    READS = "reads", "reads", "recorded unit", "Reads, those of read-modify-writes included.";
    WRITES = "writes", "writes", "recorded unit", "Writes, those of read-modify-writes included.";
    SAMPLES = "samples", "samples", "samples", "Samples that the figures beside it come from; 0 when they are exact counts.";
    SHARE = "share", "share", "% of the accesses", "Part of all accesses of the report.";

    LOCAL = "local", "local", "recorded unit",
        "Accesses of a pinned thread to a page placed by a pinned thread, on the node of the accessing thread.";
    REMOTE = "remote", "remote", "recorded unit",
        "Accesses of a pinned thread to a page placed by a pinned thread, on another node than the accessing thread's.";
    UNPINNED_PAGE = "unpinned_page", "unpinned page", "recorded unit",
        "Accesses of a pinned thread to a page placed by an unpinned thread.";
    UNPINNED_THREAD = "unpinned_thread", "unpinned thread", "recorded unit",
        "Accesses of an unpinned thread to a page placed by a pinned thread.";
    UNPINNED_BOTH = "unpinned_both", "unpinned both", "recorded unit",
        "Accesses of an unpinned thread to a page placed by an unpinned thread.";
    MEMORY_TIER_LOCAL = "memory_tier_local", "tier local", "recorded unit",
        "Accesses to a page on a node without CPUs (HBM, CXL, PMEM) when no other such node is nearer to the thread's node.";
    MEMORY_TIER_REMOTE = "memory_tier_remote", "tier remote", "recorded unit",
        "Accesses to a page on a node without CPUs when another such node is nearer, or the thread is unpinned.";
    UNPLACED = "unplaced", "unplaced", "recorded unit",
        "Accesses to a page without a home when asked: the shared zero page, or gone before it could be asked for.";
    REMOTE_SHARE = "remote_share", "remote", "% of the accesses",
        "Classes remote and memory_tier_remote over all accesses of the row.";
    UNPINNED_SHARE = "unpinned_share", "unpinned", "% of the accesses",
        "Classes unpinned_page, unpinned_thread and unpinned_both over all accesses of the row.";

    FIRST_TOUCH = "first_touch", "first touch", "pages",
        "Pages whose first access came from here, by a pinned thread; a huge page on one node is one.";
    UNPINNED_FIRST_TOUCH = "unpinned_first_touch", "unpinned touch", "pages",
        "Pages whose first access came from here, by an unpinned thread.";
    PLACED_UNSEEN = "placed_unseen", "placed unseen", "pages",
        "Pages that the kernel placed itself: read() into fresh memory, MAP_POPULATE, fault-around of files.";
    PAGES = "pages", "pages", "pages", "Pages placed; a huge page on one node is one.";
    BYTES = "bytes", "bytes", "bytes", "Bytes of those pages, or of the object.";
    COUNT = "count", "count", "objects", "Objects that the row stands for.";

    PROCESSED = "processed", "objects processed", "objects",
        "Objects that threads of a garbage collection came to, one for each pointer to them.";

    LOCAL_SHARE = "local_share", "local share", "% of the accesses of pinned threads",
        "Diagonal of the access matrix over the accesses of pinned threads.";
    LOCAL_SHARE_ALL = "local_share_all", "local share of all", "% of the accesses",
        "Diagonal of the access matrix over all accesses.";
    LOCAL_CLASS_SHARE = "local_class_share", "local class share", "% of the accesses",
        "Accesses of class local over all accesses.";
    HOT_REGION = "hot_region", "hot region", "% of the accesses",
        "The node that receives most accesses from pinned threads of other nodes, and these over all accesses.";
    NUMA_ACCESS_RATE = "numa_access_rate", "NUMA access rate", "recorded unit * distance / s",
        "Sum over the access matrix of distance times accesses, of pinned threads, over the run time.";
    APPLICATION_EXCLUSIVITY = "application_exclusivity", "exclusivity", "%",
        "Per page the accesses of the node (with CPUs) that uses it most; summed over pages, over the accesses of all nodes.";
    EXCLUSIVITY = "exclusivity", "exclusivity", "%",
        "Accesses of the node that uses the page most over the accesses of all nodes; 100 when one node alone uses it.";
    BALANCE = "balance", "busiest node", "% of the accesses with a home",
        "Share of accesses, and of placed pages, handled by each node; the busiest node's share.";
    IMBALANCE = "imbalance", "imbalance", "%",
        "(max / mean - 1) * 100 of the accesses handled by each node that has memory.";
    DISTANCE = "distance", "distance", "SLIT", "The machine's distance between the thread's node and the page's home.";

    MEMORY_TIME = "memory_time", "memory time", "% of the memory time as recorded",
        "Predicted by the cost model: distances, and the queue at busy controllers.";
    NUMA_ACCESSES = "numa_accesses", "access * distance", "recorded unit * distance",
        "Sum over the access matrix of distance times accesses, of pinned threads.";
    BUSIEST = "busiest", "busiest node", "% of the accesses with a home", "What the node that serves most serves.";
    PAGES_MOVED = "pages_moved", "pages moved", "pages", "Pages whose home would be another than the recorded one.";
    COPIES = "copies", "copies", "bytes", "Memory that copies of pages would take beyond one home each.";

    CACHE_MISSES = "cache_misses", "cache misses", "accesses",
        "Accesses that missed the private cache of their thread, of recordings with --cache.";
    READ_MISSES = "read_misses", "read misses", "accesses", "Reads, those of read-modify-writes included, that missed it.";
    WRITE_MISSES = "write_misses", "write misses", "accesses", "Writes that missed it; those of read-modify-writes are reads.";
    MISS_RATE = "miss_rate", "missed", "% of the accesses", "Cache misses over the accesses.";
    TRANSITIONS = "transitions", "transitions", "accesses",
        "Accesses to a cache line that another thread had accessed last.";
    NODE_TRANSITIONS = "node_transitions", "between nodes", "accesses",
        "Of the transitions those from a thread that was bound to another node.";
    TRUE_SHARING = "true_sharing", "true sharing", "accesses",
        "Transitions after which the thread reads words that the one before had written, or writes words that it had accessed.";
    FALSE_SHARING = "false_sharing", "false sharing", "accesses",
        "Transitions where one of the two threads wrote, but no word that concerns the other.";
    COMMUNICATION = "communication", "communication", "accesses",
        "Accesses of two threads to cache lines that the other one had accessed last.";
    SHARED = "shared", "shared", "recorded unit",
        "Accesses to pages that both threads use: of each page those of the thread that uses it less.";
    STRUCTURE = "structure", "structure", "%",
        "How far threads share pages with one other thread alone (100) rather than with all others alike (0), weighted by what they share.";
    SMALL_EXCLUSIVITY = "small_exclusivity", "of small pages", "%",
        "Exclusivity of the small pages that a huge page covers, weighted by accesses.";
    HOT_PAGES = "hot_pages", "hot pages", "pages of 4 KiB", "Pages with more accesses than the mean of the pages that were used.";
    COLD_PAGES = "cold_pages", "cold pages", "pages of 4 KiB",
        "Pages with less than a tenth of the mean accesses of the pages that were used, or without any.";
    LIVE = "live", "live", "bytes", "Bytes allocated and not yet released; of a time bin the most.";
    PLACED = "placed", "placed", "bytes", "Bytes of pages that have a home.";
    ALLOCATION_RATE = "allocation_rate", "allocation rate", "bytes / s", "Bytes allocated, over the length of the recording.";
    BYTE_SECONDS = "byte_seconds", "byte-seconds", "bytes * s", "Integral of the live bytes over time.";
    FREES = "frees", "frees", "calls", "Releases of blocks whose allocation was recorded.";
    FREED_BY_OTHERS = "freed_by_others", "by other threads", "calls", "Of those, by another thread than the one that allocated the block.";
    FREED_ELSEWHERE = "freed_elsewhere", "on other nodes", "calls",
        "Of those, by a thread bound to another node than the one that allocated the block.";

    SWITCHES = "switches", "switches", "switches", "Times the scheduler took the thread off a CPU.";
    MIGRATIONS = "migrations", "migrations", "migrations", "Times the thread went on on another CPU than before.";

    INSTRUCTIONS = "instructions", "instructions", "instructions; samples with the sample engine",
        "Instructions executed; the sample engine counts samples taken.";
    ALLOCATED = "allocated", "allocated", "bytes", "Bytes that were allocated.";
    UNTOUCHED = "untouched", "untouched", "bytes", "Bytes that were allocated and never had a page.";
    CALLS = "calls", "calls", "calls", "Allocations.";
}

/// The metric of a name.
pub fn named(name: &str) -> Option<&'static Metric> {
    ALL.iter().copied().find(|metric| metric.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use numalens_profile::words::Class;

    #[test]
    fn names_are_unique_and_found() {
        for metric in ALL {
            assert!(std::ptr::eq(named(metric.name).unwrap(), *metric), "{} is there twice", metric.name);
        }
    }

    /// Guards that bytes in force are not added up over time: 64 MiB for 120 bins are no 7.5 G.
    #[test]
    fn what_is_there_at_a_time_has_no_sum() {
        assert!(LIVE.is_level() && PLACED.is_level() && !ALLOCATED.is_level() && !ACCESSES.is_level());
    }

    #[test]
    fn every_class_is_a_metric() {
        for class in Class::ALL {
            assert!(named(class.word()).is_some(), "{}", class.word());
        }
    }
}
