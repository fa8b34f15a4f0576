//! Advice: what to change, where, why, and what it would gain.
//!
//! ```text
//!   page use --> usage of each target --> classify: pattern, remedy --> causes: targets of one cause --.
//!         \-> threads, code         --> program: pattern, remedy ------------------------------------'
//!                                                                 --> gain (cost model) --> ranked findings
//! ```
//!
//! A remedy is a change of traffic: what the target's accesses are taken away from, and where they go instead. Its gain
//! is the difference in memory time that `numalens_simulate` predicts for the whole program; the interval spans the
//! cost model's extremes and the chance of sampling. A finding needs evidence above noise: its accesses must be more
//! than a hundredth of all at the lower end of the interval, and its gain more than [`LEAST_GAIN`]. No finding is an
//! answer.

mod after;
mod candidate;
mod case;
mod causes;
pub(crate) mod classify;
mod evidence;
mod judgement;
mod kept;
mod neighbours;
mod notes;
mod program;
mod snippets;
mod unbound;

pub(crate) use candidate::{LEAST_GAIN, LEAST_SAMPLES};
pub(crate) use program::cached_crowds;

use crate::dataset::Dataset;
use crate::dataset::options::Options;
use crate::dataset::source::LoadError;
use crate::dataset::usages::{self, Usages};
use crate::facts::fold::Need;
use crate::model::about::Unit;
use crate::model::report::{Field, Finding, Report, Shape, Value};
use candidate::{Candidate, Effect, LEAST_SHARE};
use neighbours::Neighbours;
use numalens_profile::Profile;
use numalens_simulate::Traffic;

/// Percent of all the program's time below which nobody would feel a gain that may be nothing.
const LEAST_LIKELY: f64 = 1.0;
/// What is said of fewer.
const FEW: &str = "samples of accesses are too few to judge: record for longer, or with a higher --frequency";
/// Findings that are told.
const MOST: usize = 20;

/// What a dataset must have been loaded with.
pub const NEEDS: &[Need] =
    &[Need::PageSums, Need::Objects, Need::Fetches, Need::CacheLines, Need::Names, Need::Sites, Need::Uses];

/// Loads what advice needs, and gives it. The first report is `meta`.
///
/// # Errors
/// The profile cannot be read; a process is not in it.
pub fn run(profile: &Profile, options: &Options) -> Result<Vec<Report>, LoadError> {
    Ok(of(&Dataset::load(profile, options, NEEDS)?))
}

/// The same, of a dataset that was loaded with [`NEEDS`].
pub fn of(dataset: &Dataset) -> Vec<Report> {
    let mut reports = vec![dataset.about.report()];
    reports.extend_from_slice(without_meta(dataset));
    reports
}

/// The same without `meta`, made once.
pub(crate) fn without_meta(dataset: &Dataset) -> &[Report] {
    if dataset.derived.advice.get().is_none() {
        // Not inside of the cell: whoever waits for other threads takes up other work, which may come here too.
        let made = findings(dataset);
        return dataset.derived.advice.get_or_init(|| made);
    }
    dataset.derived.advice.get().map_or(&[], Vec::as_slice)
}

/// The findings, and whether there are none.
fn findings(dataset: &Dataset) -> Vec<Report> {
    let mut doubts = Vec::new();
    // Both read all page use.
    let (usages, clusters) = rayon::join(|| Usages::of(dataset), || program::clusters(dataset));
    let enough = usages.all.samples == 0 || usages.all.samples >= LEAST_SAMPLES;
    let fetches: u64 = dataset.facts.fetches.instructions.values().sum();
    let neighbours = Neighbours::of(dataset);
    let mut findings = Vec::new();
    if let Some(missing) = dataset.facts.sums_only() {
        doubts.push(missing);
    } else if usages.all.accesses() == 0 && dataset.facts.fetches.instructions.is_empty() {
        doubts.push(dataset.about.none("accesses"));
    } else if !usages::matters(dataset) {
        doubts.push("the machine has one node: record on a virtual one, with --machine 4x2".to_string());
    } else if !enough && fetches < LEAST_SAMPLES {
        doubts.push(format!("{} {FEW}", usages.all.samples));
    } else {
        let openmp = dataset.code.has_threading();
        let candidates = if enough {
            let mut candidates = program::candidates(&usages, &clusters);
            candidates.extend(classify::candidates(&usages, &clusters, &neighbours));
            candidates
        } else {
            // A program that computes has few samples at accesses, and many of its code.
            doubts.push(format!("memory is not judged: {} {FEW}", usages.all.samples));
            program::code(&usages)
        };
        let worth = candidates.into_iter().filter_map(|candidate| ranked(&usages, candidate, openmp));
        let mut ranked: Vec<(Rank, Finding)> = worth.filter(|(rank, _)| rank.is_felt()).collect();
        ranked.sort_by(|(a, _), (b, _)| b.score().total_cmp(&a.score()));
        findings = ranked.into_iter().map(|(_, finding)| finding).collect();
        if findings.len() > MOST {
            doubts.push(format!("{} smaller findings are left out", findings.len() - MOST));
            findings.truncate(MOST);
        }
        // Code alone does not show that there is nothing.
        if findings.is_empty() && usages.all.accesses() == 0 {
            doubts.push(dataset.about.none("accesses"));
        }
    }
    let nothing = findings.is_empty() && doubts.is_empty();
    let unbound = if usages.all.accesses() > 0 { unbound::of(&usages) } else { None };
    let notes = notes::of(&usages, &neighbours, &findings, unbound.as_ref());
    let verdict = vec![
        Field::new("nothing_to_gain", "nothing to gain", Value::Flag(nothing)),
        Field::new("waiting_share", "accesses that wait", usages.waiting.share()),
        Field::new(
            "unbound_threads",
            "kept by the machine",
            Value::Count(unbound.as_ref().map_or(0, |one| one.threads)),
        ),
        Field::new("unbound_cost", "without", Value::maybe(unbound.as_ref(), |one| Value::Percent(one.cost, None))),
        Field::new("notes", "notes", Value::List(notes.iter().cloned().map(Value::Text).collect())),
    ];
    let advice = Report::new("advice", "findings", "advice", Shape::Findings(findings)).doubting(doubts);
    vec![
        Report { notes, ..advice },
        Report::new("advice", "", "", Shape::Record(verdict)).only(crate::model::report::Shown::Data),
    ]
}

/// What findings are ranked by, in percent of all the program's time.
struct Rank {
    /// The lower end of the gain.
    certain: f64,
    likely: f64,
    /// Whether the lower end is nothing.
    doubtful: bool,
}

impl Rank {
    /// A sure gain stands before a doubtful one of the same size, and a large doubtful one before a small sure one. No
    /// threshold: two recordings of one program rank alike.
    fn score(&self) -> f64 {
        self.certain + self.likely
    }

    /// What may gain nothing, and is likely to gain next to nothing, is not told.
    fn is_felt(&self) -> bool {
        !self.doubtful || self.likely >= LEAST_LIKELY
    }
}

/// With its gain when that is worth telling, and its rank.
fn ranked(usages: &Usages, candidate: Candidate, openmp: bool) -> Option<(Rank, Finding)> {
    // Executed instructions are the measure that both have in common: those that access memory are a part of them.
    // Sampled by time they have their own weights; counted, an access is one instruction as a fetch is. Those that wait
    // are among both.
    let code: u64 = usages.dataset.facts.fetches.instructions.values().sum();
    let accesses = match usages.dataset.about.unit {
        Unit::Time { .. } => usages.waiting.all.samples.max(usages.all.samples),
        Unit::Accesses | Unit::Estimated => usages.waiting.all.accesses().max(usages.all.accesses()),
    };
    let memory = match &candidate.effect {
        Effect::Traffic { .. } if code > 0 => (accesses as f64 / code as f64).min(1.0),
        _ => 1.0,
    };
    let finding = finding(usages, candidate, openmp)?;
    let (likely, (low, _)) = finding.gain;
    Some((Rank { certain: low * memory, likely: likely * memory, doubtful: low < LEAST_GAIN }, finding))
}

/// With its gain, when that is worth telling.
fn finding(usages: &Usages, candidate: Candidate, openmp: bool) -> Option<Finding> {
    let gain = match &candidate.effect {
        Effect::Time { percent, low, high } => (*percent, (*low, *high)),
        Effect::Traffic { before, after, worst } => {
            let (share, low, high) = usages.share(before.total());
            if share <= 0.0 || low < LEAST_SHARE {
                return None;
            }
            let gain = |after: &Traffic| {
                let mut changed = usages.traffic.clone();
                changed.add_all(before, -1.0);
                changed.add_all(after, 1.0);
                usages.model.gain(&usages.traffic, &changed)
            };
            let cost = gain(after);
            let least = worst.as_ref().map_or(0.0, |worst| gain(worst).low);
            // The chance of sampling: the target's part of all accesses may be smaller or larger.
            let lowest = (least * low / share).max(0.0);
            let highest = (cost.high * high / share).min(100.0);
            (cost.estimate, (lowest.min(cost.estimate), highest.max(cost.estimate)))
        }
    };
    (gain.0 >= LEAST_GAIN).then(|| {
        let place = candidate.place.map(|place| place.location);
        let language = snippets::language(place.as_ref(), usages.dataset.code.managed(), openmp);
        Finding {
            pattern: candidate.pattern,
            remedy: candidate.remedy,
            in_code: snippets::in_code(candidate.remedy, language, candidate.name.as_deref()),
            without_code: snippets::without_code(candidate.remedy, language).to_string(),
            place,
            object: candidate.object,
            evidence: candidate.evidence,
            members: candidate.members,
            gain,
        }
    })
}
