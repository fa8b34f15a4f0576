//! The session file: made here, counted in by the agents, read here.

use super::image::Image;
use super::stale_files::Owner;
use crate::limits::high_descriptor;
use crate::refused::refused;
use crate::session::SessionOptions;
use memmap2::{MmapOptions, MmapRaw};
use numalens_event::exact::{self, DirectoryEntry, Extent, Placement, ProcessHeader, SessionHeader, Slots, end};
use numalens_topology::{CpuSet, Machine, PagePolicy, ThreadPlacement};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// What the agents are to do.
pub struct ExactOptions<'a> {
    pub machine: &'a Machine,
    pub placement: ThreadPlacement,
    pub policy: PagePolicy,
    /// Count accesses relative to the stack pointer too.
    pub stack: bool,
    /// Count how often code is executed.
    pub code: bool,
    /// Count accesses by cache line.
    pub lines: bool,
    /// Count accesses by word, so that each belongs to an object.
    pub words: bool,
    /// Look accesses up in a private cache of each thread.
    pub cache: Option<exact::Geometry>,
    /// Record the programs that children execute.
    pub follow: bool,
    /// Count from the beginning.
    pub counting: bool,
}

impl<'a> ExactOptions<'a> {
    /// What a recording is to be, as far as the agents have to know.
    pub fn of(session: &'a SessionOptions) -> Self {
        ExactOptions {
            machine: &session.machine,
            placement: session.placement,
            policy: session.policy,
            stack: session.stack,
            code: session.code,
            lines: session.lines,
            words: session.every_object,
            cache: session.cache,
            follow: session.follow,
            counting: !session.start_paused,
        }
    }
}

/// The session file, its header and its directory mapped.
pub struct SessionFile {
    file: File,
    header: Arc<Shared>,
    directory: Shared,
}

/// A piece of the file in memory, whose words other processes change.
pub struct Shared {
    map: MmapRaw,
}

impl Shared {
    /// Maps `bytes` of `file` from `offset` on.
    ///
    /// # Errors
    /// The kernel's.
    pub fn map(file: &File, offset: u64, bytes: usize) -> io::Result<Self> {
        Ok(Shared { map: MmapOptions::new().offset(offset).len(bytes).no_reserve_swap().map_raw(file)? })
    }

    /// The `T`s from byte `offset` on: `count` of them. `T` is one of the structures of `numalens_event::exact`, which
    /// are made of atomic words only.
    ///
    /// # Panics
    /// When they reach past the end of the piece.
    pub fn words<T: OfAtomics>(&self, offset: usize, count: usize) -> &[T] {
        let end = offset.checked_add(count.saturating_mul(size_of::<T>()));
        assert!(end.is_some_and(|end| end <= self.map.len()), "the session file is read within what is mapped");
        // SAFETY: within the mapping, which lives as long as the borrow; aligned, as mappings begin on pages and
        // offsets are multiples of the words' size; any bytes are valid atomics, and changes by others are what atomics
        // are for.
        unsafe { std::slice::from_raw_parts(self.map.as_ptr().add(offset).cast::<T>(), count) }
    }

    /// The header of the session, which the piece begins with.
    pub fn header(&self) -> &SessionHeader {
        &self.words(0, 1)[0]
    }

    /// The header of a process, which the piece begins with.
    pub fn process(&self) -> &ProcessHeader {
        &self.words(0, 1)[0]
    }

    /// Bytes mapped.
    pub fn len(&self) -> usize {
        self.map.len()
    }
}

/// Structures that consist of atomic integers only.
///
/// # Safety
/// Every bit pattern is valid and every field may change at any time.
pub unsafe trait OfAtomics {}

macro_rules! of_atomics {
    ($($name:ty),* $(,)?) => {
        $(
            // SAFETY: all fields are atomic integers.
            unsafe impl OfAtomics for $name {}
        )*
    };
}

of_atomics!(
    SessionHeader,
    DirectoryEntry,
    Placement,
    ProcessHeader,
    exact::SiteRecord,
    exact::LastPageRecord,
    exact::DirectHeader,
    std::sync::atomic::AtomicU32,
    exact::SegmentRecord,
    exact::PageRecord,
    exact::CodeDirectory,
    exact::PageCounts,
    exact::LogHeader,
    std::sync::atomic::AtomicU8,
    std::sync::atomic::AtomicU64,
);

/// Where a thread may run.
pub struct ThreadPlace {
    /// The kernel's number of its memory policy.
    pub policy: u64,
    /// The nodes of that policy, a bit each.
    pub nodes: [u64; exact::NODE_WORDS],
    /// Its CPUs, a bit each.
    pub cpus: Vec<u64>,
}

impl ThreadPlace {
    /// What the words of an [`exact::ThreadPlace`] say, of which the last may be left out where they are 0;
    /// none where they are not filled.
    pub fn read(mut words: impl Iterator<Item = u64>) -> Option<Self> {
        let (known, policy) = (words.next()?, words.next()?);
        let mut nodes = || std::array::from_fn(|_| words.next().unwrap_or(0));
        let (nodes, _named): (_, [u64; exact::NODE_WORDS]) = (nodes(), nodes());
        (known == 1).then(|| ThreadPlace { policy, nodes, cpus: words.collect() })
    }

    /// Its CPUs.
    pub fn cpus(&self) -> CpuSet {
        set_of(&self.cpus)
    }

    /// Its memory policy in the kernel's words.
    pub fn policy(&self) -> String {
        const WORDS: [&str; 7] =
            ["default", "prefer", "bind", "interleave", "local", "prefer (many)", "weighted interleave"];
        /// Beside the mode stand flags.
        const MODE: u64 = 0xff;
        let word = WORDS.get((self.policy & MODE) as usize).copied().unwrap_or("unknown");
        let nodes = set_of(&self.nodes);
        if nodes.is_empty() { word.to_owned() } else { format!("{word}:{nodes}") }
    }
}

fn set_of(words: &[u64]) -> CpuSet {
    let bits = |&word: &u64| (0..64).filter(move |bit| word >> bit & 1 != 0);
    (0..).zip(words).flat_map(|(index, word)| bits(word).map(move |bit| index * 64 + bit)).collect()
}

impl SessionFile {
    /// Makes the file, with the agent in it.
    ///
    /// # Errors
    /// The kernel's; a file-size limit that forbids sparse files of this size.
    pub fn create(image: &Image, options: &ExactOptions<'_>) -> io::Result<Self> {
        // SAFETY: a NUL-terminated name.
        let descriptor = unsafe { libc::memfd_create(c"numalens-session".as_ptr(), libc::MFD_CLOEXEC) };
        if descriptor < 0 {
            return Err(refused("memfd_create", &io::Error::last_os_error()));
        }
        // SAFETY: a new descriptor that nobody else owns.
        let file = unsafe { File::from_raw_fd(descriptor) };
        let during = |call| move |error| refused(call, &error);
        file.set_len(exact::FILE_BYTES).map_err(during("ftruncate of the session's memory"))?;
        for (address, content) in &image.pieces {
            let written = file.write_all_at(content, exact::IMAGE_OFFSET + *address as u64);
            written.map_err(during("write of the session's memory"))?;
        }
        let map = |offset, bytes| Shared::map(&file, offset, bytes).map_err(during("mmap of the session's memory"));
        let header = map(0, exact::IMAGE_OFFSET as usize)?;
        let entries = exact::MOST_EXTENTS as usize * size_of::<DirectoryEntry>();
        let directory = map(exact::DIRECTORY_OFFSET, entries)?;
        let session = SessionFile { file, header: Arc::new(header), directory };
        session.write_placement(options);
        let header = session.header();
        header.stack.store(options.stack.into(), Relaxed);
        header.code.store(options.code.into(), Relaxed);
        header.lines.store(options.lines.into(), Relaxed);
        header.words.store(options.words.into(), Relaxed);
        if let Some(exact::Geometry { sets, ways, line_log2 }) = options.cache {
            header.cache.iter().zip([sets, ways, line_log2]).for_each(|(to, word)| to.store(word, Relaxed));
        }
        header.follow.store(options.follow.into(), Relaxed);
        header.counting.store(options.counting.into(), Relaxed);
        header.wanted.store(options.counting.into(), Relaxed);
        header.debug.store(debug_bits(), Relaxed);
        header.most_code.store(most_code()?, Relaxed);
        header.classes_log2.store(classes_log2(options), Relaxed);
        header.image_bytes.store(image.bytes, Relaxed);
        header.image_entry.store(image.entry, Relaxed);
        header.collector_pid.store(std::process::id(), Relaxed);
        let vdso = vdso().unwrap_or_default();
        let place = |offset: Option<u64>| offset.map_or(0, |offset| offset + 1);
        header.vdso.syscall.store(place(numalens_agent::inject::find_syscall(vdso)), Relaxed);
        header.vdso.getcpu.store(place(vdso_function(vdso, b"__vdso_getcpu")), Relaxed);
        header.huge_pages.store(huge_pages(), Relaxed);
        header.version.store(exact::VERSION, Relaxed);
        header.magic.store(exact::MAGIC, Release);
        Ok(session)
    }

    /// The file, and where agents find persisted code in it.
    ///
    /// # Errors
    /// The kernel's.
    pub fn code_region(&self) -> io::Result<(File, Shared)> {
        let directory = Shared::map(&self.file, exact::CODE_OFFSET, size_of::<exact::CodeDirectory>())?;
        Ok((self.file.try_clone()?, directory))
    }

    /// Whether programs are on a virtual machine.
    pub fn is_virtual(&self) -> bool {
        self.placement().is_virtual.load(Relaxed) != 0
    }

    fn placement(&self) -> &Placement {
        &self.header.words::<Placement>(exact::PLACEMENT_OFFSET as usize, 1)[0]
    }

    /// The places of threads that are taken.
    pub fn slots(&self) -> &Slots {
        &self.placement().slots
    }

    fn write_placement(&self, options: &ExactOptions<'_>) {
        let ExactOptions { machine, placement, policy, .. } = *options;
        let to = self.placement();
        let index = |node| machine.index_of(node).and_then(|index| u16::try_from(index).ok()).unwrap_or(exact::NO_NODE);
        to.is_virtual.store(machine.is_virtual.into(), Relaxed);
        to.nodes.store(machine.nodes.len() as u32, Relaxed);
        let (code, seed) = match policy {
            PagePolicy::FirstTouch | PagePolicy::Bind(_) => (exact::policy::HOME_OF, 0),
            PagePolicy::Interleave => (exact::policy::INTERLEAVE, 0),
            PagePolicy::Random(seed) => (exact::policy::RANDOM, seed),
        };
        to.policy.store(code, Relaxed);
        to.seed.store(seed, Relaxed);
        let memory: Vec<u16> = machine.nodes_with_memory().map(|node| index(node.id)).collect();
        let cpus: Vec<u16> = machine.nodes_with_cpus().map(|node| index(node.id)).collect();
        for (list, used, nodes) in
            [(&to.memory_nodes, &to.memory_nodes_used, &memory), (&to.cpu_nodes, &to.cpu_nodes_used, &cpus)]
        {
            list.iter().zip(nodes).for_each(|(to, &node)| to.store(node, Relaxed));
            used.store(nodes.len().min(exact::MOST_NODES) as u32, Relaxed);
        }
        for (node, to) in machine.nodes.iter().zip(&to.home_of) {
            to.store(index(policy.home(machine, 0, node.id)), Relaxed);
        }
        for (node, to) in machine.nodes.iter().zip(&to.kernel_nodes) {
            to.store(u32::from(node.id.0) + 1, Relaxed);
        }
        let threads = match placement {
            ThreadPlacement::Spread => exact::threads::SPREAD,
            ThreadPlacement::Compact => exact::threads::COMPACT,
            ThreadPlacement::None => exact::threads::FREE,
        };
        to.threads.store(threads, Relaxed);
        to.first_slot.store(crate::rank::own().unwrap_or(0), Relaxed);
        to.node_of_cpu.iter().for_each(|node| node.store(exact::NO_NODE, Relaxed));
        for node in &machine.nodes {
            for to in node.cpus.iter().filter_map(|cpu| to.node_of_cpu.get(cpu as usize)) {
                to.store(index(node.id), Relaxed);
            }
        }
        // As the files of the nodes have it, one by one.
        to.memory_kib.store(machine.nodes.iter().map(|node| node.memory_bytes / 1024).sum(), Relaxed);
        let last = machine.cpus().iter().last().unwrap_or(0);
        to.cpu_numbers.store((last + 1).min(exact::MOST_CPUS as u32), Relaxed);
        for (order, row) in machine.fallback_orders().into_iter().zip(&to.fallback) {
            order.into_iter().zip(row).for_each(|(node, to)| to.store(node as u16 + 1, Relaxed));
        }
    }

    /// The programs of this session.
    pub fn owner(&self) -> Owner {
        Owner::of(&self.file)
    }

    /// Publishes to the agents where the table is of pages that other recordings share.
    ///
    /// # Errors
    /// Its name is too long.
    pub fn set_common(&self, table: &Path) -> io::Result<()> {
        store_path(table, &self.header().common)
    }

    /// The piece with the header, for another thread.
    pub fn shared_header(&self) -> Arc<Shared> {
        self.header.clone()
    }

    /// The header.
    pub fn header(&self) -> &SessionHeader {
        self.header.header()
    }

    /// The entries of all extents that have been given.
    pub fn directory(&self) -> impl Iterator<Item = (Extent, &DirectoryEntry)> {
        let given = self.arrived();
        (0..given).map(Extent).zip(self.directory.words(0, given as usize))
    }

    /// How many extents have been given: places of threads and processes.
    pub fn arrived(&self) -> u32 {
        self.header().extents.load(Acquire).min(exact::MOST_EXTENTS)
    }

    /// When a thread or process ended, on the clock of the records; none while it runs.
    pub fn end_of(&self, extent: Extent) -> Option<u64> {
        Some(self.entry(extent)?.end_ns.load(Acquire)).filter(|&end| end != 0)
    }

    /// When a thread counted there for the last time; none while it does.
    pub fn last_count_of(&self, extent: Extent) -> Option<u64> {
        let left = self.entry(extent)?.left_ns.load(Acquire);
        Some(left).filter(|&left| left != 0).or_else(|| self.end_of(extent))
    }

    /// Whether a process's program was replaced by another.
    pub fn has_execed(&self, extent: Extent) -> bool {
        self.entry(extent).is_some_and(|entry| entry.end.load(Acquire) & 0xff == end::EXEC)
    }

    /// How far to read what is said of a process until `until`: when it has called exec, what comes later is of the
    /// next program in it, whose beginning may not have been read yet. To be asked after all has been read that is to
    /// be sorted by it.
    pub fn of_its_program(&self, extent: Extent, until: u64) -> u64 {
        if !self.has_execed(extent) {
            return until;
        }
        self.end_of(extent).map_or(until, |end| end.min(until))
    }

    /// The entry of an extent that has been given.
    pub fn entry(&self, extent: Extent) -> Option<&DirectoryEntry> {
        let given = self.header().extents.load(Acquire).min(exact::MOST_EXTENTS);
        self.directory.words::<DirectoryEntry>(0, given as usize).get(extent.0 as usize)
    }

    /// Maps `bytes` of an extent from `offset` on.
    ///
    /// # Errors
    /// The kernel's.
    pub fn extent(&self, extent: Extent, offset: u64, bytes: usize) -> io::Result<Shared> {
        Shared::map(&self.file, extent.offset() + offset, bytes)
    }

    /// The words of a part of an extent. What was never written takes no memory by this.
    ///
    /// # Errors
    /// The kernel's.
    pub fn read(&self, extent: Extent, part: &std::ops::Range<u64>) -> io::Result<Vec<u64>> {
        let mut bytes = vec![0u8; (part.end - part.start) as usize];
        self.file.read_exact_at(&mut bytes, extent.offset() + part.start)?;
        let (words, _) = bytes.as_chunks::<8>();
        Ok(words.iter().map(|word| u64::from_le_bytes(*word)).collect())
    }

    /// Where a thread may run in its beginning, as its agent noted it. None on a virtual machine where nobody
    /// has said anything.
    pub fn thread_place(&self, extent: Extent) -> Option<ThreadPlace> {
        let mut bytes = [0u8; size_of::<exact::ThreadPlace>()];
        self.file.read_exact_at(&mut bytes, extent.offset() + exact::thread::PLACE).ok()?;
        ThreadPlace::read(bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default())))
    }

    /// The parts of `offset..offset + bytes` of an extent that have ever been written, as offsets in the extent.
    pub fn written(&self, extent: Extent, offset: u64, bytes: u64) -> impl Iterator<Item = std::ops::Range<u64>> {
        let base = extent.offset();
        let end = base + offset + bytes;
        let mut at = base + offset;
        std::iter::from_fn(move || {
            if at >= end {
                return None;
            }
            let start = self.seek(at, libc::SEEK_DATA).filter(|&start| start < end)?;
            at = self.seek(start, libc::SEEK_HOLE)?.min(end);
            Some(start - base..at - base)
        })
    }

    /// Bytes that it takes in memory.
    pub fn bytes(&self) -> u64 {
        use std::os::unix::fs::MetadataExt;
        self.file.metadata().map_or(0, |metadata| metadata.blocks() * 512)
    }

    /// Gives back the memory of a part of an extent, which nobody needs any more and which reads as zeros from now on.
    /// Whole pages only. What cannot be given back stays.
    pub fn discard(&self, extent: Extent, part: std::ops::Range<u64>) {
        let how = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        let (offset, bytes) = (extent.offset() + part.start, part.end - part.start);
        // SAFETY: no memory is passed.
        let _ = unsafe { libc::fallocate(self.file.as_raw_fd(), how, offset as i64, bytes as i64) };
    }

    fn seek(&self, from: u64, whence: i32) -> Option<u64> {
        // SAFETY: no memory is passed; nobody uses the file's position.
        let found = unsafe { libc::lseek(self.file.as_raw_fd(), from as i64, whence) };
        u64::try_from(found).ok()
    }

    /// A descriptor of the file that stays open across exec, high up where programs have none.
    ///
    /// # Errors
    /// The kernel's.
    pub fn inheritable(&self) -> io::Result<i32> {
        // SAFETY: duplicates a descriptor that we own.
        let descriptor = unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_DUPFD, high_descriptor()?) };
        if descriptor < 0 {
            return Err(refused("fcntl(F_DUPFD)", &io::Error::last_os_error()));
        }
        self.header().descriptor.store(descriptor, Relaxed);
        Ok(descriptor)
    }
}

/// Publishes to the agents where the virtual machine's files are.
///
/// # Errors
/// The path is too long.
pub fn set_files(header: &SessionHeader, folder: &Path) -> io::Result<()> {
    // As the kernel names it, where somebody asks what it is that he has open.
    store_path(&folder.canonicalize()?, &header.files)
}

fn store_path(path: &Path, to: &[AtomicU8; exact::MOST_PATH]) -> io::Result<()> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.len() >= exact::MOST_PATH {
        let text = format!("{} is longer than {} bytes", path.display(), exact::MOST_PATH - 1);
        return Err(io::Error::new(io::ErrorKind::InvalidFilename, text));
    }
    bytes.iter().chain([&0]).zip(to).for_each(|(&byte, to)| to.store(byte, Relaxed));
    Ok(())
}

/// What `NUMALENS_EXACT` asks for besides: for tests and measurements of the engine itself.
fn debug_bits() -> u32 {
    match std::env::var("NUMALENS_EXACT").as_deref() {
        Ok("flat") => exact::debug::FLAT,
        Ok("stays") => exact::debug::LAST_PAGE,
        Ok("loops") => exact::debug::LOOPS,
        Ok("few-pages") => exact::debug::FEW_PAGE_NUMBERS,
        Ok("uncounted") => exact::debug::NO_COUNTING,
        _ => 0,
    }
}

/// Bytes of translated code that a process keeps: `NUMALENS_CODE_CACHE` in MiB.
fn most_code() -> io::Result<u64> {
    const USUAL: u64 = 256;
    let mib = match std::env::var("NUMALENS_CODE_CACHE") {
        Ok(text) => text.parse().ok().filter(|mib| (1..=1 << 20).contains(mib)).ok_or_else(|| {
            let text = format!("NUMALENS_CODE_CACHE is {text:?}: give it the MiB of code to keep, 1 to 1048576");
            io::Error::new(io::ErrorKind::InvalidInput, text)
        })?,
        Err(_) => USUAL,
    };
    Ok(mib << 20)
}

/// When the kernel makes anonymous pages of 2 MiB. Linux 6.8 has a setting for each size, which mostly is to follow the
/// one for all.
fn huge_pages() -> u32 {
    let chosen = |file: &str| {
        let words = std::fs::read_to_string(format!("/sys/kernel/mm/transparent_hugepage/{file}")).unwrap_or_default();
        words.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(chosen, _)| chosen.to_owned())
    };
    let of_this_size = chosen("hugepages-2048kB/enabled").filter(|chosen| chosen != "inherit");
    match of_this_size.or_else(|| chosen("enabled")).as_deref() {
        Some("always") => exact::huge_pages::ALWAYS,
        Some("madvise") => exact::huge_pages::ADVISED,
        _ => exact::huge_pages::NEVER,
    }
}

/// As many classes as homes (and none), times two where pages may be placed by pinned and by unpinned threads (on a
/// virtual machine only where no placement keeps each thread on a node); one that is none, [`exact::READ_ONLY`], and on
/// a real machine [`exact::PENDING_HOME`].
fn classes_log2(options: &ExactOptions<'_>) -> u32 {
    let nodes = options.machine.nodes.len();
    let classes = match (options.machine.is_virtual, options.placement) {
        (true, ThreadPlacement::Spread | ThreadPlacement::Compact) => nodes + 3,
        (true, ThreadPlacement::None) => 2 * nodes + 4,
        (false, _) => 2 * nodes + 5,
    };
    classes.next_power_of_two().ilog2().max(3)
}

/// The kernel's vdso as it is in every process.
pub fn vdso() -> Option<&'static [u8]> {
    // SAFETY: reads the auxiliary vector.
    let base = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) };
    let mappings = crate::homes::read_maps(std::process::id() as i32).ok()?;
    let vdso = mappings.iter().find(|mapping| base != 0 && mapping.start == base)?;
    // SAFETY: the vdso is mapped and readable for the life of the process.
    Some(unsafe { std::slice::from_raw_parts(base as *const u8, (vdso.end - vdso.start) as usize) })
}

/// Where the function of this name stands in the vdso.
fn vdso_function(vdso: &[u8], name: &[u8]) -> Option<u64> {
    use object::{Object, ObjectSymbol};
    let file = object::File::parse(vdso).ok()?;
    file.dynamic_symbols().find(|symbol| symbol.name_bytes() == Ok(name)).map(|symbol| symbol.address())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vdso_is_known() {
        let vdso = vdso().unwrap();
        assert!(numalens_agent::inject::find_syscall(vdso).is_some());
        let function = vdso_function(vdso, b"__vdso_getcpu").unwrap();
        assert!((1..vdso.len() as u64).contains(&function));
        assert_eq!(vdso_function(vdso, b"__vdso_nothing"), None);
    }
}
