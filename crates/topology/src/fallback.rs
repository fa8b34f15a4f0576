//! Where Linux takes memory from when a node has none left.

use crate::{Machine, REMOTE_DISTANCE};

impl Machine {
    /// For each node, in the order of [`Machine::nodes`], the indices of those with memory, in the order in which Linux
    /// falls back to them (`build_zonelists` of `mm/page_alloc.c`): the node itself, then by distance; of equally near
    /// ones first those without CPUs, then those with higher numbers, and so that not all nodes begin with the same
    /// one.
    pub fn fallback_orders(&self) -> Vec<Vec<usize>> {
        let mut load = vec![0u32; self.nodes.len()];
        let with_memory = |index: &usize| self.nodes[*index].memory_bytes > 0;
        let mut orders = Vec::with_capacity(self.nodes.len());
        for (from, node) in self.nodes.iter().enumerate() {
            let distance = |to: usize| node.distances.get(to).copied().unwrap_or(REMOTE_DISTANCE);
            let price = |&to: &usize| match to == from {
                true => (0, 0),
                false => {
                    let has_cpus = u32::from(!self.nodes[to].cpus.is_empty());
                    (distance(to) + u32::from(to < from) + has_cpus, load[to])
                }
            };
            let mut order: Vec<usize> = (0..self.nodes.len()).filter(with_memory).collect();
            // What a node has to bear changes when it is taken, and then it is in the list.
            order.sort_by_key(price);
            let mut before = from;
            for &next in &order {
                if distance(next) != distance(before) {
                    load[next] += 1;
                }
                before = next;
            }
            orders.push(order);
        }
        orders
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_taken_from_the_nearest_node() {
        let grid = Machine::parse("4x2", &Machine::preset("togian").unwrap()).unwrap();
        assert_eq!(grid.fallback_orders(), [[0, 1, 2, 3], [1, 2, 3, 0], [2, 3, 0, 1], [3, 0, 1, 2]]);
        let mut cxl = Machine::preset("cxl2").unwrap();
        assert_eq!(cxl.fallback_orders(), [[0, 2, 1], [1, 0, 2], [2, 0, 1]]);
        cxl.nodes[1].memory_bytes = 0;
        assert_eq!(cxl.fallback_orders()[1], [0, 2]);
    }
}
