//! The JSON that NUMAPROF writes (`infos.formatVersion` 2), as far as numalens reads it. Everything may be absent:
//! versions differ, and zeros are left out.

use serde::Deserialize;
use std::collections::BTreeMap;

/// The whole file.
#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Document {
    pub infos: Infos,
    pub config: Config,
    pub process: Process,
    pub threads: Option<Vec<Thread>>,
    pub topo: BTreeMap<String, Node>,
    pub symbols: Symbols,
    /// By address; `0x2` stands for those left out.
    pub instructions: BTreeMap<String, Stats>,
    /// By the address of the allocation.
    pub allocs: BTreeMap<String, Stats>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub struct Infos {
    pub format_version: Option<u64>,
    pub tool: Option<String>,
    pub exe: String,
    pub command: String,
    pub hostname: String,
    pub date: String,
    /// In cycles.
    pub duration: u64,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Config {
    pub core: Core,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub struct Core {
    pub skip_stack_accesses: Option<bool>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub struct Process {
    /// By node.
    pub max_allocated_pages: Vec<u64>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub struct Thread {
    pub stats: Stats,
    /// -1: unpinned.
    pub numa: Option<i64>,
    pub mem_policy: Policy,
    pub binding: Vec<u32>,
    /// By the thread's node, `-1` unpinned: accesses by the page's node.
    pub access_matrix: BTreeMap<String, Vec<u64>>,
    /// The same of allocations: bytes, or calls.
    pub allocation_matrix: BTreeMap<String, Vec<u64>>,
    pub binding_log: Vec<Binding>,
    pub mem_policy_log: Vec<PolicyChange>,
    pub clock_start: u64,
    pub clock_end: u64,
    /// By node.
    pub touched_pages: Vec<u64>,
}

#[derive(Deserialize)]
pub struct Binding {
    pub at: u64,
    pub numa: i64,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct PolicyChange {
    pub at: u64,
    pub policy: Policy,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Policy {
    /// `MPOL_DEFAULT`, ...
    pub mode: String,
    pub mask: Vec<u32>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub struct Node {
    pub is_mcdram: bool,
    pub cpus: Vec<u32>,
    /// Ranks: 0 the node itself, 1 its nearest, ...
    pub distance: Vec<u32>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub struct Symbols {
    /// Lowest address of each file.
    pub low_addr_map: BTreeMap<String, u64>,
    pub map: Vec<Mapping>,
    pub strings: Vec<String>,
    pub instr: BTreeMap<String, Instruction>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Mapping {
    pub lower: String,
    pub upper: String,
    pub offset: String,
    pub file: String,
}

/// Indexes into `strings`, absent or -1 where nothing is known.
#[derive(Deserialize, Default)]
#[serde(default)]
pub struct Instruction {
    pub file: Option<i64>,
    pub function: Option<i64>,
    pub binary: Option<i64>,
    pub line: Option<i64>,
}

/// Accesses by class, and first touches. `nonAlloc` overlaps the others and is not read.
#[derive(Deserialize, Default, Clone, Copy)]
#[serde(default, rename_all = "camelCase")]
pub struct Stats {
    pub first_touch: u64,
    pub unpinned_first_touch: u64,
    pub unpinned_page_access: u64,
    pub unpinned_thread_access: u64,
    pub unpinned_both_access: u64,
    pub local_access: u64,
    pub remote_access: u64,
    pub local_mcdram_access: u64,
    pub remote_mcdram_access: u64,
    /// Of old files: local and remote together.
    pub mcdram_access: u64,
}

impl Stats {
    /// Accesses: those of a class, and those that placed a page or found none.
    pub fn accesses(&self) -> u128 {
        [
            self.first_touch,
            self.unpinned_first_touch,
            self.unpinned_page_access,
            self.unpinned_thread_access,
            self.unpinned_both_access,
            self.local_access,
            self.remote_access,
            self.local_mcdram_access,
            self.remote_mcdram_access,
            self.mcdram_access,
        ]
        .into_iter()
        .map(u128::from)
        .sum()
    }
}

/// `0x12ab` as a number.
pub fn address(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}
