//! What the machine's PMUs offer for sampling memory accesses, read from `/sys/bus/event_source/devices`.
//!
//! A PMU directory names itself by a number (`type`), its events by strings (`events/mem-loads`:
//! `event=0xcd,umask=0x1,ldlat=3`) and says in `format/` which bits of which word each of those parameters is (`ldlat`:
//! `config1:0-15`). Nothing about processor models is known here: what the kernel exposes is what is used.

use numalens_profile::words::Access;
use perf_event_open_sys::bindings as sys;
use std::fs;
use std::path::{Path, PathBuf};

/// Whose mechanism it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vendor {
    /// Precise event-based sampling: one event for loads, one for stores.
    Intel,
    /// Instruction-based sampling: one event for all operations, of which those that touch memory are kept.
    Amd,
}

/// What an event samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampled {
    /// Loads.
    Loads,
    /// Stores.
    Stores,
    /// All operations; the record says which are loads and stores.
    Operations,
}

impl Sampled {
    /// What a sample of this event did, where the event alone tells.
    pub fn access(self) -> Option<Access> {
        match self {
            Sampled::Loads => Some(Access::Read),
            Sampled::Stores => Some(Access::Write),
            Sampled::Operations => None,
        }
    }
}

/// One event, as the pieces of a `perf_event_attr`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HardwareEvent {
    /// The PMU and the event, as `perf` writes them: `cpu/mem-loads/`.
    pub name: String,
    /// What it samples.
    pub sampled: Sampled,
    /// `perf_event_attr.type`
    pub type_: u32,
    /// `perf_event_attr.config`, `config1`, `config2`
    pub config: [u64; 3],
    /// `precise_ip`
    pub precise: u8,
    /// `exclude_kernel`: false where the PMU cannot filter; samples of the kernel must be dropped by their address
    /// then, and opening needs `kernel.perf_event_paranoid` of at most 1 or CAP_PERFMON.
    pub exclude_kernel: bool,
    /// `sample_type` bits to add to the usual ones.
    pub sample_type: u64,
    /// More bits, which only CAP_PERFMON or `kernel.perf_event_paranoid` of at most 1 allows.
    pub sample_type_privileged: u64,
    /// The config words of an event that must be opened first as the leader of this one's group, on the same PMU:
    /// without it the kernel refuses this event on Sapphire Rapids and later (`mem-loads-aux`). The leader does not
    /// sample.
    pub leader: Option<[u64; 3]>,
    /// The CPUs that the PMU covers; `None` for all. Hybrid processors have a PMU for each kind of core.
    pub cpus: Option<Vec<u32>>,
}

/// The events to open for sampling memory accesses: all of them, each on its CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HardwareEvents {
    /// Whose mechanism it is.
    pub vendor: Vendor,
    /// At least one.
    pub events: Vec<HardwareEvent>,
}

/// Why there is no memory sampling by hardware.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Absent {
    /// The usual case in virtual machines.
    #[error("the processor's performance monitoring unit is not visible: usual in virtual machines and containers")]
    NoPmu,
    /// There are hardware counters, but no memory sampling.
    #[error(
        "PMU `{pmu}` has neither `events/mem-loads` nor is it IBS: this processor, or its hypervisor, does not offer memory sampling"
    )]
    NoMemoryEvents {
        /// The PMU that was found.
        pmu: String,
    },
    /// An event is described in a way that is not understood.
    #[error("{path} is not understood: {text:?}")]
    NotUnderstood {
        /// The file.
        path: PathBuf,
        /// What it holds.
        text: String,
    },
}

/// Finds what this machine offers; `sysfs` is `/sys`, or a copy for tests. Nothing is opened: the kernel may still
/// refuse.
pub fn detect(sysfs: &Path) -> Option<HardwareEvents> {
    find(sysfs).ok()
}

/// Why [`detect`] finds nothing; `None` when it does.
pub fn why_absent(sysfs: &Path) -> Option<Absent> {
    find(sysfs).err()
}

fn find(sysfs: &Path) -> Result<HardwareEvents, Absent> {
    let devices = sysfs.join("bus/event_source/devices");
    let ibs = devices.join("ibs_op");
    if ibs.is_dir() {
        return Ok(HardwareEvents { vendor: Vendor::Amd, events: vec![ibs_event(&ibs)?] });
    }
    let mut cores: Vec<PathBuf> =
        fs::read_dir(&devices).map(|entries| entries.flatten().map(|entry| entry.path()).collect()).unwrap_or_default();
    cores.retain(|path| {
        path.file_name().is_some_and(|name| name == "cpu" || name.to_string_lossy().starts_with("cpu_"))
    });
    cores.sort();
    let mut events = Vec::new();
    for pmu in &cores {
        for (name, sampled) in [("mem-loads", Sampled::Loads), ("mem-stores", Sampled::Stores)] {
            events.extend(pebs_event(pmu, name, sampled)?);
        }
    }
    match (events.is_empty(), cores.first()) {
        (false, _) => Ok(HardwareEvents { vendor: Vendor::Intel, events }),
        (true, None) => Err(Absent::NoPmu),
        (true, Some(pmu)) => Err(Absent::NoMemoryEvents { pmu: base_name(pmu) }),
    }
}

const COMMON: u64 = (sys::PERF_SAMPLE_ADDR | sys::PERF_SAMPLE_DATA_SRC | sys::PERF_SAMPLE_WEIGHT) as u64;
const PRIVILEGED: u64 = sys::PERF_SAMPLE_PHYS_ADDR as u64;

fn pebs_event(pmu: &Path, name: &str, sampled: Sampled) -> Result<Option<HardwareEvent>, Absent> {
    let Some(config) = event_config(pmu, name)? else { return Ok(None) };
    let leader = if sampled == Sampled::Loads { event_config(pmu, "mem-loads-aux")? } else { None };
    let precise = read(&pmu.join("caps/max_precise")).and_then(|text| text.parse().ok()).unwrap_or(2);
    Ok(Some(HardwareEvent {
        name: format!("{}/{name}/", base_name(pmu)),
        sampled,
        type_: pmu_type(pmu)?,
        config,
        precise: std::cmp::min(precise, 3),
        exclude_kernel: true,
        sample_type: COMMON,
        sample_type_privileged: PRIVILEGED,
        leader,
        cpus: cpus(pmu)?,
    }))
}

/// IBS counts operations rather than cycles where it can (`cnt_ctl`): samples per operation are what estimates
/// accesses.
fn ibs_event(pmu: &Path) -> Result<HardwareEvent, Absent> {
    let mut config = [0; 3];
    let mut set = |parameter: &str| -> Result<bool, Absent> {
        let Some(bits) = format(pmu, parameter)? else { return Ok(false) };
        bits.put(&mut config, 1);
        Ok(true)
    };
    set("cnt_ctl")?;
    // Older kernels cannot drop samples of the kernel itself.
    let filters = set("swfilt")?;
    Ok(HardwareEvent {
        name: "ibs_op//".into(),
        sampled: Sampled::Operations,
        type_: pmu_type(pmu)?,
        config,
        precise: 0,
        exclude_kernel: filters,
        sample_type: COMMON | u64::from(sys::PERF_SAMPLE_RAW),
        sample_type_privileged: PRIVILEGED,
        leader: None,
        cpus: cpus(pmu)?,
    })
}

/// The config words of a named event; `None` when the PMU has no such event.
fn event_config(pmu: &Path, name: &str) -> Result<Option<[u64; 3]>, Absent> {
    let path = pmu.join("events").join(name);
    let Some(text) = read(&path) else { return Ok(None) };
    let mut config = [0; 3];
    for term in text.split(',') {
        let (parameter, value) = term.split_once('=').unwrap_or((term, "1"));
        let understood = number(value).zip(format(pmu, parameter.trim())?);
        let Some((value, bits)) = understood else {
            return Err(Absent::NotUnderstood { path, text });
        };
        bits.put(&mut config, value);
    }
    Ok(Some(config))
}

/// The bits of a parameter, lowest first: `config1:0-15`, or in parts `config:0-7,32-35`.
struct Bits {
    word: usize,
    ranges: Vec<(u32, u32)>,
}

impl Bits {
    fn put(&self, config: &mut [u64; 3], mut value: u64) {
        for &(low, high) in &self.ranges {
            let width = high - low + 1;
            let mask = u64::MAX >> (64 - width);
            config[self.word] |= (value & mask) << low;
            value = value.checked_shr(width).unwrap_or(0);
        }
    }
}

/// What `format/` says of a parameter; `None` when the PMU does not know it.
fn format(pmu: &Path, parameter: &str) -> Result<Option<Bits>, Absent> {
    let path = pmu.join("format").join(parameter);
    let Some(text) = read(&path) else { return Ok(None) };
    match parse_format(&text) {
        Some(bits) => Ok(Some(bits)),
        None => Err(Absent::NotUnderstood { path, text }),
    }
}

fn parse_format(text: &str) -> Option<Bits> {
    let (word, ranges) = text.split_once(':')?;
    let word = ["config", "config1", "config2"].iter().position(|name| *name == word)?;
    let ranges = ranges
        .split(',')
        .map(|range| {
            let (low, high) = range.split_once('-').unwrap_or((range, range));
            let (low, high) = (low.parse().ok()?, high.parse().ok()?);
            (low <= high && high < 64).then_some((low, high))
        })
        .collect::<Option<Vec<_>>>()?;
    Some(Bits { word, ranges })
}

fn number(text: &str) -> Option<u64> {
    match text.trim().strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.trim().parse().ok(),
    }
}

fn pmu_type(pmu: &Path) -> Result<u32, Absent> {
    let path = pmu.join("type");
    let text = read(&path).unwrap_or_default();
    text.parse().map_err(|_| Absent::NotUnderstood { path, text })
}

/// `cpus` of a hybrid PMU; others have none, and their `cpumask` only names where to count system-wide.
fn cpus(pmu: &Path) -> Result<Option<Vec<u32>>, Absent> {
    let path = pmu.join("cpus");
    let Some(text) = read(&path) else { return Ok(None) };
    let list = text.split(',').map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?)
    });
    match list.collect::<Option<Vec<_>>>() {
        Some(ranges) => Ok(Some(ranges.into_iter().flatten().collect())),
        None => Err(Absent::NotUnderstood { path, text }),
    }
}

fn read(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

fn base_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests;
