//! The nodes of a machine, by their indices and by the numbers that its kernel has for them.

use super::cpus::NodeSet;
use core::sync::atomic::Ordering::Relaxed;
use numalens_event::exact::{self, Placement};

/// The index of the node that the kernel of that machine numbers so.
pub fn index_of(placement: &Placement, number: u32) -> Option<u16> {
    numbers(placement).position(|known| known == number).map(|index| index as u16)
}

/// The numbers of the machine's nodes, in its order.
pub fn numbers(placement: &Placement) -> impl Iterator<Item = u32> {
    placement.kernel_nodes.iter().map_while(|known| known.load(Relaxed).checked_sub(1))
}

/// The number of the node of this index.
pub fn number_of(placement: &Placement, index: u16) -> Option<u32> {
    placement.kernel_nodes.get(usize::from(index))?.load(Relaxed).checked_sub(1)
}

/// The nodes of the machine that have memory, by their numbers.
pub fn memory_nodes(placement: &Placement) -> NodeSet {
    let used = placement.memory_nodes_used.load(Relaxed) as usize;
    placement.memory_nodes.iter().take(used).filter_map(|node| number_of(placement, node.load(Relaxed))).collect()
}

/// The nodes of the machine, by their numbers.
pub fn all_nodes(placement: &Placement) -> NodeSet {
    numbers(placement).collect()
}

/// The index of a CPU's node.
pub fn node_of_cpu(placement: &Placement, cpu: u32) -> Option<u16> {
    let node = placement.node_of_cpu.get(cpu as usize)?.load(Relaxed);
    (node != exact::NO_NODE).then_some(node)
}
