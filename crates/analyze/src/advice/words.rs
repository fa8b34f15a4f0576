//! The patterns that advice is about, and the remedies that it knows: names of the JSON, words for people.

use crate::model::report::Word;

macro_rules! words {
    ($list:ident: $($constant:ident = $name:literal, $title:literal, $help:literal;)*) => {
        $(
            #[doc = $help]
            pub static $constant: Word = Word { name: $name, title: $title, help: $help };
        )*

        /// All of them.
        pub static $list: &[&Word] = &[$(&$constant,)*];
    };
}

words! { PATTERNS:
    SERIAL_INITIALISATION = "serial-initialisation", "serial initialisation",
        "One node's threads touched it first; the threads of several nodes then use disjoint parts of it.";
    MISPLACED_BLOCKS = "misplaced-blocks", "misplaced blocks",
        "The threads of several nodes use disjoint parts of it, and the parts lie on other nodes than their users.";
    READ_BY_ALL = "read-by-all", "written once, read by all",
        "It is written before it is shared, then only read, all over, by the threads of several nodes.";
    SHARED_READ_WRITE = "shared-read-write", "read and written by all",
        "The threads of several nodes read and write all over it at the same time.";
    PRIVATE_ELSEWHERE = "private-elsewhere", "private data on another node",
        "Each of its objects is used by the threads of one node, and lies on another.";
    PLACED_BY_POLICY = "placed-by-policy", "pages where a policy puts them",
        "A memory policy, of the program or of whoever started it, takes its pages to other nodes than the threads that touch and use them.";
    HANDED_ON = "handed-on", "memory that an allocator hands on",
        "Its blocks lie on pages that others touched first and freed; whose pages a thread gets may differ from run to run.";
    SPLIT_CLUSTERS = "split-clusters", "threads that share are apart",
        "Threads share heavily with each other and little with others, and run on different nodes.";
    OBJECTS_SHARE_PAGE = "objects-share-page", "objects of several nodes on one page",
        "A page is shared only because objects lie on it that threads of different nodes use.";
    HUGE_PAGE_SPLIT = "huge-page-split", "huge pages that nodes divide",
        "Each part of it is one node's, but parts of several nodes lie on one huge page, which has one home.";
    SHARED_LINE = "shared-line", "cache line written by several nodes",
        "Threads of several nodes write to the same few cache lines, which travel between their caches.";
    REMOTE_CODE = "remote-code", "code on another node",
        "Instructions are fetched from pages of code on another node.";
    UNPINNED_THREADS = "unpinned-threads", "threads bound to no node",
        "Threads may run on any node, so the kernel may move them away from their pages.";
    SLOW_TIER = "slow-tier", "hot pages on a slow tier",
        "Pages on a node of slower memory are accessed often.";
}

words! { REMEDIES:
    REPLICATE = "replicate", "give every node a copy", "Every node reads a copy in its own memory.";
    INTERLEAVE = "interleave", "interleave its pages over the nodes",
        "Every memory controller serves an equal part; no access is guaranteed to be local.";
    LOCAL_ALLOCATION = "local-allocation", "allocate and touch it in the thread that uses it",
        "The page lands on the node of the thread that touches it first.";
    DROP_POLICY = "drop-policy", "leave out the memory policy",
        "Each part then lands on the node of the thread that touches it first.";
    FRESH_PAGES = "fresh-pages", "let blocks stay with their thread, or have new pages",
        "A block that its thread keeps, or that is mapped anew, lies on the node of the thread that touches it first.";
    LOCAL_STACK = "local-stack", "bind the thread before it uses its stack",
        "Each page of a stack lands on the node that the thread runs on when it first comes to it.";
    PARALLEL_INITIALISATION = "parallel-initialisation", "initialise it in the threads that use it",
        "Each part lands on the node of the thread that touches it first.";
    BLOCK_PLACEMENT = "block-placement", "bind each part to the node that uses it",
        "The part's pages go where its users run, whoever touches them first.";
    CO_LOCATE_THREADS = "co-locate-threads", "run threads that share on one node",
        "What they share is then local to all of them.";
    PIN_THREADS = "pin-threads", "bind threads to nodes", "Threads stay where their pages are.";
    ALIGN_OR_PAD = "align-or-pad", "align or pad its objects to pages",
        "Objects of different nodes get pages of their own.";
    ALIGN_TO_HUGE_PAGES = "align-to-huge-pages", "divide it at multiples of its huge pages",
        "Each huge page is then touched first, and used, by the threads of one node.";
    SPLIT_LINE = "split-line", "give each thread a cache line of its own",
        "A line that one thread alone writes stays in its cache.";
    LOCAL_TEXT = "local-text", "load the code on the node that runs it", "Instructions are then fetched locally.";
    REPLICATE_TEXT = "replicate-text", "give every node a copy of the code", "Every node fetches from its own copy.";
    MOVE_TO_TIER = "move-to-tier", "move it to the fast tier", "The fast tier answers sooner.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        for list in [PATTERNS, REMEDIES] {
            for word in list {
                assert_eq!(list.iter().filter(|other| other.name == word.name).count(), 1, "{}", word.name);
            }
        }
    }
}
