//! The closed sets of words that columns hold. In the files they are dictionary-encoded strings, so that
//! SQL reads `class = 'remote'`; here they are enums.

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum $name { $($(#[$vdoc])* $variant,)* }

        impl $name {
            /// Every value, in the order of declaration.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];

            /// The word that files and JSON use.
            pub fn word(self) -> &'static str {
                match self { $($name::$variant => $word,)* }
            }

            /// The value of a word; `None` for a word of a newer version or a damaged file.
            pub fn from_word(word: &str) -> Option<Self> {
                match word { $($word => Some($name::$variant),)* _ => None }
            }
        }

        impl crate::row::Word for $name {
            const ALL: &'static [Self] = $name::ALL;

            fn word(self) -> &'static str {
                $name::word(self)
            }

            fn from_word(word: &str) -> Option<Self> {
                $name::from_word(word)
            }

            #[inline]
            fn index(self) -> i32 {
                self as i32
            }
        }
    )*};
}

#[cfg(test)]
pub(crate) use words;

words! {
    /// Where an access went, seen from the thread that made it (docs/reference/metrics.md). The classes partition the
    /// accesses.
    Class {
        Local = "local",
        Remote = "remote",
        UnpinnedPage = "unpinned_page",
        UnpinnedThread = "unpinned_thread",
        UnpinnedBoth = "unpinned_both",
        MemoryTierLocal = "memory_tier_local",
        MemoryTierRemote = "memory_tier_remote",
        Unplaced = "unplaced",
    }

    /// What an access did. A read-modify-write counts as one read and one write.
    Access {
        Read = "read",
        Write = "write",
        ReadWrite = "read_write",
    }

    /// How the address of a sample was found.
    Found {
        /// The hardware reported it.
        Hardware = "hardware",
        /// From the access just retired, before the sampled instruction.
        Before = "before",
        /// From the sampled instruction itself.
        At = "at",
        /// From the next access after the sampled instruction.
        After = "after",
    }

    /// Who placed a page, and with what right to a home.
    Placed {
        /// First touched by a thread bound to one node (or by the kernel, in a call of such a thread), or bound or
        /// moved to a node explicitly.
        Pinned = "pinned",
        /// First touched by a thread free to run on several nodes.
        Unpinned = "unpinned",
        /// Placed by the kernel, and nobody knows for whom: no first touch was seen.
        Unseen = "unseen",
    }

    /// What kind of fault placed a page.
    Fault {
        /// Fresh anonymous memory.
        Anonymous = "anonymous",
        /// A read of untouched memory: the shared zero page was mapped, nothing was placed.
        ZeroPage = "zero_page",
        /// A write to a page that was shared until then (after fork, of a private file mapping, of the zero page).
        CopyOnWrite = "copy_on_write",
        /// A page of a file or of shared memory.
        File = "file",
        /// None: the page came from another address, and belongs to another object since (`realloc` of a large block).
        Moved = "moved",
        /// No fault was seen.
        None = "none",
    }

    /// The system call in which the kernel placed a page for the thread that made it.
    SystemCall {
        Read = "read",
        Pread = "pread",
        Readv = "readv",
        Preadv = "preadv",
        /// `recvfrom`, `recvmsg`, `recvmmsg`.
        Recv = "recv",
        /// `mmap`, `brk` or `mremap` of memory that is brought in at once: MAP_POPULATE, MAP_LOCKED, after `mlockall`.
        Mmap = "mmap",
        /// MADV_POPULATE_READ, MADV_POPULATE_WRITE.
        Madvise = "madvise",
        /// `mlock`, `mlock2`, `mlockall`.
        Mlock = "mlock",
        Getrandom = "getrandom",
        Getdents = "getdents",
        ProcessVmReadv = "process_vm_readv",
        ProcessVmWritev = "process_vm_writev",
        /// Another one.
        Other = "other",
    }

    /// The five kinds of object, and memory that could not be given to one.
    ObjectKind {
        Heap = "heap",
        Global = "global",
        File = "file",
        Code = "code",
        Stack = "stack",
        Unknown = "unknown",
    }

    /// What allocated or released memory.
    Call {
        Malloc = "malloc",
        Calloc = "calloc",
        Realloc = "realloc",
        Aligned = "aligned",
        New = "new",
        Mmap = "mmap",
        Mremap = "mremap",
        Brk = "brk",
        Free = "free",
        Munmap = "munmap",
    }

    /// Which part of the memory system answered, where the hardware tells.
    Source {
        L1 = "l1",
        FillBuffer = "lfb",
        L2 = "l2",
        L3 = "l3",
        LocalMemory = "local_memory",
        RemoteMemory = "remote_memory",
        RemoteCache = "remote_cache",
        Io = "io",
        Unknown = "unknown",
    }
}

impl From<numalens_topology::Locality> for Class {
    fn from(locality: numalens_topology::Locality) -> Self {
        use numalens_topology::Locality;
        match locality {
            Locality::Local => Class::Local,
            Locality::Remote => Class::Remote,
            Locality::UnpinnedPage => Class::UnpinnedPage,
            Locality::UnpinnedThread => Class::UnpinnedThread,
            Locality::UnpinnedBoth => Class::UnpinnedBoth,
            Locality::MemoryTierLocal => Class::MemoryTierLocal,
            Locality::MemoryTierRemote => Class::MemoryTierRemote,
            Locality::Unplaced => Class::Unplaced,
        }
    }
}
