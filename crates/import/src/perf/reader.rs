//! From the file's records to samples, mappings and names, in order of time.

use super::file::{self, Attribute, File};
use numalens_profile::words::{Access, Source};
use perf_event_data::endian::Little;
use perf_event_data::parse::{ParseConfig, Parser};
use perf_event_data::{Comm, Fork, Lost, MemLevel, MemLevelNum, MemOp, Mmap, Mmap2, RecordMetadata, Sample, Visitor};
use perf_event_open_sys::bindings::{self as sys, perf_event_attr};

/// A sampled access.
pub struct Sampled {
    pub time: u64,
    pub pid: u32,
    pub tid: u32,
    pub cpu: u32,
    pub ip: u64,
    /// Callers' return addresses, innermost first.
    pub callers: Vec<u64>,
    pub address: u64,
    pub physical: Option<u64>,
    pub period: u64,
    /// None: the event does not tell.
    pub access: Option<Access>,
    pub source: Option<Source>,
    pub latency: Option<u32>,
    pub is_fault: bool,
}

/// A file mapped by a process.
pub struct Mapped {
    pub time: u64,
    pub pid: u32,
    pub start: u64,
    pub end: u64,
    pub offset: u64,
    pub executable: bool,
    pub path: String,
}

/// What the file tells.
#[derive(Default)]
pub struct Recording {
    pub samples: Vec<Sampled>,
    pub mappings: Vec<Mapped>,
    /// Time, pid, tid, name.
    pub names: Vec<(u64, u32, u32, String)>,
    /// Time, pid, parent's pid, tid.
    pub forks: Vec<(u64, u32, u32, u32)>,
    pub events: Vec<String>,
    pub lost: u64,
    /// Samples that are left out: of the kernel's code, without an address, unreadable.
    pub kernel: u64,
    pub without_address: u64,
    pub unreadable: u64,
    pub command: Vec<String>,
    pub host: String,
    pub kernel_release: String,
    pub numa_topology: Option<Vec<u8>>,
    pub memory_topology: Option<Vec<u8>>,
}

/// Reads a whole file, and the further records of its folder.
///
/// # Errors
/// What is wrong with it.
pub fn read(bytes: &[u8], further: &[Vec<u8>]) -> Result<Recording, String> {
    let mut file = File::read(bytes)?;
    further.iter().for_each(|records| file.add(records));
    let names = file.event_names();
    let name = |number: usize| names.get(number).cloned().unwrap_or_else(|| "an unnamed event".to_owned());
    let section = |number| file.section(number).map(<[u8]>::to_vec);
    let mut recording = Recording {
        events: (0..file.attributes.len()).map(name).collect(),
        command: file.texts(file::COMMAND),
        host: file.text(file::HOST),
        kernel_release: file.text(file::KERNEL),
        numa_topology: section(file::NODES),
        memory_topology: section(file::MEMORY),
        ..Recording::default()
    };
    file.records(|record, event| recording.add(record, event))?;
    recording.samples.sort_by_key(|sample| sample.time);
    recording.mappings.sort_by_key(|mapping| mapping.time);
    recording.names.sort();
    recording.forks.sort_unstable();
    Ok(recording)
}

/// How records of an event are laid out.
fn layout(event: &Attribute) -> ParseConfig<Little> {
    let mut layout = perf_event_attr::default();
    layout.sample_type = event.sample_type;
    layout.read_format = event.read_format;
    layout.branch_sample_type = event.branch_sample_type;
    layout.sample_regs_user = event.sample_regs_user;
    layout.sample_regs_intr = event.sample_regs_intr;
    layout.set_sample_id_all(u64::from(event.tells_all()));
    layout.into()
}

/// Whether an event is one of page faults.
fn is_fault(event: &Attribute) -> bool {
    let faults =
        [sys::PERF_COUNT_SW_PAGE_FAULTS, sys::PERF_COUNT_SW_PAGE_FAULTS_MIN, sys::PERF_COUNT_SW_PAGE_FAULTS_MAJ];
    event.kind == sys::PERF_TYPE_SOFTWARE && faults.iter().any(|fault| u64::from(*fault) == event.config)
}

/// Bits of a record's `misc` that tell the mode of the CPU; 2 is the user's.
const MODE: u16 = 7;
const USER: u16 = 2;
/// `PERF_RECORD_MISC_MMAP_DATA`.
const DATA: u16 = 1 << 13;

impl Recording {
    fn add(&mut self, record: &[u8], event: &Attribute) {
        let decode = Decode { recording: self, is_fault: is_fault(event) };
        if Parser::new(record, layout(event)).parse_record(decode).is_err() {
            self.unreadable += 1;
        }
    }
}

struct Decode<'r> {
    recording: &'r mut Recording,
    is_fault: bool,
}

impl Decode<'_> {
    fn map(
        self,
        metadata: &RecordMetadata,
        pid: u32,
        (start, length, offset): (u64, u64, u64),
        executable: bool,
        path: &[u8],
    ) {
        if metadata.misc() & MODE == USER && length > 0 {
            let (time, path) = (time(metadata), String::from_utf8_lossy(path).into_owned());
            let end = start.saturating_add(length);
            self.recording.mappings.push(Mapped { time, pid, start, end, offset, executable, path });
        }
    }
}

fn time(metadata: &RecordMetadata) -> u64 {
    metadata.sample_id().time().unwrap_or(0)
}

impl<'a> Visitor<'a> for Decode<'_> {
    type Output = ();

    fn visit_unimplemented(self, _: RecordMetadata) {}

    fn visit_mmap(self, map: Mmap<'a>, metadata: RecordMetadata) {
        // Executable, but for the bit that says that it is data.
        self.map(&metadata, map.pid, (map.addr, map.len, map.pgoff), metadata.misc() & DATA == 0, &map.filename);
    }

    fn visit_mmap2(self, map: Mmap2<'a>, metadata: RecordMetadata) {
        self.map(&metadata, map.pid, (map.addr, map.len, map.pgoff), map.prot & 4 != 0, &map.filename);
    }

    fn visit_comm(self, named: Comm<'a>, metadata: RecordMetadata) {
        let name = String::from_utf8_lossy(&named.comm).into_owned();
        self.recording.names.push((time(&metadata), named.pid, named.tid, name));
    }

    fn visit_fork(self, task: Fork, metadata: RecordMetadata) {
        self.recording.forks.push((time(&metadata), task.pid, task.ppid, task.tid));
    }

    fn visit_lost(self, lost: Lost, _: RecordMetadata) {
        self.recording.lost = self.recording.lost.saturating_add(lost.lost);
    }

    fn visit_sample(self, found: Sample<'a>, _: RecordMetadata) {
        match sample(&found, self.is_fault) {
            Some(sample) if sample.ip >= KERNEL => self.recording.kernel += 1,
            Some(sample) if sample.address == 0 => self.recording.without_address += 1,
            Some(sample) => self.recording.samples.push(sample),
            None => self.recording.unreadable += 1,
        }
    }
}

/// Addresses from here on are the kernel's, or marks of a change of context in a call chain.
const KERNEL: u64 = 1 << 63;

/// None: it does not say who accessed from where.
fn sample(sample: &Sample<'_>, is_fault: bool) -> Option<Sampled> {
    let ip = sample.ip()?;
    let chain = sample.callchain().unwrap_or_default().iter().copied().filter(|at| *at > 0 && *at < KERNEL);
    let source = sample.data_src();
    Some(Sampled {
        time: sample.time().unwrap_or(0),
        pid: sample.pid()?,
        tid: sample.tid()?,
        cpu: sample.cpu().unwrap_or(u32::MAX),
        ip,
        callers: chain.skip_while(|at| *at == ip).collect(),
        address: sample.addr().unwrap_or(0),
        physical: sample.phys_addr().filter(|address| *address > 0),
        period: sample.period().unwrap_or(1).max(1),
        access: source.and_then(|source| access(source.mem_op())),
        source: source.map(|source| answered(source.mem_lvl(), source.mem_lvl_num(), source.mem_remote())),
        latency: sample.weight().and_then(|weight| u32::try_from(weight).ok()).filter(|weight| *weight > 0),
        is_fault,
    })
}

fn access(operation: MemOp) -> Option<Access> {
    match (operation.contains(MemOp::LOAD), operation.contains(MemOp::STORE)) {
        (true, true) => Some(Access::ReadWrite),
        (true, false) => Some(Access::Read),
        (false, true) => Some(Access::Write),
        (false, false) => None,
    }
}

/// Who answered: by the older set of levels where it names one, else by the newer number.
fn answered(level: MemLevel, number: MemLevelNum, remote: bool) -> Source {
    let hit = level.contains(MemLevel::HIT);
    let is = |bits: MemLevel| hit && level.intersects(bits);
    if is(MemLevel::REM_RAM1 | MemLevel::REM_RAM2) {
        return Source::RemoteMemory;
    }
    if is(MemLevel::REM_CCE2) {
        return Source::RemoteCache;
    }
    if is(MemLevel::LOC_RAM) {
        return Source::LocalMemory;
    }
    let by_level = [
        (MemLevel::L3 | MemLevel::REM_CCE1, Source::L3),
        (MemLevel::L2, Source::L2),
        (MemLevel::LFB, Source::FillBuffer),
        (MemLevel::L1, Source::L1),
        (MemLevel::IO | MemLevel::UNC, Source::Io),
    ];
    if let Some((_, source)) = by_level.into_iter().find(|(bits, _)| is(*bits)) {
        return source;
    }
    match (number, remote) {
        (MemLevelNum::L1, false) => Source::L1,
        (MemLevelNum::L2, false) => Source::L2,
        (MemLevelNum::L3, false) => Source::L3,
        (MemLevelNum::LFB, false) => Source::FillBuffer,
        (MemLevelNum::RAM | MemLevelNum::PMEM, false) => Source::LocalMemory,
        (MemLevelNum::RAM | MemLevelNum::PMEM, true) => Source::RemoteMemory,
        (MemLevelNum::L3 | MemLevelNum::ANY_CACHE, true) => Source::RemoteCache,
        _ => Source::Unknown,
    }
}
