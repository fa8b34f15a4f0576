//! A machine as XML that hwloc 2 reads (`lstopo -i FILE`), and [`Machine::parse`] as well: nodes, CPUs, memory, tiers,
//! distances. Caches and devices are not known here.

use crate::{CpuSet, Machine, Node};
use std::fmt::Write;

impl Machine {
    /// The machine's XML.
    pub fn to_hwloc(&self) -> String {
        let mut ids = 1..;
        let mut id = move || ids.next().unwrap_or(0);
        let all = bitmap(&self.cpus());
        let nodes: CpuSet = self.nodes.iter().map(|node| u32::from(node.id.0)).collect();
        let mut out = String::from(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology version=\"2.0\">\n",
        );
        let sets = |cpus: &str, nodes: &str| {
            format!("cpuset=\"{cpus}\" complete_cpuset=\"{cpus}\" nodeset=\"{nodes}\" complete_nodeset=\"{nodes}\"")
        };
        let memory = |node: &Node, cpus: &str, gp: u32| {
            let own = bitmap(&std::iter::once(u32::from(node.id.0)).collect());
            let mut text = format!(
                "<object type=\"NUMANode\" os_index=\"{}\" {} gp_index=\"{gp}\" local_memory=\"{}\">",
                node.id,
                sets(cpus, &own),
                node.memory_bytes
            );
            for size in std::iter::once(&4096).chain(&node.huge_page_sizes) {
                let count = if *size == 4096 { node.memory_bytes / 4096 } else { 0 };
                let _ = write!(text, "<page_type size=\"{size}\" count=\"{count}\"/>");
            }
            let _ = write!(text, "<info name=\"MemoryTier\" value=\"{}\"/></object>", node.tier);
            text
        };
        let every = bitmap(&nodes);
        let _ = writeln!(
            out,
            " <object type=\"Machine\" os_index=\"0\" {} allowed_cpuset=\"{all}\" allowed_nodeset=\"{every}\" gp_index=\"{}\">",
            sets(&all, &every),
            id()
        );
        // As hwloc leaves them: a node whose CPUs cannot be used stays in a package that has none.
        let is_beside = |node: &&Node| node.cpus.is_empty() && !node.only_unusable_cpus;
        for node in self.nodes.iter().filter(is_beside) {
            let _ = writeln!(out, "  {}", memory(node, &all, id()));
        }
        for node in self.nodes.iter().filter(|node| !is_beside(node)) {
            let (cpus, own) = (bitmap(&node.cpus), bitmap(&std::iter::once(u32::from(node.id.0)).collect()));
            let _ = writeln!(
                out,
                "  <object type=\"Package\" os_index=\"{}\" {} gp_index=\"{}\">",
                node.id,
                sets(&cpus, &own),
                id()
            );
            let _ = writeln!(out, "   {}", memory(node, &cpus, id()));
            for cpu in node.cpus.iter() {
                let one = bitmap(&std::iter::once(cpu).collect());
                let (sets, gp) = (sets(&one, &own), id());
                let _ = writeln!(out, "   <object type=\"PU\" os_index=\"{cpu}\" {sets} gp_index=\"{gp}\"/>");
            }
            out += "  </object>\n";
        }
        out += " </object>\n";
        // From one place to itself is no distance to hwloc.
        if self.nodes.len() < 2 {
            return out + "</topology>\n";
        }
        let list = |numbers: &mut dyn Iterator<Item = u32>| {
            let text: String = numbers.map(|number| format!("{number} ")).collect();
            format!("length=\"{}\">{text}", text.len())
        };
        // Kind: from the operating system, means latency.
        let _ = writeln!(
            out,
            " <distances2 type=\"NUMANode\" nbobjs=\"{}\" kind=\"5\" name=\"NUMALatency\" indexing=\"os\">\n  <indexes {}</indexes>",
            self.nodes.len(),
            list(&mut nodes.iter())
        );
        for node in &self.nodes {
            let _ = writeln!(out, "  <u64values {}</u64values>", list(&mut node.distances.iter().copied()));
        }
        out + " </distances2>\n</topology>\n"
    }
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
            std::fs::write(&path, machine.to_hwloc()).unwrap();
            let read = Machine::parse(path.to_str().unwrap(), &host).unwrap();
            let stripped = |machine: &Machine| -> Vec<Node> {
                machine.nodes.iter().map(|node| Node { latency_ns: None, bandwidth: None, ..node.clone() }).collect()
            };
            assert_eq!(stripped(&read), stripped(&machine), "{spec}");
        }
    }
}
