//! The machines of the lab: what qemu is told, and what the kernel must therefore report.

/// Memory of every node. The initramfs and the programs share it.
pub const NODE_MIB: u64 = 512;

/// A machine: nodes 0, 1, ... in order.
pub struct Machine {
    pub name: &'static str,
    pub about: &'static str,
    /// CPUs of each node; 0 makes a node of memory only.
    pub cpus: &'static [u32],
    /// SLIT distances, row by row.
    pub distances: &'static [&'static [u32]],
}

/// All machines. CPUs are few because two host cores emulate them.
pub const MACHINES: &[Machine] = &[
    Machine { name: "one", about: "one node of 2 CPUs", cpus: &[2], distances: &[&[10]] },
    Machine {
        name: "sym2",
        about: "two nodes of 2 CPUs, distances 10 and 20",
        cpus: &[2, 2],
        distances: &[&[10, 20], &[20, 10]],
    },
    Machine {
        name: "dist4",
        about: "four nodes of 2 CPUs in a square: neighbours at 16, across at 22",
        cpus: &[2, 2, 2, 2],
        distances: &[&[10, 16, 16, 22], &[16, 10, 22, 16], &[16, 22, 10, 16], &[22, 16, 16, 10]],
    },
    Machine {
        name: "tier",
        about: "two nodes of 2 CPUs and one node of memory only, nearer to node 0",
        cpus: &[2, 2, 0],
        distances: &[&[10, 20, 17], &[20, 10, 28], &[17, 28, 10]],
    },
];

impl Machine {
    /// The machine of that name.
    pub fn find(name: &str) -> Option<&'static Machine> {
        MACHINES.iter().find(|machine| machine.name == name)
    }

    /// Nodes that have CPUs.
    pub fn cpu_nodes(&self) -> Vec<usize> {
        (0..self.cpus.len()).filter(|&node| self.cpus[node] > 0).collect()
    }

    /// The CPUs of a node; qemu numbers them node after node.
    pub fn cpus_of(&self, node: usize) -> std::ops::Range<u32> {
        let first: u32 = self.cpus[..node].iter().sum();
        first..first + self.cpus[node]
    }

    /// The options that describe this machine to qemu.
    pub fn qemu_options(&self) -> Vec<String> {
        let total: u32 = self.cpus.iter().sum();
        let mut options =
            vec!["-smp".into(), total.to_string(), "-m".into(), format!("{}M", NODE_MIB * self.cpus.len() as u64)];
        let mut option = |key: &str, value: String| options.extend([key.to_owned(), value]);
        for node in 0..self.cpus.len() {
            option("-object", format!("memory-backend-ram,id=memory{node},size={NODE_MIB}M"));
            let cpus = self.cpus_of(node);
            let with = if cpus.is_empty() { String::new() } else { format!(",cpus={}-{}", cpus.start, cpus.end - 1) };
            option("-numa", format!("node,nodeid={node},memdev=memory{node}{with}"));
        }
        for (from, row) in self.distances.iter().enumerate() {
            for (to, distance) in row.iter().enumerate().filter(|(to, _)| *to != from) {
                option("-numa", format!("dist,src={from},dst={to},val={distance}"));
            }
        }
        options
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_square_with_ten_on_the_diagonal() {
        for machine in MACHINES {
            assert_eq!(machine.distances.len(), machine.cpus.len(), "{}", machine.name);
            for (node, row) in machine.distances.iter().enumerate() {
                assert_eq!(row.len(), machine.cpus.len(), "{}", machine.name);
                assert_eq!(row[node], 10, "{}", machine.name);
            }
        }
    }

    #[test]
    fn qemu_is_told_every_node() {
        let options = Machine::find("tier").unwrap().qemu_options().join(" ");
        assert!(options.contains("-smp 4 -m 1536M"), "{options}");
        assert!(options.contains("node,nodeid=1,memdev=memory1,cpus=2-3"), "{options}");
        assert!(options.contains("node,nodeid=2,memdev=memory2 "), "{options}");
        assert!(options.contains("dist,src=1,dst=2,val=28"), "{options}");
    }
}
