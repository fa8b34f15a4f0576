//! The machine of a recording, from the file's own sections: nodes with their CPUs, and which blocks of memory each
//! has.

use super::reader::Recording;
use crate::Options;
use numalens_topology::{CpuSet, LOCAL_DISTANCE, Machine, Node, NodeId, REMOTE_DISTANCE};

/// The user's machine, else the file's. Distances are not in the file.
///
/// # Errors
/// The file's section is damaged, or it has none and the user gives no machine.
pub fn machine(recording: &Recording, options: &Options) -> Result<Machine, String> {
    if let Some(machine) = &options.machine {
        return Ok(Machine { is_virtual: false, ..machine.clone() });
    }
    let Some(section) = &recording.numa_topology else {
        return Err("it does not say which nodes the machine has: give it with --machine".to_owned());
    };
    let cut = || "its description of the machine's nodes is damaged".to_owned();
    let nodes = nodes(section).ok_or_else(cut)?;
    let distances = |id: NodeId| {
        nodes.iter().map(|(other, ..)| if *other == id { LOCAL_DISTANCE } else { REMOTE_DISTANCE }).collect()
    };
    let row = |(id, memory_bytes, cpus): &(NodeId, u64, CpuSet)| Node {
        id: *id,
        cpus: cpus.clone(),
        memory_bytes: *memory_bytes,
        distances: distances(*id),
        tier: 0,
        huge_page_sizes: Vec::new(),
        only_unusable_cpus: false,
        latency_ns: None,
        bandwidth: None,
    };
    let host = if recording.host.is_empty() { "an unnamed host" } else { &recording.host };
    let machine = Machine { name: host.to_owned(), is_virtual: false, nodes: nodes.iter().map(row).collect() };
    machine.validate().map_err(|error| error.to_string())?;
    Ok(machine)
}

/// Takes the first bytes off.
fn word<const N: usize>(section: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = section.split_first_chunk::<N>()?;
    *section = rest;
    Some(*first)
}

fn number(section: &mut &[u8]) -> Option<u64> {
    word(section).map(u64::from_le_bytes)
}

/// `HEADER_NUMA_TOPOLOGY`: a number of nodes, then of each its id, KiB of memory, KiB of it that are free, and its CPUs
/// as a list in a padded string.
fn nodes(mut section: &[u8]) -> Option<Vec<(NodeId, u64, CpuSet)>> {
    let count = word(&mut section).map(u32::from_le_bytes)?;
    let mut nodes = Vec::new();
    for _ in 0..count {
        let id = NodeId(u16::try_from(word(&mut section).map(u32::from_le_bytes)?).ok()?);
        let (memory, _free) = (number(&mut section)?, number(&mut section)?);
        let length = word(&mut section).map(u32::from_le_bytes)? as usize;
        let text = section.get(..length)?;
        section = &section[length..];
        let text = std::str::from_utf8(text.split(|byte| *byte == 0).next()?).ok()?;
        nodes.push((id, memory.saturating_mul(1024), CpuSet::parse(text).ok()?));
    }
    nodes.sort_by_key(|(id, ..)| *id);
    Some(nodes)
}

/// Which node's a physical address is.
pub struct Memory {
    block: u64,
    /// A bit for each block.
    nodes: Vec<(NodeId, Vec<u64>)>,
}

impl Memory {
    /// `HEADER_MEM_TOPOLOGY`: version, bytes of a block, number of nodes; of each its id, its number of blocks, and a
    /// set of bits: how many, and they.
    pub fn of(recording: &Recording) -> Option<Memory> {
        let mut section = recording.memory_topology.as_deref()?;
        let (_version, block, count) = (number(&mut section)?, number(&mut section)?, number(&mut section)?);
        let mut nodes = Vec::new();
        for _ in 0..count {
            let id = NodeId(u16::try_from(number(&mut section)?).ok()?);
            let _blocks = number(&mut section)?;
            let words = usize::try_from(number(&mut section)?.div_ceil(64)).ok()?;
            // As many as there are, whatever the file claims.
            let bits = section.get(..words.checked_mul(8)?)?;
            section = &section[bits.len()..];
            nodes.push((
                id,
                bits.chunks_exact(8).filter_map(|word| Some(u64::from_le_bytes(word.try_into().ok()?))).collect(),
            ));
        }
        (block > 0).then_some(Memory { block, nodes })
    }

    /// The node of a physical address.
    pub fn node_of(&self, address: u64) -> Option<NodeId> {
        let block = address / self.block;
        let has = |bits: &Vec<u64>| {
            usize::try_from(block / 64)
                .ok()
                .and_then(|word| bits.get(word))
                .is_some_and(|word| word >> (block % 64) & 1 == 1)
        };
        self.nodes.iter().find(|(_, bits)| has(bits)).map(|(id, _)| *id)
    }
}
