//! A machine from the XML of hwloc 2 (`lstopo machine.xml`).
//!
//! hwloc has no "CPUs of a node": a `NUMANode` carries as its cpuset the CPUs that it is *near* to, and memory without CPUs of
//! its own (MCDRAM, CXL) has the cpuset of the part of the machine that it hangs off. In the kernel every CPU belongs to
//! exactly one node, so a CPU is given to the nearest node in this sense:
//!
//! ```text
//! smallest cpuset that has the CPU   a CXL node of the whole machine loses to each socket's memory
//! no subtype                         MCDRAM, HBM, CXL loses to the DRAM beside it (hwloc names the kind of special memory)
//! lowest number                      the kernel numbers nodes with CPUs first
//! ```
//! Nodes that are left without CPUs are memory-only nodes.
//!
//! Distances are the matrix of the kernel's SLIT, `<distances2>` named `NUMALatency` (unnamed in hwloc 2.0: the one whose kind
//! says latency). Files of hwloc 1 put nodes into the tree differently and are refused.

use crate::spec::{MAX_NODES, distances};
use crate::sysfs::read_bounded;
use crate::{CpuSet, Machine, Node, NodeId, TopologyError};
use roxmltree::{Document, ParsingOptions};
use std::path::Path;

/// Files of large machines with all their devices stay below 2 MB.
const MAX_BYTES: u64 = 64 << 20;
/// `HWLOC_DISTANCES_KIND_MEANS_LATENCY`.
const KIND_LATENCY: u64 = 1 << 2;

type Element<'a> = roxmltree::Node<'a, 'a>;

/// Reads the file; the machine is named after it.
pub(crate) fn read(path: &Path) -> Result<Machine, TopologyError> {
    let text = read_bounded(path, MAX_BYTES)?;
    let malformed = |reason| TopologyError::Malformed { path: path.into(), reason };
    let name = path.file_name().map_or_else(|| path.to_string_lossy(), |name| name.to_string_lossy());
    let machine = parse(&text, &name).map_err(malformed)?;
    machine.validate().map_err(|error| malformed(error.to_string()))?;
    Ok(machine)
}

fn parse(text: &str, name: &str) -> Result<Machine, String> {
    // lstopo writes a DOCTYPE; the parser bounds what a hostile one could expand to.
    let options = ParsingOptions { allow_dtd: true, nodes_limit: 4_000_000, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options)
        .map_err(|error| format!("not XML ({error}); write it with `lstopo machine.xml`"))?;
    let root = document.root_element();
    if root.tag_name().name() != "topology" {
        return Err(format!("not a file of lstopo: its root is <{}>, not <topology>", root.tag_name().name()));
    }
    let version = root.attribute("version").unwrap_or("1");
    if version != "2" && !version.starts_with("2.") {
        return Err(format!("a file of hwloc {version}; write it again with `lstopo machine.xml` of hwloc 2"));
    }
    let mut found = Vec::new();
    for element in objects(root).filter(|element| element.attribute("type") == Some("NUMANode")) {
        found.push(Found::read(element)?);
    }
    found.sort_by_key(|node| node.id);
    if found.is_empty() || found.len() > MAX_NODES {
        return Err(format!("{} NUMA nodes; a machine has 1 to {MAX_NODES}", found.len()));
    }
    let matrix = distance_matrix(root, &found)?;
    let cpus = share_out(&found);
    let fastest_of_kind = |node: &Found| matches!(node.subtype.as_str(), "MCDRAM" | "HBM");
    let has_fast = found.iter().any(fastest_of_kind);
    let nodes = found.iter().zip(cpus).zip(matrix).map(|((node, cpus), distances)| Node {
        id: node.id,
        // hwloc 2.10 writes the tier; without it, special memory is faster or slower by its kind.
        tier: node.tier.unwrap_or(match (fastest_of_kind(node), cpus.is_empty()) {
            (true, _) => 0,
            (false, is_memory_only) => u32::from(has_fast) + u32::from(is_memory_only),
        }),
        cpus,
        memory_bytes: node.memory_bytes,
        distances,
        huge_page_sizes: node.huge_page_sizes.clone(),
        latency_ns: None,
        bandwidth: None,
    });
    Ok(Machine { name: name.to_owned(), is_virtual: true, nodes: nodes.collect() })
}

/// A `NUMANode` as the file has it.
struct Found {
    id: NodeId,
    gp_index: Option<u64>,
    /// The CPUs that it is near to, not necessarily its own.
    near: CpuSet,
    memory_bytes: u64,
    subtype: String,
    tier: Option<u32>,
    huge_page_sizes: Vec<u64>,
}

impl Found {
    fn read(element: Element<'_>) -> Result<Found, String> {
        let id = number(element, "os_index")?.ok_or("a NUMANode has no os_index")?;
        let id = u16::try_from(id).map_err(|_| format!("NUMANode {id} has a number past {}", u16::MAX))?;
        let near = element.attribute("cpuset").unwrap_or_default();
        let tier = info(element, "MemoryTier").and_then(|tier| tier.parse().ok());
        let mut huge_page_sizes = Vec::new();
        for page_type in element.children().filter(|child| child.has_tag_name("page_type")) {
            huge_page_sizes.extend(number(page_type, "size")?.filter(|&size| size > 4096));
        }
        huge_page_sizes.sort_unstable();
        Ok(Found {
            id: NodeId(id),
            gp_index: number(element, "gp_index")?,
            near: bitmap(near).map_err(|reason| format!("NUMANode {id} has the cpuset `{}`: {reason}", clip(near)))?,
            memory_bytes: number(element, "local_memory")?.unwrap_or(0),
            subtype: element.attribute("subtype").unwrap_or_default().to_owned(),
            tier,
            huge_page_sizes,
        })
    }
}

/// Gives every CPU to the node that the essay above says.
fn share_out(found: &[Found]) -> Vec<CpuSet> {
    let mut order: Vec<usize> = (0..found.len()).collect();
    order.sort_by_key(|&index| {
        let node = &found[index];
        (node.near.len(), !node.subtype.is_empty(), node.id)
    });
    let mut shares = vec![CpuSet::new(); found.len()];
    let mut taken = CpuSet::new();
    for index in order {
        shares[index] = found[index].near.difference(&taken);
        taken.extend(shares[index].iter());
    }
    shares
}

/// Row i, column j: the distance from the i-th to the j-th node.
fn distance_matrix(root: Element<'_>, found: &[Found]) -> Result<Vec<Vec<u32>>, String> {
    let unknown = || (0..found.len()).map(|index| distances(index, found.len())).collect();
    let is_latency = |element: &Element<'_>| match element.attribute("name") {
        Some(name) => name == "NUMALatency",
        None => element
            .attribute("kind")
            .and_then(|kind| kind.parse().ok())
            .is_some_and(|kind: u64| kind & KIND_LATENCY != 0),
    };
    let mut candidates = root.children().filter(|child| child.has_tag_name("distances2"));
    let Some(element) = candidates.find(|e| e.attribute("type") == Some("NUMANode") && is_latency(e)) else {
        return Ok(unknown());
    };
    let by_gp = element.attribute("indexing") == Some("gp");
    let listed = words(element, "indexes")?;
    let values = words(element, "u64values")?;
    let count = listed.len();
    if values.len() != count * count {
        return Err(format!("its distances are {} values for {count} nodes", values.len()));
    }
    let position = |node: &Found| {
        let wanted = if by_gp { node.gp_index } else { Some(node.id.0.into()) };
        listed.iter().position(|&index| Some(index) == wanted)
    };
    let Some(positions) = found.iter().map(position).collect::<Option<Vec<usize>>>() else {
        return Err("its distances leave out a node".to_owned());
    };
    let distance = |from: usize, to: usize| {
        let value = values[from * count + to];
        u32::try_from(value).map_err(|_| format!("the distance {value} is too large"))
    };
    positions.iter().map(|&from| positions.iter().map(|&to| distance(from, to)).collect()).collect()
}

/// The numbers of all children of that name: hwloc breaks long lists into several.
fn words(element: Element<'_>, name: &str) -> Result<Vec<u64>, String> {
    let mut numbers = Vec::new();
    for child in element.children().filter(|child| child.has_tag_name(name)) {
        for word in child.text().unwrap_or_default().split_whitespace() {
            numbers.push(word.parse().map_err(|_| format!("`{}` in <{name}> is not a number", clip(word)))?);
        }
    }
    Ok(numbers)
}

fn objects<'a>(root: Element<'a>) -> impl Iterator<Item = Element<'a>> {
    root.descendants().filter(|element| element.has_tag_name("object"))
}

fn info<'a>(element: Element<'a>, name: &str) -> Option<&'a str> {
    let mut infos = element.children().filter(|child| child.has_tag_name("info"));
    infos.find(|info| info.attribute("name") == Some(name))?.attribute("value")
}

fn number(element: Element<'_>, name: &str) -> Result<Option<u64>, String> {
    let Some(text) = element.attribute(name) else {
        return Ok(None);
    };
    text.parse().map(Some).map_err(|_| format!("{name}=\"{}\" is not a number", clip(text)))
}

/// hwloc's bitmaps: 32-bit words in hexadecimal, the highest first, separated by commas; a word of zeros may be empty.
fn bitmap(text: &str) -> Result<CpuSet, &'static str> {
    let mut cpus = CpuSet::new();
    if text.is_empty() {
        return Ok(cpus);
    }
    for (index, word) in text.rsplit(',').enumerate() {
        let digits = word.strip_prefix("0x").unwrap_or(word);
        let bits = match digits {
            "" => 0,
            "f...f" => return Err("it is infinite"),
            digits => u32::from_str_radix(digits, 16).map_err(|_| "it is not hexadecimal words")?,
        };
        let first = index as u64 * 32;
        for cpu in (0..32).filter(|bit| bits >> bit & 1 == 1).map(|bit| first + bit) {
            let held = u32::try_from(cpu).is_ok_and(|cpu| cpus.insert(cpu));
            if !held {
                return Err("it has CPUs past 65535");
            }
        }
    }
    Ok(cpus)
}

fn clip(text: &str) -> String {
    text.chars().take(60).collect()
}
