//! A machine from the XML of hwloc 2 or 3 (`lstopo machine.xml`).
//!
//! hwloc has no "CPUs of a node": a `NUMANode` carries as its cpuset the CPUs that it is *near* to, and memory without
//! CPUs of its own (MCDRAM, CXL) has the cpuset of the part of the machine that it hangs off. In the kernel every CPU
//! belongs to exactly one node, so a CPU is given to the nearest node in this sense:
//!
//! ```text
//! smallest cpuset that has the CPU   a CXL node of the whole machine loses to each socket's memory
//! no subtype, or DRAM                MCDRAM, HBM, CXL loses to the DRAM beside it (hwloc names the kind of special
//!                                    memory)
//! lowest number                      the kernel numbers nodes with CPUs first
//! ```
//! Nodes that are left without CPUs are memory-only nodes.
//!
//! A file that was written in a cpuset, in a job or with `--restrict` leaves out what could not be used there. Objects
//! keep, as their *complete* sets, what they have on the machine, so CPUs are shared out by these, and a node then has
//! those of its share that could be used:
//!
//! ```text
//! complete_cpuset, and no cpuset     its CPUs are offline, or not allowed: no usable CPUs, and no memory tier
//! neither, in a part without CPUs    `--restrict` took its CPUs, and what they were: the same
//! neither, where CPUs are of no node offline CPUs are no node's any more: the same
//! a CPU of a node that is not there  the node's memory was not allowed: it has CPUs, and no memory
//! ```
//!
//! Distances are the matrix of the kernel's SLIT, `<distances2>` named `NUMALatency` (unnamed in hwloc 2.0: the one
//! whose kind says latency). hwloc 3 differs in this: page sizes are an info of the whole file, memory tiers elements
//! of their own (`<memtier>`, the fastest first). Files of hwloc 1 put nodes into the tree differently and are refused.

use crate::PAGE_BYTES;
pub use crate::hwloc_write::write;
use crate::spec::MAX_NODES;
use crate::sysfs::read_bounded;
use crate::{CpuSet, LOCAL_DISTANCE, Machine, Node, NodeId, REMOTE_DISTANCE, TopologyError};
use roxmltree::{Document, ParsingOptions};
use std::collections::BTreeMap;
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
    known_version(root.attribute("version").unwrap_or("1"))?;
    let found = find(root)?;
    let matrix = distance_matrix(root, &found)?;
    let is_fast = |node: &Found| matches!(node.subtype.as_str(), "MCDRAM" | "HBM");
    let has_fast = found.iter().any(is_fast);
    let nodes = found.into_iter().zip(matrix).map(|(node, distances)| Node {
        id: node.id,
        // hwloc 2.10 writes the tier; without it, special memory is faster or slower by its kind.
        tier: node.tier.unwrap_or(match (is_fast(&node), node.cpus.is_empty() && !node.only_unusable_cpus) {
            (true, _) => 0,
            (false, is_memory_only) => u32::from(has_fast) + u32::from(is_memory_only),
        }),
        cpus: node.cpus,
        only_unusable_cpus: node.only_unusable_cpus,
        memory_bytes: node.memory_bytes,
        distances,
        huge_page_sizes: node.huge_page_sizes,
        latency_ns: None,
        bandwidth: None,
    });
    Ok(Machine { name: name.to_owned(), is_virtual: true, nodes: nodes.collect() })
}

/// The nodes of a file, with their CPUs, in the order of their numbers.
fn find(root: Element<'_>) -> Result<Vec<Found>, String> {
    let tiers = tiers(root)?;
    let page_sizes = page_sizes(root)?;
    let mut found = Vec::new();
    for element in objects(root, "NUMANode") {
        found.push(Found::read(element, &tiers, &page_sizes)?);
    }
    let count = |found: &[Found]| match found.len() {
        1..=MAX_NODES => Ok(()),
        nodes => Err(format!("{nodes} NUMA nodes; a machine has 1 to {MAX_NODES}")),
    };
    count(&found)?;
    let shares = share_out(&found);
    let whole = objects(root, "Machine").next().unwrap_or(root);
    settle(&mut found, shares, whole)?;
    found.extend(without_memory(root, &found)?);
    found.sort_by_key(|node| node.id);
    count(&found)?;
    let listed: CpuSet = found.iter().flat_map(|node| node.cpus.iter()).collect();
    let homeless = set(whole, "cpuset")?.difference(&listed);
    match found.as_mut_slice() {
        _ if homeless.is_empty() => {}
        // The kernel gives CPUs without a node to the nearest one.
        [only] => only.cpus.extend(homeless.iter()),
        _ => {
            return Err(format!(
                "its CPUs {homeless} are of no NUMA node; if their nodes were not allowed where it was written, write it with \
                 `lstopo --disallowed machine.xml`"
            ));
        }
    }
    if found.iter().all(|node| node.memory_bytes == 0) {
        let why = "no node has memory: where it was written nobody could say how much there is; give the NUMANodes a \
                   local_memory=\"BYTES\"";
        return Err(why.to_owned());
    }
    Ok(found)
}

fn known_version(version: &str) -> Result<(), String> {
    let major = version.split('.').next().unwrap_or_default();
    match major.parse::<u32>() {
        Ok(2 | 3) => Ok(()),
        Ok(0 | 1) => Err(format!(
            "a file of hwloc {version}; `lstopo -i FILE machine.xml` of hwloc 2 makes one of hwloc 2 of it"
        )),
        _ => Err(format!(
            "a file of hwloc {}, while those of hwloc 2 and 3 are read; write it with `lstopo --export-xml-flags v2 machine.xml`",
            clip(version)
        )),
    }
}

/// A node as the file has it.
struct Found {
    id: NodeId,
    gp_index: Option<u64>,
    /// The CPUs that it is near to, not necessarily its own, and whether or not they could be used.
    near: CpuSet,
    /// It stands nowhere in the file, but CPUs say that they are its.
    is_mentioned_only: bool,
    /// It stands in a part of the machine, a package for instance, that has no CPUs.
    is_deserted: bool,
    /// Those of its CPUs that could be used: at first of those that it is near to, then of its own.
    cpus: CpuSet,
    only_unusable_cpus: bool,
    memory_bytes: u64,
    subtype: String,
    tier: Option<u32>,
    huge_page_sizes: Vec<u64>,
}

impl Found {
    fn read(element: Element<'_>, tiers: &[CpuSet], page_sizes: &[u64]) -> Result<Found, String> {
        let id = number(element, "os_index")?.ok_or("a NUMANode has no os_index")?;
        let id = u16::try_from(id).map_err(|_| format!("NUMANode {id} has a number past {}", u16::MAX))?;
        let tier = match info(element, "MemoryTier").and_then(|tier| tier.parse().ok()) {
            Some(tier) => Some(tier),
            None => (0..).zip(tiers).find(|(_, members)| members.contains(id.into())).map(|(rank, _)| rank),
        };
        let mut huge_page_sizes = page_sizes.to_vec();
        for page_type in element.children().filter(|child| child.has_tag_name("page_type")) {
            huge_page_sizes.extend(number(page_type, "size")?);
        }
        huge_page_sizes.retain(|&size| size > PAGE_BYTES);
        huge_page_sizes.sort_unstable();
        huge_page_sizes.dedup();
        let parent = element.parent_element().filter(|parent| {
            // The machine as a whole is no part of it, and what is no object has no CPUs anyway.
            parent.has_tag_name("object") && !matches!(parent.attribute("type"), Some("Machine" | "MemCache"))
        });
        Ok(Found {
            id: NodeId(id),
            gp_index: number(element, "gp_index")?,
            near: complete_set(element)?,
            is_mentioned_only: false,
            is_deserted: parent.map(complete_set).transpose()?.is_some_and(|cpus| cpus.is_empty()),
            cpus: set(element, "cpuset")?,
            only_unusable_cpus: false,
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
        (node.near.len(), !matches!(node.subtype.as_str(), "" | "DRAM"), node.id)
    });
    let mut shares = vec![CpuSet::new(); found.len()];
    let mut taken = CpuSet::new();
    for index in order {
        shares[index] = found[index].near.difference(&taken);
        taken.extend(shares[index].iter());
    }
    shares
}

/// Which CPUs of its share a node has, and why it has none. `whole`: the machine.
fn settle(found: &mut [Found], shares: Vec<CpuSet>, whole: Element<'_>) -> Result<(), String> {
    let everywhere: CpuSet = shares.iter().flat_map(CpuSet::iter).collect();
    let mut usable = set(whole, "cpuset")?;
    usable.extend(found.iter().flat_map(|node| node.cpus.iter()));
    let has_lost = !complete_set(whole)?.is_subset_of(&everywhere);
    for (node, share) in found.iter_mut().zip(shares) {
        node.cpus = share.intersection(&usable);
        let may_have_lost = node.near.is_empty() && (has_lost && node.subtype.is_empty() || node.is_deserted);
        node.only_unusable_cpus = node.cpus.is_empty() && (!share.is_empty() || may_have_lost);
    }
    Ok(())
}

/// The nodes that the file only mentions: CPUs say that they are theirs.
fn without_memory(root: Element<'_>, found: &[Found]) -> Result<Vec<Found>, String> {
    let mut missing: BTreeMap<u32, CpuSet> = BTreeMap::new();
    for cpu in objects(root, "PU") {
        let cpus = set(cpu, "cpuset")?;
        if found.iter().any(|node| !node.cpus.intersection(&cpus).is_empty()) {
            continue;
        }
        let of = set(cpu, "complete_nodeset")?.iter().find(|id| found.iter().all(|node| u32::from(node.id.0) != *id));
        if let Some(id) = of {
            missing.entry(id).or_default().extend(cpus.iter());
        }
    }
    let node = |(id, cpus): (u32, CpuSet)| Found {
        id: NodeId(id as u16),
        gp_index: None,
        near: CpuSet::new(),
        is_mentioned_only: true,
        is_deserted: false,
        cpus,
        only_unusable_cpus: false,
        memory_bytes: 0,
        subtype: String::new(),
        tier: None,
        huge_page_sizes: Vec::new(),
    };
    Ok(missing.into_iter().map(node).collect())
}

/// The nodes of each memory tier, the fastest first, as hwloc 3 has them.
fn tiers(root: Element<'_>) -> Result<Vec<CpuSet>, String> {
    root.children().filter(|child| child.has_tag_name("memtier")).map(|tier| set(tier, "nodeset")).collect()
}

/// The sizes of pages, as hwloc 3 has them.
fn page_sizes(root: Element<'_>) -> Result<Vec<u64>, String> {
    let list = info(root, "PageSizes").unwrap_or_default();
    let sizes = list.split(',').map(str::trim).filter(|size| !size.is_empty());
    sizes.map(|size| size.parse().map_err(|_| format!("the page size `{}` is not a number", clip(size)))).collect()
}

/// Row i, column j: the distance from the i-th to the j-th node. Nodes that the file only mentions are as far as the
/// farthest.
fn distance_matrix(root: Element<'_>, found: &[Found]) -> Result<Vec<Vec<u32>>, String> {
    let is_latency = |element: &Element<'_>| match element.attribute("name") {
        Some(name) => name == "NUMALatency",
        None => element
            .attribute("kind")
            .and_then(|kind| kind.parse().ok())
            .is_some_and(|kind: u64| kind & KIND_LATENCY != 0),
    };
    let mut candidates = root.children().filter(|child| child.has_tag_name("distances2"));
    let matrix = candidates.find(|e| e.attribute("type") == Some("NUMANode") && is_latency(e));
    let (by_gp, listed, values) = match matrix {
        Some(element) => {
            let by_gp = element.attribute("indexing") == Some("gp");
            (by_gp, words(element, "indexes")?, words(element, "u64values")?)
        }
        None => (false, Vec::new(), Vec::new()),
    };
    let count = listed.len();
    if values.len() != count * count {
        return Err(format!("its distances are {} values for {count} nodes", values.len()));
    }
    let position = |node: &Found| {
        let wanted = if by_gp { node.gp_index } else { Some(node.id.0.into()) };
        listed.iter().position(|&index| Some(index) == wanted)
    };
    let positions: Vec<Option<usize>> = found.iter().map(position).collect();
    if matrix.is_some() && found.iter().zip(&positions).any(|(node, at)| at.is_none() && !node.is_mentioned_only) {
        return Err("its distances leave out a node".to_owned());
    }
    let far = values.iter().copied().max().filter(|_| count > 1).unwrap_or(REMOTE_DISTANCE.into());
    let distance = |from: usize, to: usize| {
        let value = match (positions[from], positions[to]) {
            (Some(from), Some(to)) => values[from * count + to],
            _ if from == to => LOCAL_DISTANCE.into(),
            _ => far,
        };
        u32::try_from(value).map_err(|_| format!("the distance {value} is too large"))
    };
    (0..found.len()).map(|from| (0..found.len()).map(|to| distance(from, to)).collect()).collect()
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

fn objects<'a>(root: Element<'a>, kind: &'a str) -> impl Iterator<Item = Element<'a>> {
    let all = root.descendants().filter(|element| element.has_tag_name("object"));
    all.filter(move |element| element.attribute("type") == Some(kind))
}

/// What an object has, whether or not it could be used.
fn complete_set(element: Element<'_>) -> Result<CpuSet, String> {
    let mut all = set(element, "complete_cpuset")?;
    all.extend(set(element, "cpuset")?.iter());
    Ok(all)
}

/// A set among the attributes of an element; of one that has none: the empty set.
fn set(element: Element<'_>, name: &str) -> Result<CpuSet, String> {
    let text = element.attribute(name).unwrap_or_default();
    bitmap(text).map_err(|reason| {
        let kind = element.attribute("type").unwrap_or(element.tag_name().name());
        let number = element.attribute("os_index").map(|number| format!(" {number}")).unwrap_or_default();
        format!("{kind}{} has the {name} `{}`: {reason}", clip(&number), clip(text))
    })
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
                return Err("it has numbers past 65535");
            }
        }
    }
    Ok(cpus)
}

fn clip(text: &str) -> String {
    text.chars().take(60).collect()
}
