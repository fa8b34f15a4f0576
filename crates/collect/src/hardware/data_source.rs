//! `PERF_SAMPLE_DATA_SRC` and `PERF_SAMPLE_WEIGHT`: where an access was answered and how long it took.
//!
//! The word has two generations of the same information: `mem_lvl`, a set of bits of which HIT says that the others
//! name the level, and the newer `mem_lvl_num` with `mem_remote` and `mem_hops`. Kernels fill both, one or neither.

use super::MemoryAccess;
use numalens_profile::words::{Access, Source};
use perf_event_open_sys::bindings as sys;

/// The word of `PERF_SAMPLE_DATA_SRC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataSource(pub u64);

/// How the address of an access was translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tlb {
    /// The deepest level that was asked.
    pub level: TlbLevel,
    /// That level knew the page.
    pub hit: bool,
}

/// Where translations are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlbLevel {
    /// The first, small one.
    First,
    /// The second.
    Second,
    /// First or second: the hardware does not tell.
    Any,
    /// The page tables, by the hardware walker.
    Walker,
    /// The operating system's fault handler.
    Fault,
}

/// What the other caches said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Snoop {
    /// They were not asked.
    None,
    /// They had nothing.
    Miss,
    /// One had the line.
    Hit,
    /// One had the line, modified: it moved from cache to cache.
    HitModified,
}

/// `PERF_SAMPLE_WEIGHT` or `PERF_SAMPLE_WEIGHT_STRUCT`, in core cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weight {
    /// Until the data arrived; on Intel since issue, on AMD since the miss of the first-level cache. `None` when not
    /// measured.
    pub access: Option<u32>,
    /// Of the whole instruction until it retired; only in the structured form.
    pub instruction: Option<u16>,
}

impl Weight {
    /// The word of `PERF_SAMPLE_WEIGHT`: one number. Zero means that nothing was measured.
    pub fn of_word(word: u64) -> Self {
        let access = u32::try_from(word).unwrap_or(u32::MAX);
        Weight { access: (access != 0).then_some(access), instruction: None }
    }

    /// The word of `PERF_SAMPLE_WEIGHT_STRUCT`: 32 bits for the access, 16 for the instruction, 16 that depend on the
    /// model.
    pub fn of_struct(word: u64) -> Self {
        let (access, instruction) = (word as u32, (word >> 32) as u16);
        Weight { access: (access != 0).then_some(access), instruction: (instruction != 0).then_some(instruction) }
    }
}

impl DataSource {
    fn field(self, shift: u32, width: u32) -> u32 {
        (self.0 >> shift) as u32 & ((1 << width) - 1)
    }

    /// What the access did. A store that also loaded (an atomic) has both bits.
    pub fn access(self) -> Option<Access> {
        let operation = self.field(sys::PERF_MEM_OP_SHIFT, 5);
        let has = |bit| operation & bit != 0;
        match (has(sys::PERF_MEM_OP_LOAD), has(sys::PERF_MEM_OP_STORE)) {
            (true, true) => Some(Access::ReadWrite),
            (true, false) => Some(Access::Read),
            (false, true) => Some(Access::Write),
            (false, false) => None,
        }
    }

    /// Who answered. What another core of the same node held counts as the shared cache, not as remote.
    pub fn source(self) -> Source {
        self.source_of_level().or_else(|| self.source_of_number()).unwrap_or(Source::Unknown)
    }

    fn is_remote(self) -> bool {
        self.field(sys::PERF_MEM_REMOTE_SHIFT, 1) == sys::PERF_MEM_REMOTE_REMOTE
    }

    /// On another node: `PERF_MEM_HOPS_0` is another core of the same node, and not every kernel counts hops.
    fn is_on_other_node(self) -> bool {
        self.is_remote() && self.field(sys::PERF_MEM_HOPS_SHIFT, 3) != sys::PERF_MEM_HOPS_0
    }

    fn source_of_level(self) -> Option<Source> {
        let level = self.field(sys::PERF_MEM_LVL_SHIFT, 14);
        let has = |bits: u32| level & bits != 0;
        // Without HIT the level is the one that missed (a store that left the first-level cache): who answered is not
        // known.
        if !has(sys::PERF_MEM_LVL_HIT) {
            return None;
        }
        let other_node = self.is_on_other_node();
        let cache = if other_node { Source::RemoteCache } else { Source::L3 };
        Some(if has(sys::PERF_MEM_LVL_REM_RAM1 | sys::PERF_MEM_LVL_REM_RAM2) {
            Source::RemoteMemory
        } else if has(sys::PERF_MEM_LVL_REM_CCE2) {
            Source::RemoteCache
        } else if has(sys::PERF_MEM_LVL_L3) {
            cache
        } else if has(sys::PERF_MEM_LVL_REM_CCE1) {
            // Intel: a cache one hop away. AMD says REMOTE with HOPS_0 for another cache of the same node.
            if self.is_remote() { cache } else { Source::RemoteCache }
        } else if has(sys::PERF_MEM_LVL_LOC_RAM) {
            if other_node { Source::RemoteMemory } else { Source::LocalMemory }
        } else if has(sys::PERF_MEM_LVL_L2) {
            Source::L2
        } else if has(sys::PERF_MEM_LVL_LFB) {
            Source::FillBuffer
        } else if has(sys::PERF_MEM_LVL_L1) {
            Source::L1
        } else if has(sys::PERF_MEM_LVL_IO | sys::PERF_MEM_LVL_UNC) {
            Source::Io
        } else {
            return None;
        })
    }

    fn source_of_number(self) -> Option<Source> {
        // A miss of a numbered level says as little as a miss of the other kind.
        if self.field(sys::PERF_MEM_LVL_SHIFT, 14) & sys::PERF_MEM_LVL_MISS != 0 {
            return None;
        }
        let other_node = self.is_on_other_node();
        Some(match self.field(sys::PERF_MEM_LVLNUM_SHIFT, 4) {
            sys::PERF_MEM_LVLNUM_L1 => Source::L1,
            sys::PERF_MEM_LVLNUM_L2 => Source::L2,
            sys::PERF_MEM_LVLNUM_LFB => Source::FillBuffer,
            sys::PERF_MEM_LVLNUM_L3 | sys::PERF_MEM_LVLNUM_L4 | sys::PERF_MEM_LVLNUM_ANY_CACHE if other_node => {
                Source::RemoteCache
            }
            sys::PERF_MEM_LVLNUM_L3 | sys::PERF_MEM_LVLNUM_L4 => Source::L3,
            sys::PERF_MEM_LVLNUM_ANY_CACHE if self.is_remote() => Source::L3,
            sys::PERF_MEM_LVLNUM_RAM | sys::PERF_MEM_LVLNUM_PMEM | sys::PERF_MEM_LVLNUM_CXL => {
                if other_node {
                    Source::RemoteMemory
                } else {
                    Source::LocalMemory
                }
            }
            sys::PERF_MEM_LVLNUM_IO | sys::PERF_MEM_LVLNUM_UNC => Source::Io,
            _ => return None,
        })
    }

    /// How the address was translated.
    pub fn tlb(self) -> Option<Tlb> {
        let bits = self.field(sys::PERF_MEM_TLB_SHIFT, 7);
        let has = |bit| bits & bit != 0;
        let hit = has(sys::PERF_MEM_TLB_HIT);
        if !hit && !has(sys::PERF_MEM_TLB_MISS) {
            return None;
        }
        let level = if has(sys::PERF_MEM_TLB_OS) {
            TlbLevel::Fault
        } else if has(sys::PERF_MEM_TLB_WK) && !(has(sys::PERF_MEM_TLB_L1) || has(sys::PERF_MEM_TLB_L2)) {
            TlbLevel::Walker
        } else {
            match (has(sys::PERF_MEM_TLB_L1), has(sys::PERF_MEM_TLB_L2)) {
                (true, false) => TlbLevel::First,
                (false, true) => TlbLevel::Second,
                _ => TlbLevel::Any,
            }
        };
        Some(Tlb { level, hit })
    }

    /// What the other caches said.
    pub fn snoop(self) -> Option<Snoop> {
        let bits = self.field(sys::PERF_MEM_SNOOP_SHIFT, 5);
        let forwarded = self.field(sys::PERF_MEM_SNOOPX_SHIFT, 2) != 0;
        if bits & sys::PERF_MEM_SNOOP_HITM != 0 {
            Some(Snoop::HitModified)
        } else if bits & sys::PERF_MEM_SNOOP_HIT != 0 || forwarded {
            Some(Snoop::Hit)
        } else if bits & sys::PERF_MEM_SNOOP_MISS != 0 {
            Some(Snoop::Miss)
        } else if bits & sys::PERF_MEM_SNOOP_NONE != 0 {
            Some(Snoop::None)
        } else {
            None
        }
    }

    /// An atomic instruction.
    pub fn locked(self) -> bool {
        self.field(sys::PERF_MEM_LOCK_SHIFT, 2) & sys::PERF_MEM_LOCK_LOCKED != 0
    }

    /// Everything that the word says; the addresses and the latency come in fields of their own.
    pub fn decode(self) -> MemoryAccess {
        MemoryAccess {
            access: self.access(),
            source: self.source(),
            tlb: self.tlb(),
            snoop: self.snoop(),
            locked: self.locked(),
            latency_cycles: None,
            address: None,
            physical_address: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sys::*;

    const LOAD: u64 = PERF_MEM_OP_LOAD as u64;

    fn level(bits: u32) -> u64 {
        u64::from(bits) << PERF_MEM_LVL_SHIFT
    }

    fn number(number: u32) -> u64 {
        u64::from(number) << PERF_MEM_LVLNUM_SHIFT
    }

    const REMOTE: u64 = 1 << PERF_MEM_REMOTE_SHIFT;

    fn hops(number: u32) -> u64 {
        u64::from(number) << PERF_MEM_HOPS_SHIFT
    }

    #[track_caller]
    fn check(word: u64, expected: Source) {
        assert_eq!(DataSource(word).source(), expected, "{word:#x}");
    }

    #[test]
    fn sources_of_intel() {
        let hit = PERF_MEM_LVL_HIT;
        check(LOAD | level(hit | PERF_MEM_LVL_L1) | number(PERF_MEM_LVLNUM_L1), Source::L1);
        check(LOAD | level(hit | PERF_MEM_LVL_LFB) | number(PERF_MEM_LVLNUM_LFB), Source::FillBuffer);
        check(LOAD | level(hit | PERF_MEM_LVL_L2), Source::L2);
        check(LOAD | level(hit | PERF_MEM_LVL_L3) | number(PERF_MEM_LVLNUM_L3), Source::L3);
        check(LOAD | level(hit | PERF_MEM_LVL_LOC_RAM) | number(PERF_MEM_LVLNUM_RAM), Source::LocalMemory);
        check(LOAD | level(hit | PERF_MEM_LVL_REM_RAM1) | number(PERF_MEM_LVLNUM_RAM) | REMOTE, Source::RemoteMemory);
        check(LOAD | level(hit | PERF_MEM_LVL_REM_CCE1) | number(PERF_MEM_LVLNUM_L3) | REMOTE, Source::RemoteCache);
        check(LOAD | level(hit | PERF_MEM_LVL_REM_CCE1), Source::RemoteCache);
        check(LOAD | level(hit | PERF_MEM_LVL_UNC), Source::Io);
        // A store that missed the first level: who answered is not recorded.
        check(
            u64::from(PERF_MEM_OP_STORE) | level(PERF_MEM_LVL_MISS | PERF_MEM_LVL_L1) | number(PERF_MEM_LVLNUM_L1),
            Source::Unknown,
        );
        check(0, Source::Unknown);
        check(LOAD | level(PERF_MEM_LVL_NA) | number(PERF_MEM_LVLNUM_NA), Source::Unknown);
    }

    #[test]
    fn sources_of_amd() {
        let hit = PERF_MEM_LVL_HIT;
        let any = number(PERF_MEM_LVLNUM_ANY_CACHE);
        // "L3 or the cache of another core of the node", as Zen 1 to 3 say it.
        check(LOAD | level(hit | PERF_MEM_LVL_L3 | PERF_MEM_LVL_REM_CCE1) | any | hops(PERF_MEM_HOPS_0), Source::L3);
        // Another core complex of the node, Zen 4.
        check(LOAD | level(hit | PERF_MEM_LVL_REM_CCE1) | any | REMOTE | hops(PERF_MEM_HOPS_0), Source::L3);
        check(LOAD | level(hit | PERF_MEM_LVL_REM_CCE2) | any | REMOTE | hops(PERF_MEM_HOPS_1), Source::RemoteCache);
        // Memory behind CXL has no bit of the old kind.
        check(LOAD | number(PERF_MEM_LVLNUM_CXL), Source::LocalMemory);
        check(LOAD | number(PERF_MEM_LVLNUM_CXL) | REMOTE | hops(PERF_MEM_HOPS_1), Source::RemoteMemory);
        check(LOAD | number(PERF_MEM_LVLNUM_PMEM), Source::LocalMemory);
        check(LOAD | any | REMOTE | hops(PERF_MEM_HOPS_2), Source::RemoteCache);
        check(LOAD | number(PERF_MEM_LVLNUM_IO), Source::Io);
    }

    #[test]
    fn kinds() {
        assert_eq!(DataSource(u64::from(PERF_MEM_OP_LOAD)).access(), Some(Access::Read));
        assert_eq!(DataSource(u64::from(PERF_MEM_OP_STORE)).access(), Some(Access::Write));
        assert_eq!(DataSource(u64::from(PERF_MEM_OP_LOAD | PERF_MEM_OP_STORE)).access(), Some(Access::ReadWrite));
        assert_eq!(DataSource(u64::from(PERF_MEM_OP_PFETCH)).access(), None);
        assert_eq!(DataSource(u64::from(PERF_MEM_OP_NA)).access(), None);
    }

    #[test]
    fn translation_snoop_and_lock() {
        let tlb = |bits: u32| DataSource(u64::from(bits) << PERF_MEM_TLB_SHIFT).tlb();
        assert_eq!(tlb(PERF_MEM_TLB_HIT | PERF_MEM_TLB_L1), Some(Tlb { level: TlbLevel::First, hit: true }));
        assert_eq!(tlb(PERF_MEM_TLB_MISS | PERF_MEM_TLB_L2), Some(Tlb { level: TlbLevel::Second, hit: false }));
        assert_eq!(
            tlb(PERF_MEM_TLB_HIT | PERF_MEM_TLB_L1 | PERF_MEM_TLB_L2),
            Some(Tlb { level: TlbLevel::Any, hit: true })
        );
        assert_eq!(tlb(PERF_MEM_TLB_HIT | PERF_MEM_TLB_WK), Some(Tlb { level: TlbLevel::Walker, hit: true }));
        assert_eq!(tlb(PERF_MEM_TLB_NA), None);
        let snoop = |bits: u32| DataSource(u64::from(bits) << PERF_MEM_SNOOP_SHIFT).snoop();
        assert_eq!(snoop(PERF_MEM_SNOOP_HITM), Some(Snoop::HitModified));
        assert_eq!(snoop(PERF_MEM_SNOOP_MISS), Some(Snoop::Miss));
        assert_eq!(snoop(PERF_MEM_SNOOP_NONE), Some(Snoop::None));
        assert_eq!(snoop(PERF_MEM_SNOOP_NA), None);
        assert_eq!(DataSource(u64::from(PERF_MEM_SNOOPX_FWD) << PERF_MEM_SNOOPX_SHIFT).snoop(), Some(Snoop::Hit));
        assert!(DataSource(u64::from(PERF_MEM_LOCK_LOCKED) << PERF_MEM_LOCK_SHIFT).locked());
        assert!(!DataSource(u64::from(PERF_MEM_LOCK_NA) << PERF_MEM_LOCK_SHIFT).locked());
    }

    #[test]
    fn weights() {
        assert_eq!(Weight::of_word(300), Weight { access: Some(300), instruction: None });
        assert_eq!(Weight::of_word(0), Weight { access: None, instruction: None });
        assert_eq!(Weight::of_word(u64::MAX), Weight { access: Some(u32::MAX), instruction: None });
        assert_eq!(Weight::of_struct(7 << 48 | 25 << 32 | 300), Weight { access: Some(300), instruction: Some(25) });
        assert_eq!(Weight::of_struct(25 << 32), Weight { access: None, instruction: Some(25) });
    }
}
