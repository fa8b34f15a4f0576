//! IBS operation records of AMD processors: what `PERF_SAMPLE_RAW` of an `ibs_op` event holds.
//!
//! ```text
//! u32 capabilities | u64 IBS_OP_CTL | RIP | DATA | DATA2 | DATA3 | linear address | physical address | more
//! ```
//!
//! Newer kernels also translate this into `PERF_SAMPLE_DATA_SRC`; the record serves kernels that do not (before 6.1),
//! and processors about which it says more.

use super::{MemoryAccess, Snoop, Tlb, TlbLevel, Weight};
use numalens_profile::words::{Access, Source};

/// The finer encoding of data sources, from Zen 4 on: bit 11 of the capabilities.
const EXTENDED_SOURCES: u32 = 1 << 11;

/// A decoded IBS operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The sampled instruction; `None` when the hardware marks it invalid.
    pub ip: Option<u64>,
    /// What it did to memory, if anything.
    pub memory: MemoryAccess,
    /// Cycles from tagging to retirement, as the instruction's part of a weight.
    pub weight: Weight,
}

/// Why a record could not be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an IBS operation record of {length} bytes; at least {MINIMUM} are needed")]
pub struct TooShort {
    /// Bytes in the record.
    pub length: usize,
}

const REGISTERS: usize = 7;
const MINIMUM: usize = 4 + 8 * REGISTERS;

/// Whether a processor leaves the data source of prefetches and merged misses invalid (erratum 1293, early Zen 3).
pub fn has_erratum_1293(family: u32, model: u32) -> bool {
    family == 0x19 && model <= 0xf
}

/// Decodes the payload of `PERF_SAMPLE_RAW`, without the size that stands before it in the record.
///
/// # Errors
/// [`TooShort`] when registers are missing.
pub fn decode(raw: &[u8], erratum_1293: bool) -> Result<Operation, TooShort> {
    let too_short = TooShort { length: raw.len() };
    let (capabilities, rest) = raw.split_first_chunk::<4>().ok_or(too_short)?;
    let capabilities = u32::from_ne_bytes(*capabilities);
    let mut registers = [0u64; REGISTERS];
    let (words, _) = rest.as_chunks::<8>();
    if words.len() < REGISTERS {
        return Err(too_short);
    }
    for (register, word) in registers.iter_mut().zip(words) {
        *register = u64::from_ne_bytes(*word);
    }
    let [_, rip, data, data2, data3, linear, physical] = registers;
    let data3 = Data3(data3);

    let access = match (data3.bit(0), data3.bit(1)) {
        (true, true) => Some(Access::ReadWrite),
        (true, false) => Some(Access::Read),
        (false, true) => Some(Access::Write),
        (false, false) => None,
    };
    let load = data3.bit(0);
    // Processors that cannot tell leave this bit zero.
    let ip = (data >> 38 & 1 == 0).then_some(rip);
    let invalid = erratum_1293 && (data3.bit(21) || data3.bit(16));
    let data2 = if invalid { 0 } else { data2 };
    let (source, snoop) =
        if access.is_none() { (Source::Unknown, None) } else { answered(capabilities, data2, data3, load, invalid) };
    let latency = (load && data3.bit(7)).then(|| data3.field(32, 16)).filter(|&cycles| cycles != 0);
    let retired = (data >> 16) as u16;
    Ok(Operation {
        ip,
        memory: MemoryAccess {
            access: if data3.bit(21) { None } else { access },
            source,
            tlb: access.and_then(|_| data3.tlb()),
            snoop,
            locked: data3.bit(15),
            latency_cycles: latency,
            address: (access.is_some() && data3.bit(17)).then_some(linear),
            physical_address: (access.is_some() && data3.bit(18)).then_some(physical),
        },
        weight: Weight { access: latency, instruction: (retired != 0).then_some(retired) },
    })
}

/// The register IBS_OP_DATA3. Bits: 0 load, 1 store, 2 L1 TLB miss, 3 L2 TLB miss, 7 L1 cache miss, 14 uncached, 15
/// locked, 16 miss merged with one under way, 17 linear address valid, 18 physical address valid, 20 L2 cache miss, 21
/// software prefetch, 32..48 latency of the miss.
#[derive(Clone, Copy)]
struct Data3(u64);

impl Data3 {
    fn bit(self, number: u32) -> bool {
        self.0 >> number & 1 == 1
    }

    fn field(self, shift: u32, width: u32) -> u32 {
        (self.0 >> shift) as u32 & ((1 << width) - 1)
    }

    fn tlb(self) -> Option<Tlb> {
        if !self.bit(17) {
            return None;
        }
        Some(match (self.bit(2), self.bit(3)) {
            (false, _) => Tlb { level: TlbLevel::First, hit: true },
            (true, false) => Tlb { level: TlbLevel::Second, hit: true },
            (true, true) => Tlb { level: TlbLevel::Second, hit: false },
        })
    }
}

/// Who answered, and whether the line came modified out of another cache.
fn answered(capabilities: u32, data2: u64, data3: Data3, load: bool, invalid: bool) -> (Source, Option<Snoop>) {
    let extended = capabilities & EXTENDED_SOURCES != 0;
    // DATA2: 0..3 data source, 4 remote node, 5 the line was shared when it came from a cache, 6..8 upper bits of the
    // source.
    let low = data2 & 7;
    let code = if extended { (data2 >> 6 & 3) << 3 | low } else { low };
    let remote = data2 >> 4 & 1 == 1;
    if data3.bit(14) {
        return (Source::Io, None);
    }
    if !data3.bit(7) {
        return (Source::L1, None);
    }
    if !data3.bit(20) && !invalid {
        return (Source::L2, None);
    }
    // For stores the source is not recorded.
    let source = if load { data_source(extended, code, remote) } else { None };
    let from_cache = matches!(source, Some(Source::L3 | Source::RemoteCache));
    let snoop = (from_cache && data2 >> 5 & 1 == 0).then_some(Snoop::HitModified);
    match source {
        Some(source) => (source, snoop),
        None if data3.bit(16) => (Source::FillBuffer, None),
        None => (Source::Unknown, None),
    }
}

fn data_source(extended: bool, code: u64, remote: bool) -> Option<Source> {
    let memory = if remote { Source::RemoteMemory } else { Source::LocalMemory };
    match (extended, code) {
        // Zen 4: 1 this core complex, 2 another one of the node, 3 DRAM, 5 a cache of another node, 6 persistent
        // memory, 8 CXL.
        (true, 1 | 2) => Some(Source::L3),
        (true, 3 | 6 | 8) => Some(memory),
        (true, 5) => Some(Source::RemoteCache),
        // Before: 2 a cache of this node, 3 DRAM, 4 a cache of another node.
        (false, 2) => Some(Source::L3),
        (false, 3) => Some(memory),
        (false, 4) => Some(Source::RemoteCache),
        (_, 7) => Some(Source::Io),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOAD: u64 = 1;
    const STORE: u64 = 1 << 1;
    const L1_MISS: u64 = 1 << 7;
    const L2_MISS: u64 = 1 << 20;
    const LINEAR: u64 = 1 << 17;
    const PHYSICAL: u64 = 1 << 18;
    const MERGED: u64 = 1 << 16;
    const PREFETCH: u64 = 1 << 21;

    fn record(capabilities: u32, data: u64, data2: u64, data3: u64) -> Vec<u8> {
        let mut raw = capabilities.to_ne_bytes().to_vec();
        for word in [0, 0x40_1000, data, data2, data3, 0x7f00_1234, 0x1_2345_6234] {
            raw.extend(u64::to_ne_bytes(word));
        }
        raw
    }

    fn memory(capabilities: u32, data2: u64, data3: u64) -> MemoryAccess {
        decode(&record(capabilities, 0, data2, data3), false).expect("long enough").memory
    }

    #[test]
    fn a_load_from_remote_memory() {
        let data3 = LOAD | L1_MISS | L2_MISS | LINEAR | PHYSICAL | 1 << 2 | 420 << 32;
        let decoded = decode(&record(0, 77 << 16 | 5, 3 | 1 << 4, data3), false).expect("long enough");
        assert_eq!(decoded.ip, Some(0x40_1000));
        assert_eq!(decoded.weight, Weight { access: Some(420), instruction: Some(77) });
        assert_eq!(
            decoded.memory,
            MemoryAccess {
                access: Some(Access::Read),
                source: Source::RemoteMemory,
                tlb: Some(Tlb { level: TlbLevel::Second, hit: true }),
                snoop: None,
                locked: false,
                latency_cycles: Some(420),
                address: Some(0x7f00_1234),
                physical_address: Some(0x1_2345_6234),
            }
        );
    }

    #[test]
    fn levels() {
        assert_eq!(memory(0, 0, LOAD).source, Source::L1);
        assert_eq!(memory(0, 0, LOAD | L1_MISS).source, Source::L2);
        let deep = LOAD | L1_MISS | L2_MISS;
        assert_eq!(memory(0, 2 | 1 << 5, deep).source, Source::L3);
        assert_eq!(memory(0, 3, deep).source, Source::LocalMemory);
        assert_eq!(memory(0, 4, deep).source, Source::RemoteCache);
        assert_eq!(memory(0, 7, deep).source, Source::Io);
        assert_eq!(memory(0, 0, deep).source, Source::Unknown);
        assert_eq!(memory(0, 0, deep | MERGED).source, Source::FillBuffer);
        assert_eq!(memory(0, 3, deep | 1 << 14).source, Source::Io);
    }

    #[test]
    fn extended_levels() {
        let deep = LOAD | L1_MISS | L2_MISS;
        let source = |data2| memory(EXTENDED_SOURCES, data2, deep).source;
        assert_eq!(source(1), Source::L3);
        assert_eq!(source(2), Source::L3);
        assert_eq!(source(3), Source::LocalMemory);
        assert_eq!(source(3 | 1 << 4), Source::RemoteMemory);
        assert_eq!(source(5), Source::RemoteCache);
        // 8 has its bit in the upper field.
        assert_eq!(source(1 << 6), Source::LocalMemory);
        assert_eq!(source(1 << 6 | 1 << 4), Source::RemoteMemory);
    }

    #[test]
    fn a_modified_line_of_another_cache() {
        let deep = LOAD | L1_MISS | L2_MISS;
        assert_eq!(memory(0, 4, deep).snoop, Some(Snoop::HitModified));
        assert_eq!(memory(0, 4 | 1 << 5, deep).snoop, None);
        assert_eq!(memory(0, 3, deep).snoop, None);
    }

    #[test]
    fn stores_have_no_source_beyond_the_second_level() {
        let store = memory(0, 3, STORE | L1_MISS | L2_MISS | LINEAR | 300 << 32);
        assert_eq!((store.access, store.source, store.latency_cycles), (Some(Access::Write), Source::Unknown, None));
        assert_eq!(store.address, Some(0x7f00_1234));
        assert_eq!(store.physical_address, None);
        assert_eq!(memory(0, 0, LOAD | STORE).access, Some(Access::ReadWrite));
    }

    #[test]
    fn operations_without_memory() {
        let other = memory(0, 3, LINEAR);
        assert_eq!((other.access, other.source, other.address, other.tlb), (None, Source::Unknown, None, None));
        assert_eq!(memory(0, 3, LOAD | PREFETCH | L1_MISS | L2_MISS).access, None);
    }

    #[test]
    fn erratum() {
        assert!(has_erratum_1293(0x19, 1));
        assert!(!has_erratum_1293(0x19, 0x11));
        let raw = record(0, 0, 4, LOAD | L1_MISS | MERGED);
        assert_eq!(decode(&raw, true).expect("long enough").memory.source, Source::FillBuffer);
        assert_eq!(decode(&raw, false).expect("long enough").memory.source, Source::L2);
    }

    #[test]
    fn an_invalid_instruction_pointer() {
        assert_eq!(decode(&record(0, 1 << 38, 0, LOAD), false).expect("long enough").ip, None);
    }

    #[test]
    fn short_records() {
        let raw = record(0, 0, 0, LOAD);
        for length in 0..MINIMUM {
            assert_eq!(decode(&raw[..length], false), Err(TooShort { length }));
        }
    }
}
