//! Machines that can be named, as data: one entry of [`TABLE`] each.

use crate::{CpuSet, Machine, Node, NodeId, TopologyError};

/// A machine known by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Preset {
    /// What `--machine` takes.
    pub name: &'static str,
    /// One line about the machine.
    pub description: &'static str,
    nodes: &'static [Row],
}

/// A node: CPUs, memory in GiB, tier, SLIT distances to all nodes.
type Row = (&'static str, u64, u32, &'static [u32]);

/// All are x86-64 machines: huge pages of 2 MiB and 1 GiB.
const HUGE_PAGE_SIZES: [u64; 2] = [2 << 20, 1 << 30];

static TABLE: [Preset; 6] = [
    // MacGregor, Trinder, Loidl: Improving GHC Haskell NUMA Profiling, FHPNC 2021: distances from figure 2, 64 cores
    // and 8 GB in each of 8 regions from section 3.2.
    Preset {
        name: "togian",
        description: "AMD Opteron 6366 HE, 4 sockets: 8 nodes x 8 CPUs at distances 10, 16, 22",
        nodes: &[
            ("0-7", 8, 0, &[10, 16, 16, 22, 16, 22, 16, 22]),
            ("8-15", 8, 0, &[16, 10, 22, 16, 16, 22, 22, 16]),
            ("16-23", 8, 0, &[16, 22, 10, 16, 16, 16, 16, 16]),
            ("24-31", 8, 0, &[22, 16, 16, 10, 16, 16, 22, 22]),
            ("32-39", 8, 0, &[16, 16, 16, 16, 10, 16, 16, 22]),
            ("40-47", 8, 0, &[22, 22, 16, 16, 16, 10, 22, 16]),
            ("48-55", 8, 0, &[16, 22, 16, 22, 16, 22, 10, 16]),
            ("56-63", 8, 0, &[22, 16, 16, 22, 22, 16, 16, 10]),
        ],
    },
    // Mariano, Diener, Bischof, Navaux: Analyzing and Improving Memory Access Patterns of Large Irregular Applications
    // on NUMA Machines, table I: 4 x Xeon X7550, 8 cores, 2-way SMT, 128 GB, NUMA factor 1.5. The second thread of core
    // c is c + 32, as Linux numbers them.
    Preset {
        name: "xeon64",
        description: "Intel Xeon X7550, 4 sockets: 4 nodes x 16 CPUs, NUMA factor 1.5",
        nodes: &[
            ("0-7,32-39", 32, 0, &[10, 15, 15, 15]),
            ("8-15,40-47", 32, 0, &[15, 10, 15, 15]),
            ("16-23,48-55", 32, 0, &[15, 15, 10, 15]),
            ("24-31,56-63", 32, 0, &[15, 15, 15, 10]),
        ],
    },
    // Kumar, Saxena: An Analysis of Shared Library Performance on NUMA Architectures, section 3: 4 x Opteron 8431, node
    // i has cores i, i+4, ...; figure 4: node 1 horizontal, 2 vertical, 3 diagonal to node 0; measured 614 ticks at
    // home, 932 and 928 to adjacent nodes, 1240 along the diagonal: 1.5 and 2 times. The paper does not give the
    // memory; 8 GiB a node is assumed.
    Preset {
        name: "opteron24",
        description: "AMD Opteron 8431, 4 sockets in a square: 4 nodes x 6 CPUs, sides 15, diagonals 20",
        nodes: &[
            ("0,4,8,12,16,20", 8, 0, &[10, 15, 15, 20]),
            ("1,5,9,13,17,21", 8, 0, &[15, 10, 20, 15]),
            ("2,6,10,14,18,22", 8, 0, &[15, 20, 10, 15]),
            ("3,7,11,15,19,23", 8, 0, &[20, 15, 15, 10]),
        ],
    },
    // Intel Xeon Phi 7250 in SNC-4 cluster mode and flat memory mode, as `numactl --hardware` prints it: 68 cores x 4
    // threads in quarters of 18, 18, 16 and 16 cores; each quarter has 24 GiB of DDR4 and, as a node without CPUs, 4
    // GiB of MCDRAM. The firmware gives MCDRAM the greater distances so that it is not used by default, although it has
    // several times the bandwidth: the tiers say what it is.
    Preset {
        name: "knl-snc4-flat",
        description: "Intel Xeon Phi 7250, SNC-4, flat: 4 nodes with CPUs (272 in all), 4 MCDRAM nodes without",
        nodes: &[
            ("0-17,68-85,136-153,204-221", 24, 1, &[10, 21, 21, 21, 31, 41, 41, 41]),
            ("18-35,86-103,154-171,222-239", 24, 1, &[21, 10, 21, 21, 41, 31, 41, 41]),
            ("36-51,104-119,172-187,240-255", 24, 1, &[21, 21, 10, 21, 41, 41, 31, 41]),
            ("52-67,120-135,188-203,256-271", 24, 1, &[21, 21, 21, 10, 41, 41, 41, 31]),
            ("", 4, 0, &[31, 41, 41, 41, 10, 41, 41, 41]),
            ("", 4, 0, &[41, 31, 41, 41, 41, 10, 41, 41]),
            ("", 4, 0, &[41, 41, 31, 41, 41, 41, 10, 41]),
            ("", 4, 0, &[41, 41, 41, 31, 41, 41, 41, 10]),
        ],
    },
    // Two AMD EPYC 7742 with four nodes per socket (NPS4), as `numactl --hardware` prints it: 12 within a socket, 32
    // across; the second thread of core c is c + 128. 512 GiB in all.
    Preset {
        name: "epyc-nps4",
        description: "AMD EPYC 7742, 2 sockets, NPS4: 8 nodes x 32 CPUs, 12 within a socket, 32 across",
        nodes: &[
            ("0-15,128-143", 64, 0, &[10, 12, 12, 12, 32, 32, 32, 32]),
            ("16-31,144-159", 64, 0, &[12, 10, 12, 12, 32, 32, 32, 32]),
            ("32-47,160-175", 64, 0, &[12, 12, 10, 12, 32, 32, 32, 32]),
            ("48-63,176-191", 64, 0, &[12, 12, 12, 10, 32, 32, 32, 32]),
            ("64-79,192-207", 64, 0, &[32, 32, 32, 32, 10, 12, 12, 12]),
            ("80-95,208-223", 64, 0, &[32, 32, 32, 32, 12, 10, 12, 12]),
            ("96-111,224-239", 64, 0, &[32, 32, 32, 32, 12, 12, 10, 12]),
            ("112-127,240-255", 64, 0, &[32, 32, 32, 32, 12, 12, 12, 10]),
        ],
    },
    // Two sockets of a Xeon and a CXL type 3 expander at the first, a node without CPUs in the slower tier, with the
    // distances that such machines print (stevescargall.com, "How to map a CXL endpoint to a CPU socket", 2022): 21
    // between sockets, 14 from the expander's own socket, 24 from the other. Counts of CPUs and memory are round
    // numbers.
    Preset {
        name: "cxl2",
        description: "2 nodes x 16 CPUs, and a CXL memory expander at the first as a node without CPUs",
        nodes: &[("0-15", 64, 0, &[10, 21, 14]), ("16-31", 64, 0, &[21, 10, 24]), ("", 128, 1, &[14, 24, 10])],
    },
];

impl Preset {
    /// The machines known by name.
    pub fn all() -> &'static [Preset] {
        &TABLE
    }

    /// The preset of that name.
    pub fn named(name: &str) -> Option<&'static Preset> {
        TABLE.iter().find(|preset| preset.name == name)
    }

    /// The machine that it describes.
    pub(crate) fn machine(&self) -> Result<Machine, TopologyError> {
        let nodes = (0..).zip(self.nodes).map(|(id, &(cpus, gib, tier, distances))| {
            Ok(Node {
                id: NodeId(id),
                cpus: CpuSet::parse(cpus)?,
                memory_bytes: gib << 30,
                distances: distances.to_vec(),
                tier,
                huge_page_sizes: HUGE_PAGE_SIZES.to_vec(),
                only_unusable_cpus: false,
                latency_ns: None,
                bandwidth: None,
            })
        });
        Ok(Machine {
            name: self.name.to_owned(),
            is_virtual: true,
            nodes: nodes.collect::<Result<_, TopologyError>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_consistent() {
        for preset in Preset::all() {
            let m = preset.machine().unwrap();
            m.validate().unwrap();
            assert!(m.is_virtual && m.name == preset.name);
            for a in &m.nodes {
                assert_eq!(m.distance(a.id, a.id), 10, "{}", preset.name);
                for b in &m.nodes {
                    assert_eq!(m.distance(a.id, b.id), m.distance(b.id, a.id), "{} {} {}", preset.name, a.id, b.id);
                }
            }
        }
    }

    #[test]
    fn presets_have_the_shape_that_the_manual_promises() {
        let shape = |name| {
            let m = Machine::preset(name).unwrap();
            m.nodes.iter().map(|node| node.cpus.len()).collect::<Vec<_>>()
        };
        assert_eq!(shape("togian"), [8; 8]);
        assert_eq!(shape("xeon64"), [16; 4]);
        assert_eq!(shape("opteron24"), [6; 4]);
        assert_eq!(shape("knl-snc4-flat"), [72, 72, 64, 64, 0, 0, 0, 0]);
        assert_eq!(shape("epyc-nps4"), [32; 8]);
        assert_eq!(shape("cxl2"), [16, 16, 0]);
        assert_eq!(Preset::all().len(), 6);
        assert!(Machine::preset("togia").is_none());
    }

    /// Most rows of figure 2 are as the paper's text says (4 nodes at 16, 3 at 22); nodes 2 and 4 have 6 and 1.
    #[test]
    fn togian_has_the_distances_of_the_paper() {
        let m = Machine::preset("togian").unwrap();
        let count = |distance| m.nodes.iter().flat_map(|node| &node.distances).filter(|&&d| d == distance).count();
        assert_eq!(count(10), 8);
        assert_eq!((count(16), count(22)), (36, 20));
    }
}
