//! A machine as files: what its kernel would show of it below `sys` and `proc`.
//!
//! For programs that are to see a virtual machine. Of a machine only nodes and CPUs are known, so the rest is invented
//! in the plainest way: each node with CPUs is a package, each CPU a core of its own; caches are like those of the
//! host's first CPU, those that the host shares among CPUs are shared by a node's. What has nothing to do with nodes
//! and CPUs are links to the host's files.

use crate::{CpuSet, Machine, Node};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Files of a cache that say nothing about who shares it.
const CACHE_FACTS: [&str; 7] = [
    "level",
    "type",
    "size",
    "coherency_line_size",
    "number_of_sets",
    "ways_of_associativity",
    "physical_line_partition",
];
/// Fields of /proc/cpuinfo that tell one CPU from another.
const CPU_FIELDS: [&str; 7] =
    ["processor", "physical id", "siblings", "core id", "cpu cores", "apicid", "initial apicid"];
/// Tiers are numbered from this one on, as the kernel numbers that of plain memory.
const FIRST_TIER: u32 = 4;

/// Writes `sys`, `proc` and the files `cpuset.cpus` and `cpuset.mems` (of a group of processes that may use all of
/// the machine) into the folder `root`. `host` is the root of the host's file system. [`crate::sysfs::read`] reads
/// the same nodes from it.
///
/// # Errors
/// When a file cannot be written. What the host does not show is left out.
pub fn write(machine: &Machine, root: &Path, host: &Path) -> io::Result<()> {
    let shape = Shape::new(machine);
    let system = root.join("sys/devices/system");
    write_cpus(machine, &shape, &system.join("cpu"), &host.join("sys/devices/system/cpu"))?;
    write_nodes(machine, &shape, &system.join("node"), host)?;
    for (bus, count) in [("cpu", shape.cpus.iter().collect::<Vec<_>>()), ("node", shape.node_ids())] {
        let devices = folder(root.join("sys/bus").join(bus).join("devices"))?;
        for number in count {
            let name = format!("{bus}{number}");
            symlink(format!("../../../devices/system/{bus}/{name}"), devices.join(name))?;
        }
    }
    let tiering = folder(root.join("sys/devices/virtual/memory_tiering"))?;
    let mut tiers: Vec<u32> = machine.nodes_with_memory().map(|node| node.tier).collect();
    tiers.sort_unstable();
    tiers.dedup();
    for tier in tiers {
        let members: CpuSet =
            machine.nodes_with_memory().filter(|node| node.tier == tier).map(|node| node.id.0.into()).collect();
        let tier = folder(tiering.join(format!("memory_tier{}", FIRST_TIER + tier)))?;
        write_line(&tier, "nodelist", &members)?;
    }
    let proc = folder(root.join("proc"))?;
    if let Ok(text) = fs::read_to_string(host.join("proc/cpuinfo")) {
        fs::write(proc.join("cpuinfo"), cpuinfo(machine, &shape, &text))?;
    }
    write_line(root, "cpuset.cpus", &shape.cpus)?;
    write_line(root, "cpuset.mems", &shape.memory)
}

fn write_cpus(machine: &Machine, shape: &Shape, to: &Path, host: &Path) -> io::Result<()> {
    let to = folder(to.to_owned())?;
    for name in ["online", "possible", "present"] {
        write_line(&to, name, &shape.cpus)?;
    }
    for name in ["offline", "isolated"] {
        write_line(&to, name, &"")?;
    }
    let is_cpu = |name: &str| name.strip_prefix("cpu").is_some_and(|rest| rest.parse::<u32>().is_ok());
    link_others(&to, host, is_cpu)?;
    let caches = caches(&host.join("cpu0/cache"));
    let mut texts = Texts::default();
    for (package, node) in machine.nodes.iter().enumerate() {
        let package_mask = shape.mask(&node.cpus);
        for (core, cpu) in node.cpus.iter().enumerate() {
            let own = CpuSet::from_iter([cpu]);
            let own_mask = shape.mask(&own);
            let cpu_folder = to.join(format!("cpu{cpu}"));
            let topology = folder(cpu_folder.join("topology"))?;
            texts.write(&topology, "core_id", &core)?;
            texts.write(&topology, "physical_package_id", &package)?;
            for name in ["core_cpus", "thread_siblings"] {
                texts.write(&topology, name, &own_mask)?;
                texts.write(&topology, &format!("{name}_list"), &own)?;
            }
            for name in ["package_cpus", "core_siblings"] {
                texts.write(&topology, name, &package_mask)?;
                texts.write(&topology, &format!("{name}_list"), &node.cpus)?;
            }
            symlink(format!("../../node/node{}", node.id), cpu_folder.join(format!("node{}", node.id)))?;
            let first = node.cpus.iter().next().unwrap_or(cpu);
            for (index, cache) in caches.iter().enumerate() {
                let cache_folder = folder(cpu_folder.join("cache"))?.join(format!("index{index}"));
                if cache.is_shared && cpu != first {
                    symlink(format!("../../cpu{first}/cache/index{index}"), cache_folder)?;
                    continue;
                }
                let cache_folder = folder(cache_folder)?;
                for (name, text) in CACHE_FACTS.iter().zip(&cache.facts) {
                    if let Some(text) = text {
                        texts.keep(cache_folder.join(name), text.clone())?;
                    }
                }
                let (users, mask) = if cache.is_shared { (&node.cpus, &package_mask) } else { (&own, &own_mask) };
                texts.write(&cache_folder, "id", &if cache.is_shared { package as u32 } else { cpu })?;
                texts.write(&cache_folder, "shared_cpu_list", users)?;
                texts.write(&cache_folder, "shared_cpu_map", mask)?;
            }
        }
    }
    Ok(())
}

fn write_nodes(machine: &Machine, shape: &Shape, to: &Path, host: &Path) -> io::Result<()> {
    let to = folder(to.to_owned())?;
    let all: CpuSet = shape.node_ids().into_iter().collect();
    let with_cpus: CpuSet = machine.nodes_with_cpus().map(|node| node.id.0.into()).collect();
    for (name, nodes) in [
        ("online", &all),
        ("possible", &all),
        ("has_cpu", &with_cpus),
        ("has_memory", &shape.memory),
        ("has_normal_memory", &shape.memory),
    ] {
        write_line(&to, name, nodes)?;
    }
    let host_nodes = host.join("sys/devices/system/node");
    link_others(&to, &host_nodes, |name| name.starts_with("node") || name.starts_with("has_"))?;
    let free = free_share(&fs::read_to_string(host.join("proc/meminfo")).unwrap_or_default());
    for node in &machine.nodes {
        let id = node.id;
        let folder_of = folder(to.join(format!("node{id}")))?;
        write_line(&folder_of, "cpulist", &node.cpus)?;
        write_line(&folder_of, "cpumap", &shape.mask(&node.cpus))?;
        let distances: Vec<String> = node.distances.iter().map(ToString::to_string).collect();
        write_line(&folder_of, "distance", &distances.join(" "))?;
        let total = node.memory_bytes / 1024;
        let free = ((total as f64 * free) as u64).min(total);
        let rows = [("MemTotal", total), ("MemFree", free), ("MemUsed", total - free)];
        let mut meminfo = String::new();
        for (name, kib) in rows {
            let name = format!("{name}:");
            let _ = writeln!(meminfo, "Node {id} {name:<15} {kib:>8} kB");
        }
        for name in ["HugePages_Total:", "HugePages_Free:", "HugePages_Surp:"] {
            let _ = writeln!(meminfo, "Node {id} {name:<16} {:>5}", 0);
        }
        fs::write(folder_of.join("meminfo"), meminfo)?;
        let names = ["numa_hit", "numa_miss", "numa_foreign", "interleave_hit", "local_node", "other_node"];
        write_line(&folder_of, "numastat", &names.map(|name| format!("{name} 0")).join("\n"))?;
        for bytes in &node.huge_page_sizes {
            let pages = folder(folder_of.join(format!("hugepages/hugepages-{}kB", bytes / 1024)))?;
            for name in ["nr_hugepages", "free_hugepages", "surplus_hugepages"] {
                write_line(&pages, name, &0)?;
            }
        }
        write_speed(&folder_of, node)?;
        for cpu in node.cpus.iter() {
            symlink(format!("../../cpu/cpu{cpu}"), folder_of.join(format!("cpu{cpu}")))?;
        }
    }
    Ok(())
}

/// The host's text about its first CPU, for each CPU of the machine.
fn cpuinfo(machine: &Machine, shape: &Shape, host: &str) -> String {
    let first = host.split("\n\n").next().unwrap_or_default();
    let mut text = String::new();
    for cpu in shape.cpus.iter() {
        let found = machine.nodes.iter().enumerate().find(|(_, node)| node.cpus.contains(cpu));
        let Some((package, node)) = found else { continue };
        let core = node.cpus.iter().take_while(|&other| other != cpu).count();
        let apic = package << shape.core_bits | core;
        for line in first.lines() {
            let name = line.split(':').next().unwrap_or_default().trim_end();
            let value = match CPU_FIELDS.iter().position(|field| *field == name) {
                Some(0) => cpu as usize,
                Some(5 | 6) => apic,
                Some(1) => package,
                Some(2 | 4) => node.cpus.len(),
                Some(_) => core,
                None => {
                    let _ = writeln!(text, "{line}");
                    continue;
                }
            };
            let head = &line[..line.find(':').unwrap_or(line.len())];
            let _ = writeln!(text, "{head}: {value}");
        }
        text.push('\n');
    }
    text
}

/// What is asked of a machine again and again.
struct Shape {
    cpus: CpuSet,
    /// Nodes with memory, by their numbers.
    memory: CpuSet,
    nodes: Vec<u32>,
    /// One more than the highest number of a CPU.
    numbers: usize,
    /// Bits of a core's number in an APIC id, as `cpuid` has it: above them is the package.
    core_bits: u32,
}

impl Shape {
    fn new(machine: &Machine) -> Self {
        let cpus = machine.cpus();
        let numbers = cpus.iter().last().map_or(1, |last| last as usize + 1);
        let memory = machine.nodes_with_memory().map(|node| node.id.0.into()).collect();
        let most = machine.nodes.iter().map(|node| node.cpus.len()).max().unwrap_or(1).max(1);
        let core_bits = most.next_power_of_two().trailing_zeros();
        Shape { cpus, memory, nodes: machine.nodes.iter().map(|node| node.id.0.into()).collect(), numbers, core_bits }
    }

    fn node_ids(&self) -> Vec<u32> {
        self.nodes.clone()
    }

    /// A mask as the kernel writes it: groups of 32 bits in hexadecimal, the highest first.
    fn mask(&self, cpus: &CpuSet) -> String {
        let mut groups = vec![0u32; self.numbers.div_ceil(32)];
        cpus.iter().for_each(|cpu| groups[cpu as usize / 32] |= 1 << (cpu % 32));
        let digits = (self.numbers - 32 * (groups.len() - 1)).div_ceil(4);
        let mut groups = groups.iter().rev();
        let highest = groups.next().map(|group| format!("{group:0digits$x}")).unwrap_or_default();
        groups.fold(highest, |text, group| format!("{text},{group:08x}"))
    }
}

struct Cache {
    facts: [Option<String>; CACHE_FACTS.len()],
    is_shared: bool,
}

/// The caches of the host's first CPU.
fn caches(host: &Path) -> Vec<Cache> {
    let read = |index: usize, name: &str| fs::read_to_string(host.join(format!("index{index}/{name}"))).ok();
    let cache = |index| {
        let users = read(index, "shared_cpu_list")?;
        let facts = CACHE_FACTS.map(|name| read(index, name));
        // The last level is for a package, whoever may share it on a host of one CPU.
        let level = facts[0].as_deref().and_then(|level| level.trim().parse::<u32>().ok()).unwrap_or(1);
        let is_shared = level > 2 || level == 2 && CpuSet::parse(&users).is_ok_and(|users| users.len() > 2);
        Some(Cache { facts, is_shared })
    };
    (0..).map_while(cache).collect()
}

/// How much of the host's memory is free.
fn free_share(meminfo: &str) -> f64 {
    let kib = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().trim_end_matches("kB").trim().parse::<f64>().ok()
    };
    match (kib("MemTotal:"), kib("MemFree:")) {
        (Some(total), Some(free)) if total > 0.0 => (free / total).clamp(0.0, 1.0),
        _ => 1.0,
    }
}

/// What firmware says of a node's memory as seen from the nearest CPUs.
fn write_speed(node_folder: &Path, node: &Node) -> io::Result<()> {
    for (figure, kind) in
        [(node.latency_ns, "latency"), (node.bandwidth.map(|bytes_per_s| bytes_per_s / 1e6), "bandwidth")]
    {
        if let Some(figure) = figure {
            let to = folder(node_folder.join("access0/initiators"))?;
            write_line(&to, &format!("read_{kind}"), &(figure.round() as u64))?;
            write_line(&to, &format!("write_{kind}"), &(figure.round() as u64))?;
        }
    }
    Ok(())
}

/// Links to the entries of a folder of the host that are neither there yet nor to be left out.
fn link_others(to: &Path, host: &Path, left_out: impl Fn(&str) -> bool) -> io::Result<()> {
    let Ok(entries) = fs::read_dir(host) else { return Ok(()) };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let link = to.join(&name);
        if !left_out(&name.to_string_lossy()) && !link.exists() {
            symlink(entry.path(), link)?;
        }
    }
    Ok(())
}

fn folder(path: PathBuf) -> io::Result<PathBuf> {
    fs::create_dir_all(&path).map(|()| path)
}

fn write_line(folder: &Path, name: &str, value: &dyn std::fmt::Display) -> io::Result<()> {
    fs::write(folder.join(name), format!("{value}\n"))
}

/// Files of CPUs: there are some forty of each, most of which say what others say. Those are one file with many names,
/// which takes a system call in place of three and no memory: programs wait for all of them before they start.
#[derive(Default)]
struct Texts(HashMap<String, PathBuf>);

impl Texts {
    fn write(&mut self, folder: &Path, name: &str, value: &dyn std::fmt::Display) -> io::Result<()> {
        self.keep(folder.join(name), format!("{value}\n"))
    }

    fn keep(&mut self, path: PathBuf, text: String) -> io::Result<()> {
        if let Some(same) = self.0.get(&text)
            && fs::hard_link(same, &path).is_ok()
        {
            return Ok(());
        }
        // A file system may know no such links, or not so many.
        fs::write(&path, &text)?;
        self.0.insert(text, path);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NodeId, Preset};

    fn written(machine: &Machine) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        write(machine, root.path(), Path::new("/")).unwrap();
        root
    }

    #[test]
    fn what_is_written_reads_back() {
        let mut machines: Vec<Machine> =
            Preset::all().iter().map(|preset| Machine::preset(preset.name).unwrap()).collect();
        let mut with_holes = Machine::preset("cxl2").unwrap();
        with_holes.nodes[2].id = NodeId(7);
        with_holes.nodes[1].memory_bytes = 0;
        (with_holes.nodes[0].latency_ns, with_holes.nodes[0].bandwidth) = (Some(80.0), Some(2e11));
        machines.push(with_holes);
        for machine in machines {
            let root = written(&machine);
            let read = crate::sysfs::read(root.path()).unwrap();
            assert_eq!(read.nodes, machine.nodes, "{}", machine.name);
        }
    }

    #[test]
    fn links_lead_to_what_they_name() {
        let root = written(&Machine::preset("opteron24").unwrap());
        let read = |path: &str| fs::read_to_string(root.path().join("sys").join(path)).unwrap();
        assert_eq!(read("bus/node/devices/node1/cpulist"), "1,5,9,13,17,21\n");
        assert_eq!(read("bus/node/devices/node1/cpumap"), "222222\n");
        assert_eq!(read("devices/system/node/node2/cpu6/topology/core_cpus"), "000040\n");
        assert_eq!(read("devices/system/cpu/cpu6/node2/distance"), "15 20 10 15\n");
        assert_eq!(read("devices/system/cpu/cpu6/topology/physical_package_id"), "2\n");
        let cpuinfo = fs::read_to_string(root.path().join("proc/cpuinfo")).unwrap();
        let values = |name: &str| {
            let lines = cpuinfo.lines().filter(|line| line.split(':').next().unwrap().trim() == name);
            lines.map(|line| line.rsplit(' ').next().unwrap().to_owned()).collect::<Vec<_>>().join(" ")
        };
        let all: Vec<String> = (0..24).map(|cpu| cpu.to_string()).collect();
        assert_eq!(values("processor"), all.join(" "));
        assert!(values("physical id").starts_with("0 1 2 3 0 1"), "{}", values("physical id"));
        // Six cores take three bits.
        assert!(values("apicid").starts_with("0 8 16 24 1 9"), "{}", values("apicid"));
    }

    #[test]
    fn masks_are_as_long_as_the_machine() {
        let mask = |cpus: &str, numbers| {
            let shape = Shape { cpus: CpuSet::new(), memory: CpuSet::new(), nodes: Vec::new(), numbers, core_bits: 0 };
            shape.mask(&CpuSet::parse(cpus).unwrap())
        };
        assert_eq!(mask("0-1", 2), "3");
        assert_eq!(mask("4-7", 16), "00f0");
        assert_eq!(mask("0-7,32-39", 64), "000000ff,000000ff");
        assert_eq!(mask("0,65", 72), "02,00000000,00000001");
    }
}
