//! The sections of a report: one row each.

pub(crate) mod access_matrix;
mod address_space;
mod allocation_matrix;
mod call_tree;
mod code_matrix;
mod code_placement;
mod collector;
mod communication;
mod event_flow;
mod exclusivity;
mod first_touch;
mod functions;
mod huge_pages;
mod inclusive;
mod line_objects;
mod line_sharing;
mod lines;
mod machine;
mod misses;
mod node_timeline;
mod objects;
mod pages;
pub mod phases;
mod placements;
mod remote_frees;
mod residency;
pub(crate) mod summary;
mod threads;
mod tiers;
mod timeline;
pub mod verdict;

use crate::dataset::Dataset;
use crate::dataset::options::Options;
use crate::dataset::source::LoadError;
use crate::facts::fold::Need;
use crate::model::metrics;
use crate::model::report::{Report, Shape, Table};
use numalens_profile::Profile;
use rayon::prelude::*;

/// A section.
pub struct Section {
    /// The name after `--section`.
    pub name: &'static str,
    /// What it answers.
    pub help: &'static str,
    /// Tables to read for it.
    needs: &'static [Need],
    run: fn(&Dataset) -> Vec<Report>,
    /// Makes the first rows alone, where all are many.
    first: Option<fn(&Dataset, usize) -> Vec<Report>>,
    /// The same for a first screen: what belongs to system libraries in a row for each of these.
    folded: Option<fn(&Dataset) -> Vec<Report>>,
    /// Whether a report on the terminal shows it without being asked.
    pub first_screen: bool,
}

impl Section {
    /// Runs the analysis on a dataset that was loaded with this section among the wanted ones.
    pub fn run(&self, dataset: &Dataset) -> Vec<Report> {
        self.completed(dataset, (self.run)(dataset))
    }

    /// The same with no more rows in each table than `rows`.
    pub fn run_first(&self, dataset: &Dataset, rows: usize) -> Vec<Report> {
        let mut reports = match self.first {
            Some(first) => first(dataset, rows),
            None => (self.run)(dataset),
        };
        reports.iter_mut().for_each(|report| report.limit(rows));
        self.completed(dataset, reports)
    }

    /// The same for a first screen.
    fn run_folded(&self, dataset: &Dataset) -> Vec<Report> {
        let mut reports = self.completed(dataset, self.folded.unwrap_or(self.run)(dataset));
        reports.iter_mut().filter(|report| BY_SHARE.contains(&report.section)).for_each(|report| report.worth(LEAST));
        reports
    }

    fn completed(&self, dataset: &Dataset, mut reports: Vec<Report>) -> Vec<Report> {
        if !dataset.about.meta.reads_and_writes {
            reports.iter_mut().for_each(|report| report.blank(&[&metrics::READS, &metrics::WRITES]));
        }
        reports
    }
}

/// Sections whose rows are left out of a first screen where they have less than so many percent.
const BY_SHARE: [&str; 4] = ["functions", "lines", "objects", "first-touch"];
const LEAST: f64 = 1.0;

/// Every section, in the order in which reports show them.
pub static ALL: &[Section] = &[
    Section {
        name: "verdict",
        help: "how much is remote, what could be saved, the main fault and its remedy",
        needs: verdict::NEEDS,
        run: verdict::run,
        first: None,
        folded: None,
        first_screen: true,
    },
    Section {
        name: "summary",
        help: "the figures of the whole program",
        needs: &[Need::Sites, Need::MainUsers, Need::Placed],
        run: summary::run,
        first: None,
        folded: None,
        first_screen: true,
    },
    Section {
        name: "matrix",
        help: "accesses by thread's node and page's home",
        needs: &[Need::Sites],
        run: access_matrix::run,
        first: None,
        folded: None,
        first_screen: true,
    },
    Section {
        name: "allocation-matrix",
        help: "allocated bytes by thread's node and pages' home",
        needs: &[Need::Allocations, Need::Placed, Need::Sites],
        run: allocation_matrix::run,
        first: None,
        folded: None,
        first_screen: false,
    },
    Section {
        name: "code-matrix",
        help: "executed code by thread's node and code page's home",
        needs: &[Need::Fetches, Need::Sites],
        run: code_matrix::run,
        first: None,
        folded: None,
        first_screen: false,
    },
    Section {
        name: "code-placement",
        help: "where each module's code lies, and who executes it",
        needs: &[Need::Fetches, Need::Placed, Need::Names],
        run: code_placement::run,
        first: None,
        folded: None,
        first_screen: false,
    },
    Section {
        name: "threads",
        help: "who accesses what",
        needs: &[Need::Sites, Need::Placed],
        run: threads::run,
        first: None,
        folded: None,
        first_screen: false,
    },
    Section {
        name: "functions",
        help: "accesses by function",
        needs: &[Need::Sites, Need::Placed, Need::Names],
        run: functions::run,
        first: None,
        folded: Some(functions::folded),
        first_screen: true,
    },
    Section {
        name: "lines",
        help: "accesses by source line",
        needs: &[Need::Sites, Need::Placed, Need::Names],
        run: lines::run,
        first: Some(lines::first),
        folded: Some(lines::folded),
        first_screen: true,
    },
    Section {
        name: "inclusive",
        help: "accesses, first touches and allocations by function, with what it called",
        needs: &[Need::Sites, Need::Stacks, Need::Objects, Need::Placed, Need::Names],
        run: inclusive::run,
        first: None,
        folded: None,
        first_screen: false,
    },
    Section {
        name: "line-objects",
        help: "the objects and call stacks behind each line",
        needs: &[Need::Sites, Need::Stacks, Need::Uses, Need::Placed, Need::Names],
        run: line_objects::run,
        first: None,
        folded: None,
        first_screen: false,
    },
    Section {
        name: "call-tree",
        help: "accesses, first touches and allocations by who called whom",
        needs: &[Need::Sites, Need::Stacks, Need::Objects, Need::Placed, Need::Names],
        run: call_tree::run,
        first: None,
        folded: None,
        first_screen: false,
    },
    Section {
        name: "objects",
        help: "accesses by allocation, variable, file, code, stack",
        needs: &[Need::Sites, Need::Objects, Need::PageSums, Need::CacheLines, Need::Names],
        run: objects::run,
        first: None,
        folded: None,
        first_screen: true,
    },
    Section {
        name: "first-touch",
        help: "which line placed the pages, and where",
        needs: &[Need::Placed, Need::Names, Need::Sites],
        run: first_touch::run,
        first: None,
        folded: None,
        first_screen: true,
    },
    Section {
        name: "pages",
        help: "the pages that most remote accesses go to",
        needs: &[Need::Pages, Need::Names, Need::Sites],
        run: pages::run,
        first: None,
        folded: None,
        first_screen: false,
    },
    Section {
        name: "address-space",
        help: "what lies where, and who uses it",
        needs: &[Need::Pages, Need::Placed],
        run: address_space::run,
        first: None,
        folded: None,
        first_screen: false,
    },
    Section {
        name: "huge-pages",
        help: "huge pages that several nodes use in disjoint parts",
        needs: &[Need::Pages, Need::Names, Need::Sites],
        run: huge_pages::run,
        first: None,
        folded: None,
        first_screen: false,
    },
    Section {
        name: "communication",
        help: "which threads use the same pages, or cache lines",
        needs: &[Need::PageSums, Need::LinePairs, Need::Sites],
        run: communication::run,
        first: None,
        folded: None,
        first_screen: false,
    },
    Section {
        name: "cache-lines",
        help: "cache lines that threads take from each other (record --lines)",
        needs: &[Need::CacheLines, Need::Placed, Need::Names, Need::Sites],
        run: line_sharing::run,
        first: None,
        folded: None,
        first_screen: false,
    },
    Section {
        name: "memory-tiers",
        help: "accesses and bytes by tier of memory, hot and cold pages",
        needs: &[Need::Pages, Need::Placed, Need::Sites],
        run: tiers::run,
        first: None,
        folded: None,
        first_screen: false,
    },
    Section {
        name: "residency",
        help: "live and allocated bytes of the heap, placed bytes, over time",
        needs: &[Need::Allocations, Need::Placed, Need::Sites],
        run: residency::run,
        first: None,
        folded: None,
        first_screen: false,
    },
    Section {
        name: "remote-frees",
        help: "blocks released on another node than the one that allocated them",
        needs: &[Need::Allocations, Need::Objects, Need::Names],
        run: remote_frees::run,
        first: None,
        folded: None,
        first_screen: false,
    },
    Section {
        name: "collector",
        help: "collections of garbage, what they access and process",
        needs: &[Need::Sites, Need::Collectors, Need::Names],
        run: collector::run,
        first: None,
        folded: None,
        first_screen: false,
    },
    Section {
        name: "phases",
        help: "named spans of the program, and what it accessed meanwhile",
        needs: &[Need::NodeTimes, Need::Sites],
        run: phases::run,
        first: None,
        folded: None,
        first_screen: false,
    },
    Section {
        name: "placements",
        help: "where threads were allowed to run, and why",
        needs: &[],
        run: placements::run,
        first: None,
        folded: None,
        first_screen: false,
    },
    Section {
        name: "timeline",
        help: "classes of accesses and placed pages over time",
        needs: &[Need::NodeTimes, Need::Sites, Need::Placed],
        run: timeline::run,
        first: None,
        folded: None,
        first_screen: false,
    },
    Section {
        name: "node-timeline",
        help: "what every node serves and does over time",
        needs: &[Need::NodeTimes, Need::Placed, Need::Sites],
        run: node_timeline::run,
        first: None,
        folded: None,
        first_screen: false,
    },
    Section {
        name: "object-flow",
        help: "what happened to objects, in order of time: of all the first 1000 events, of one (--object) all",
        needs: &[Need::ObjectEvents, Need::Placed, Need::Names, Need::Sites],
        run: event_flow::of_objects,
        first: None,
        folded: None,
        first_screen: false,
    },
    Section {
        name: "thread-flow",
        help: "what threads did, in order of time: of all the first 1000 events, of one (--thread) all",
        needs: &[Need::ThreadEvents, Need::Placed, Need::Names, Need::Sites],
        run: event_flow::of_threads,
        first: None,
        folded: None,
        first_screen: false,
    },
    Section {
        name: "machine",
        help: "nodes, CPUs, memory, distances",
        needs: &[],
        run: machine::run,
        first: None,
        folded: None,
        first_screen: false,
    },
];

/// The section of a name.
pub fn named(name: &str) -> Option<&'static Section> {
    ALL.iter().find(|section| section.name == name)
}

/// Loads what these sections need and runs them. The first report is always `meta`.
///
/// # Errors
/// The profile cannot be read; a process is not in it.
pub fn run(profile: &Profile, options: &Options, sections: &[&Section]) -> Result<Vec<Report>, LoadError> {
    Ok(of(&load(profile, options, sections)?, sections))
}

/// The same, of a dataset that was loaded with what [`needs`] says.
pub fn of(dataset: &Dataset, sections: &[&Section]) -> Vec<Report> {
    let mut reports = vec![dataset.about.report()];
    reports.par_extend(sections.par_iter().flat_map_iter(|section| section.run(dataset)));
    reports
}

/// The same for a first screen: system libraries are a row each, and rows of code, objects and first touches that have
/// less than a hundredth are left out.
pub fn first_screen_of(dataset: &Dataset, sections: &[&Section]) -> Vec<Report> {
    let mut reports = vec![dataset.about.report()];
    reports.par_extend(sections.par_iter().flat_map_iter(|section| section.run_folded(dataset)));
    reports
}

/// The same with no more rows in each table than `rows`.
pub fn first_of(dataset: &Dataset, sections: &[&Section], rows: usize) -> Vec<Report> {
    let mut reports = vec![dataset.about.report()];
    reports.par_extend(sections.par_iter().flat_map_iter(|section| section.run_first(dataset, rows)));
    reports
}

/// What these sections need.
pub fn needs(sections: &[&Section]) -> Vec<Need> {
    sections.iter().flat_map(|section| section.needs).copied().collect()
}

/// Loads what these sections need.
///
/// # Errors
/// As [`run`].
pub fn load(profile: &Profile, options: &Options, sections: &[&Section]) -> Result<Dataset, LoadError> {
    Dataset::load(profile, options, &needs(sections))
}

/// Every metric that tables of these reports can be sorted by, in the registry's order.
pub fn sort_keys(reports: &[Report]) -> Vec<&'static str> {
    let offered = |name: &str| {
        reports.iter().any(|report| matches!(&report.shape, Shape::Table(Table { columns, .. }) if columns.iter().any(|c| c.metric.is_some_and(|m| m.name == name))))
    };
    crate::model::metrics::ALL.iter().map(|metric| metric.name).filter(|name| offered(name)).collect()
}
