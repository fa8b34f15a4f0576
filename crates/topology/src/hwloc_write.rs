//! A machine as XML that hwloc 2 reads (`lstopo -i FILE`), and [`Machine::parse`] as well: nodes, CPUs, memory, tiers,
//! distances. Caches and devices are not known here.

use crate::PAGE_BYTES;
use crate::{CpuSet, Machine, Node};
use std::fmt::Write;

/// What every file begins with.
const HEAD: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology version=\"2.0\">\n";

/// The machine's XML.
pub fn write(machine: &Machine) -> String {
    let mut objects = Objects::default();
    objects.machine(machine);
    format!("{HEAD}{}{}</topology>\n", objects.text, distances(machine))
}

/// The tree of objects: the machine, its packages, and in these the CPUs. Memory hangs beside what is near to it.
#[derive(Default)]
struct Objects {
    text: String,
    /// The last `gp_index` that was given out.
    last_id: u32,
}

impl Objects {
    fn machine(&mut self, machine: &Machine) {
        let (all, every) = (bitmap(&machine.cpus()), bitmap(&numbers(machine)));
        let (sets, id) = (sets(&all, &every), self.next_id());
        let _ = writeln!(
            self.text,
            " <object type=\"Machine\" os_index=\"0\" {sets} allowed_cpuset=\"{all}\" allowed_nodeset=\"{every}\" gp_index=\"{id}\">"
        );
        // As hwloc leaves them: a node whose CPUs cannot be used stays in a package that has none.
        let is_beside = |node: &&Node| node.cpus.is_empty() && !node.only_unusable_cpus;
        for node in machine.nodes.iter().filter(is_beside) {
            self.text += "  ";
            self.memory(node, &all);
        }
        for node in machine.nodes.iter().filter(|node| !is_beside(node)) {
            self.package(node);
        }
        self.text += " </object>\n";
    }

    /// A node with its CPUs.
    fn package(&mut self, node: &Node) {
        let (cpus, own) = (bitmap(&node.cpus), own(node));
        let (of_all, id) = (sets(&cpus, &own), self.next_id());
        let _ = writeln!(self.text, "  <object type=\"Package\" os_index=\"{}\" {of_all} gp_index=\"{id}\">", node.id);
        self.text += "   ";
        self.memory(node, &cpus);
        for cpu in node.cpus.iter() {
            let one = bitmap(&std::iter::once(cpu).collect());
            let (sets, id) = (sets(&one, &own), self.next_id());
            let _ = writeln!(self.text, "   <object type=\"PU\" os_index=\"{cpu}\" {sets} gp_index=\"{id}\"/>");
        }
        self.text += "  </object>\n";
    }

    /// A node's memory, near to `cpus`.
    fn memory(&mut self, node: &Node, cpus: &str) {
        let (sets, id) = (sets(cpus, &own(node)), self.next_id());
        let _ = write!(
            self.text,
            "<object type=\"NUMANode\" os_index=\"{}\" {sets} gp_index=\"{id}\" local_memory=\"{}\">",
            node.id, node.memory_bytes
        );
        for size in std::iter::once(&PAGE_BYTES).chain(&node.huge_page_sizes) {
            let count = if *size == PAGE_BYTES { node.memory_bytes / PAGE_BYTES } else { 0 };
            let _ = write!(self.text, "<page_type size=\"{size}\" count=\"{count}\"/>");
        }
        let _ = writeln!(self.text, "<info name=\"MemoryTier\" value=\"{}\"/></object>", node.tier);
    }

    fn next_id(&mut self) -> u32 {
        self.last_id += 1;
        self.last_id
    }
}

/// The matrix of distances; nothing for one node, since from one place to itself is no distance to hwloc.
fn distances(machine: &Machine) -> String {
    let mut text = String::new();
    if machine.nodes.len() < 2 {
        return text;
    }
    let list = |numbers: &mut dyn Iterator<Item = u32>| {
        let text: String = numbers.map(|number| format!("{number} ")).collect();
        format!("length=\"{}\">{text}", text.len())
    };
    // Kind: from the operating system, means latency.
    let _ = writeln!(
        text,
        " <distances2 type=\"NUMANode\" nbobjs=\"{}\" kind=\"5\" name=\"NUMALatency\" indexing=\"os\">\n  <indexes {}</indexes>",
        machine.nodes.len(),
        list(&mut numbers(machine).iter())
    );
    for node in &machine.nodes {
        let _ = writeln!(text, "  <u64values {}</u64values>", list(&mut node.distances.iter().copied()));
    }
    text + " </distances2>\n"
}

/// The attributes that say where an object is.
fn sets(cpus: &str, nodes: &str) -> String {
    format!("cpuset=\"{cpus}\" complete_cpuset=\"{cpus}\" nodeset=\"{nodes}\" complete_nodeset=\"{nodes}\"")
}

/// The kernel's numbers of the nodes.
fn numbers(machine: &Machine) -> CpuSet {
    machine.nodes.iter().map(|node| u32::from(node.id.0)).collect()
}

/// The nodeset of one node.
fn own(node: &Node) -> String {
    bitmap(&std::iter::once(u32::from(node.id.0)).collect())
}

/// 32-bit words in hexadecimal, the highest first.
fn bitmap(set: &CpuSet) -> String {
    let words = set.iter().max().map_or(1, |last| last as usize / 32 + 1);
    let mut bits = vec![0u32; words];
    set.iter().for_each(|number| bits[number as usize / 32] |= 1 << (number % 32));
    let words: Vec<String> = bits.iter().rev().map(|word| format!("0x{word:08x}")).collect();
    words.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let scratch = tempfile::tempdir().unwrap();
        let host = Machine::preset("togian").unwrap();
        let path = scratch.path().join("machine.xml");
        let mut machines: Vec<Machine> = ["togian", "cxl2", "knl-snc4-flat", "1x1", "3x40"]
            .map(|spec| Machine::parse(spec, &host).unwrap())
            .to_vec();
        let mut offline = Machine::preset("cxl2").unwrap();
        (offline.nodes[1].cpus, offline.nodes[1].only_unusable_cpus) = (CpuSet::new(), true);
        machines.push(offline);
        for machine in machines {
            let spec = &machine.name;
            std::fs::write(&path, write(&machine)).unwrap();
            let read = Machine::parse(path.to_str().unwrap(), &host).unwrap();
            let stripped = |machine: &Machine| -> Vec<Node> {
                machine.nodes.iter().map(|node| Node { latency_ns: None, bandwidth: None, ..node.clone() }).collect()
            };
            assert_eq!(stripped(&read), stripped(&machine), "{spec}");
        }
    }
}
