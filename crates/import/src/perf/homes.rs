//! Where pages were: the most frequent answer of their samples.

use super::reader::Recording;
use super::topology::Memory;
use numalens_profile::ids::Page;
use numalens_profile::words::Source;
use numalens_topology::{Machine, NodeId};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Homes of pages by pid and page, and whether they follow from physical addresses (else from what the processor said).
pub struct Homes(FxHashMap<(u32, Page), (NodeId, bool)>);

impl Homes {
    /// Asks all samples.
    pub fn find(recording: &Recording, machine: &Machine) -> Homes {
        let memory = Memory::of(recording);
        let mut votes: FxHashMap<(u32, Page), BTreeMap<(bool, NodeId), u32>> = FxHashMap::default();
        for sample in &recording.samples {
            let physical = sample.physical.and_then(|address| memory.as_ref()?.node_of(address));
            let said = || {
                let node = machine.node_of_cpu(sample.cpu)?;
                let mut others = machine.nodes_with_memory().filter(|other| other.id != node);
                match sample.source? {
                    Source::LocalMemory => Some(node),
                    Source::RemoteMemory => others.next().filter(|_| others.next().is_none()).map(|other| other.id),
                    _ => None,
                }
            };
            let vote = physical.map(|node| (true, node)).or_else(|| said().map(|node| (false, node)));
            if let Some(vote) = vote.filter(|(_, node)| machine.node(*node).is_some()) {
                *votes.entry((sample.pid, Page::of(sample.address))).or_default().entry(vote).or_default() += 1;
            }
        }
        // One physical address outweighs whatever the processor said.
        let winner =
            |votes: BTreeMap<(bool, NodeId), u32>| votes.into_iter().max_by_key(|((physical, _), n)| (*physical, *n));
        let found = votes.into_iter().filter_map(|(page, votes)| {
            let ((physical, node), _) = winner(votes)?;
            Some((page, (node, physical)))
        });
        Homes(found.collect())
    }

    /// The home of a page.
    pub fn of(&self, pid: u32, page: Page) -> Option<(NodeId, bool)> {
        self.0.get(&(pid, page)).copied()
    }
}
