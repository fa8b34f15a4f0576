//! Profiles with sound files and mad values: every analysis answers, or refuses with a reason; none crashes, and none
//! eats the memory.
//!
//! What a value means is not checked here, only that nothing depends on values being sensible. The same numbers in
//! every run.

use numalens_analyze::paths::{self, Grain};
use numalens_analyze::whatif::{self, Plan};
use numalens_analyze::{Options, advice, diff, sections};
use numalens_profile::ids::*;
use numalens_profile::testing::Synthetic;
use numalens_profile::{Engine, Profile, RecordedUnit};
use numalens_simulate::{Policy, Threads};
use numalens_topology::NodeId;

struct Scatter(u64);

impl Scatter {
    fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn below(&mut self, bound: usize) -> usize {
        self.number() as usize % bound.max(1)
    }

    /// A number at some edge.
    fn edge(&mut self) -> u64 {
        const EDGES: [u64; 12] =
            [0, 1, 2, 511, 512, 4096, 1 << 31, (1 << 32) - 1, 1 << 52, 1 << 63, u64::MAX - 1, u64::MAX];
        EDGES[self.below(EDGES.len())]
    }

    fn some<T>(&mut self, value: T) -> Option<T> {
        (self.below(3) > 0).then_some(value)
    }
}

/// Changes one value somewhere.
fn change(s: &mut Synthetic, r: &mut Scatter) {
    let (big, small) = (r.edge(), r.edge() as u32);
    let node = NodeId(r.edge() as u16);
    macro_rules! row {
        ($table:ident) => {{
            let index = r.below(s.$table.len());
            match s.$table.get_mut(index) {
                Some(row) => row,
                None => return,
            }
        }};
    }
    match r.below(40) {
        0 => row!(site_accesses).reads = big,
        1 => row!(site_accesses).writes = big,
        2 => row!(site_accesses).bin = Bin(small),
        3 => row!(site_accesses).node = r.some(node),
        4 => row!(site_accesses).home = r.some(node),
        5 => row!(site_accesses).site = SiteId(small),
        6 => row!(site_accesses).period = big,
        7 => row!(site_accesses).samples = small,
        8 => row!(object_accesses).object = ObjectId(small),
        9 => row!(object_accesses).reads = big,
        10 => row!(page_accesses).page = Page(big),
        11 => row!(page_accesses).bin = Bin(small),
        12 => row!(page_accesses).writes = big,
        13 => row!(page_accesses).thread = ThreadId(small),
        14 => row!(pages).page = Page(big),
        15 => row!(pages).count = big,
        16 => row!(pages).page_size = big,
        17 => row!(pages).bin_from = Bin(small),
        18 => row!(pages).bin_to = r.some(Bin(small)),
        19 => row!(pages).home = r.some(node),
        20 => row!(objects).size = big,
        21 => row!(objects).base = big,
        22 => row!(objects).birth_ns = big,
        23 => row!(objects).count = big,
        24 => row!(allocations).bytes = big,
        25 => row!(allocations).weight = big,
        26 => row!(allocations).time_ns = big,
        27 => row!(allocations).address = big,
        28 => row!(samples).time_ns = big,
        29 => row!(samples).address = big,
        30 => row!(samples).period = big,
        31 => row!(stacks).parent = r.some(StackId(small)),
        32 => row!(code_fetches).instructions = big,
        33 => row!(placements).time_ns = big,
        34 => row!(phases).end_ns = r.some(big),
        35 => row!(frames).depth = small,
        36 => s.meta.bin_ns = big,
        37 => s.meta.bins = small,
        38 => s.meta.duration_ns = big,
        _ => s.meta.period = big,
    }
}

#[test]
fn no_value_breaks_an_analysis() {
    let directory = tempfile::tempdir().unwrap();
    let sound = Profile::open(&Synthetic::example().write(&directory.path().join("sound.numalens")).unwrap()).unwrap();
    let (all, options) = (sections::ALL.iter().collect::<Vec<_>>(), Options::default());
    for seed in 0..120 {
        let mut scatter = Scatter(seed);
        let mut mad = Synthetic::example();
        for _ in 0..1 + scatter.below(5) {
            change(&mut mad, &mut scatter);
        }
        if seed % 2 == 0 {
            mad.samples.clear();
            (mad.meta.unit, mad.meta.engine) = (RecordedUnit::Accesses, Engine::Exact);
        }
        let path = mad.write(&directory.path().join(format!("{seed}.numalens"))).unwrap();
        let profile = Profile::open(&path).unwrap();
        // A refusal is an answer.
        let _ = numalens_profile::check(&profile);
        let _ = sections::run(&profile, &options, &all);
        let _ = advice::run(&profile, &options);
        let plan = Plan {
            machine: None,
            placements: vec![Threads::Recorded],
            policies: vec![Policy::Recorded],
            choices: Vec::new(),
            page_size: 4096,
        };
        let _ = whatif::run(&profile, &options, &plan);
        let _ = diff::run(&sound, &profile, &options);
        for grain in [Grain::Sum, Grain::InTime] {
            let _ = paths::load(&profile, &options, grain);
        }
        std::fs::remove_dir_all(path).unwrap();
    }
}
