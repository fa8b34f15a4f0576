//! The patterns that advice is about, and the remedies that it knows: names of the JSON, words for people.

macro_rules! kinds {
    ($(#[doc = $doc:literal] $kind:ident { $($variant:ident = $name:literal, $title:literal, $help:literal;)* })*) => {$(
        #[doc = $doc]
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum $kind { $(#[doc = $help] $variant,)* }

        impl $kind {
            /// Every one, in the order of declaration.
            pub const ALL: &'static [$kind] = &[$($kind::$variant,)*];

            /// The name in JSON.
            pub fn name(self) -> &'static str {
                match self { $($kind::$variant => $name,)* }
            }

            /// The heading.
            pub fn title(self) -> &'static str {
                match self { $($kind::$variant => $title,)* }
            }

            /// One sentence.
            pub fn help(self) -> &'static str {
                match self { $($kind::$variant => $help,)* }
            }
        }
    )*};
}

kinds! {
    /// What is wrong with the placement of memory or threads.
    Pattern {
        SerialInitialisation = "serial-initialisation", "serial initialisation",
            "One node's threads touched it first; the threads of several nodes then use disjoint parts of it.";
        MisplacedBlocks = "misplaced-blocks", "misplaced blocks",
            "The threads of several nodes use disjoint parts of it, and the parts lie on other nodes than their users.";
        ReadByAll = "read-by-all", "written once, read by all",
            "It is written before it is shared, then only read, all over, by the threads of several nodes.";
        SharedReadWrite = "shared-read-write", "read and written by all",
            "The threads of several nodes read and write all over it at the same time.";
        PrivateElsewhere = "private-elsewhere", "private data on another node",
            "Each of its objects is used by the threads of one node, and lies on another.";
        PlacedByPolicy = "placed-by-policy", "pages where a policy puts them",
            "A memory policy, of the program or of whoever started it, takes its pages to other nodes than the threads that touch and use them.";
        HandedOn = "handed-on", "memory that an allocator hands on",
            "Its blocks lie on pages that others touched first and freed; whose pages a thread gets may differ from run to run.";
        SplitClusters = "split-clusters", "threads that share are apart",
            "Threads share heavily with each other and little with others, and run on different nodes.";
        ObjectsSharePage = "objects-share-page", "objects of several nodes on one page",
            "A page is shared only because objects lie on it that threads of different nodes use.";
        HugePageSplit = "huge-page-split", "huge pages that nodes divide",
            "Each part of it is one node's, but parts of several nodes lie on one huge page, which has one home.";
        SharedLine = "shared-line", "cache line written by several nodes",
            "Threads of several nodes write to the same few cache lines, which travel between their caches.";
        RemoteCode = "remote-code", "code on another node",
            "Instructions are fetched from pages of code on another node.";
        UnpinnedThreads = "unpinned-threads", "threads bound to no node",
            "Threads may run on any node, so the kernel may move them away from their pages.";
        SlowTier = "slow-tier", "hot pages on a slow tier",
            "Pages on a node of slower memory are accessed often.";
    }

    /// What to change.
    Remedy {
        Replicate = "replicate", "give every node a copy",
            "Every node reads a copy in its own memory.";
        Interleave = "interleave", "interleave its pages over the nodes",
            "Every memory controller serves an equal part; no access is guaranteed to be local.";
        LocalAllocation = "local-allocation", "allocate and touch it in the thread that uses it",
            "The page lands on the node of the thread that touches it first.";
        DropPolicy = "drop-policy", "leave out the memory policy",
            "Each part then lands on the node of the thread that touches it first.";
        FreshPages = "fresh-pages", "let blocks stay with their thread, or have new pages",
            "A block that its thread keeps, or that is mapped anew, lies on the node of the thread that touches it first.";
        LocalStack = "local-stack", "bind the thread before it uses its stack",
            "Each page of a stack lands on the node that the thread runs on when it first comes to it.";
        ParallelInitialisation = "parallel-initialisation", "initialise it in the threads that use it",
            "Each part lands on the node of the thread that touches it first.";
        BlockPlacement = "block-placement", "bind each part to the node that uses it",
            "The part's pages go where its users run, whoever touches them first.";
        CoLocateThreads = "co-locate-threads", "run threads that share on one node",
            "What they share is then local to all of them.";
        PinThreads = "pin-threads", "bind threads to nodes",
            "Threads stay where their pages are.";
        AlignOrPad = "align-or-pad", "align or pad its objects to pages",
            "Objects of different nodes get pages of their own.";
        AlignToHugePages = "align-to-huge-pages", "divide it at multiples of its huge pages",
            "Each huge page is then touched first, and used, by the threads of one node.";
        SplitLine = "split-line", "give each thread a cache line of its own",
            "A line that one thread alone writes stays in its cache.";
        LocalText = "local-text", "load the code on the node that runs it",
            "Instructions are then fetched locally.";
        ReplicateText = "replicate-text", "give every node a copy of the code",
            "Every node fetches from its own copy.";
        MoveToTier = "move-to-tier", "move it to the fast tier",
            "The fast tier answers sooner.";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let patterns: Vec<&str> = Pattern::ALL.iter().map(|one| one.name()).collect();
        let remedies: Vec<&str> = Remedy::ALL.iter().map(|one| one.name()).collect();
        for names in [patterns, remedies] {
            for name in &names {
                assert_eq!(names.iter().filter(|other| *other == name).count(), 1, "{name}");
            }
        }
    }
}
