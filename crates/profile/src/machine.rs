//! The machine in force, as the table `machine` and `meta` hold it.

use crate::error::Error;
use crate::read::Profile;
use crate::tables::MachineNode;
use numalens_topology::{CpuSet, Machine, Node};
use std::str::FromStr;

impl MachineNode {
    /// The rows of a machine. Its name and whether it is virtual go to [`crate::Meta`].
    pub fn of(machine: &Machine) -> Vec<MachineNode> {
        let row = |node: &Node| MachineNode {
            node: node.id,
            cpus: node.cpus.to_string(),
            memory_bytes: node.memory_bytes,
            distances: join(&node.distances),
            tier: node.tier,
            huge_pages: join(&node.huge_page_sizes),
            only_unusable_cpus: Some(node.only_unusable_cpus),
            latency_ns: node.latency_ns,
            bandwidth: node.bandwidth,
        };
        machine.nodes.iter().map(row).collect()
    }
}

impl Profile {
    /// The machine that the profile's nodes, homes and classes refer to.
    ///
    /// # Errors
    /// The table cannot be read, is empty, or contradicts itself.
    pub fn machine(&self) -> Result<Machine, Error> {
        let bad = |why: String| Error::BadMachine { path: self.path().to_owned(), why };
        let nodes = self.rows::<MachineNode>()?.into_iter().map(node).collect::<Result<Vec<_>, _>>().map_err(bad)?;
        if nodes.is_empty() {
            return Err(bad("it has no nodes (did the recording end before it began?)".to_owned()));
        }
        let machine = Machine { name: self.meta.machine_name.clone(), is_virtual: self.meta.machine_virtual, nodes };
        machine.validate().map_err(|error| bad(error.to_string()))?;
        Ok(machine)
    }
}

fn node(row: MachineNode) -> Result<Node, String> {
    let of_node = |error: String| format!("node {}: {error}", row.node);
    Ok(Node {
        id: row.node,
        cpus: CpuSet::parse(&row.cpus).map_err(|error| of_node(error.to_string()))?,
        memory_bytes: row.memory_bytes,
        distances: split(&row.distances).map_err(of_node)?,
        tier: row.tier,
        huge_page_sizes: split(&row.huge_pages).map_err(of_node)?,
        only_unusable_cpus: row.only_unusable_cpus.unwrap_or(false),
        latency_ns: row.latency_ns,
        bandwidth: row.bandwidth,
    })
}

fn join<N: ToString>(numbers: &[N]) -> String {
    numbers.iter().map(N::to_string).collect::<Vec<_>>().join(" ")
}

fn split<N: FromStr>(text: &str) -> Result<Vec<N>, String> {
    text.split_whitespace()
        .map(|number| number.parse().map_err(|_| format!("`{}` is not a number", number.escape_debug())))
        .collect()
}
