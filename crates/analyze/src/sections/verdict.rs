//! Section `verdict`: what a reader wants to know first, made of the findings of advice and the figures of the whole
//! program, at this one place for all who say it.
//!
//! ```text
//!   sentence   how much is remote, and what could be saved; or that there is nothing to gain; or why nobody can say
//!   fault      the main fault: which memory, who touched it first, who uses it
//!   remedy     what to do about it
//!   next       what to type
//! ```
//! Figures stand in the sentences as [`crate::model::wording`] writes them, and beside them for programs.

use crate::advice;
use crate::dataset::Dataset;
use crate::dataset::usages;
use crate::facts::fold::Need;
use crate::facts::placement_targets::PlacementTarget;
use crate::model::about::{About, Unit};
use crate::model::counts::Counts;
use crate::model::patterns::{Pattern, Remedy};
use crate::model::report::{Field, Finding, Location, PerNode, Report, Shape, Shown, Value};
use crate::model::wording;
use numalens_profile::tables::Object;

/// What a dataset must have been loaded with.
pub const NEEDS: &[Need] = advice::NEEDS;

/// What stands for the profile in the next command, where nobody knows its name.
const PROFILE: &str = "PROFILE";

/// Percent of a gain below which its lower end is as good as nothing.
const CERTAIN: f64 = 1.0;
/// Percent of all accesses without a distance that are worth a word.
const UNPINNED: f64 = 5.0;
/// Percent of an object that is told as most of it, and as all of it.
const MOSTLY: f64 = 60.0;
const ALL: f64 = 99.5;

/// Runs the analysis.
pub fn run(dataset: &Dataset) -> Vec<Report> {
    let advice = advice::without_meta(dataset);
    let found = advice.iter().find_map(|report| match &report.shape {
        Shape::Findings(findings) => Some((findings.as_slice(), report.doubts.as_slice())),
        _ => None,
    });
    let (findings, doubts) = found.unwrap_or_default();
    let nothing = advice.iter().any(|report| report.field("nothing_to_gain") == Some(&Value::Flag(true)));
    let notes = advice.iter().flat_map(|report| report.notes.iter().cloned()).collect();
    vec![Report { notes, ..of(dataset, findings, nothing, doubts) }]
}

/// The verdict of these findings, of whether none means that there is nothing to gain, and of what advice doubts.
fn of(dataset: &Dataset, findings: &[Finding], nothing: bool, doubts: &[String]) -> Report {
    let total = dataset.facts.total();
    let main = findings.first();
    let result = match main {
        Some(_) => "gain",
        None if nothing => "nothing-to-gain",
        None => "unknown",
    };
    let sentence = match (main, nothing) {
        (Some(main), _) => remote(dataset, &total) + "; " + &saved(main, findings.len()),
        (None, true) => format!(
            "nothing to gain: {}, and no other placement would make the program faster by more than noise",
            remote(dataset, &total)
        ),
        (None, false) => format!("no verdict: {}", doubts.join("; ")),
    };
    let text = |text: String| if text.is_empty() { Value::Absent } else { Value::Text(text) };
    let fields = vec![
        Field::new("sentence", "verdict", text(sentence)),
        Field::new("fault", "fault", Value::maybe(main, |main| text(fault(dataset, main)))),
        Field::new("remedy", "remedy", Value::maybe(main, |main| text(remedy(main)))),
        Field::new("next", "next", Value::maybe(main, |_| text(format!("numalens advise {PROFILE}")))),
        Field::new("result", "result", text(result.to_string())).only(Shown::Data),
        Field::metric(&crate::model::metrics::REMOTE_SHARE, total.percent(total.remote())).only(Shown::Data),
        Field::metric(&crate::model::metrics::UNPINNED_SHARE, total.percent(total.unpinned())).only(Shown::Data),
        Field::new("saved", "could be saved", Value::maybe(main, saving)).only(Shown::Data),
        Field::new("findings", "findings", Value::Count(findings.len() as u64)).only(Shown::Data),
        Field::new("pattern", "pattern", Value::maybe(main, |main| text(main.pattern.name().to_string())))
            .only(Shown::Data),
    ];
    let mut limits = dataset.about.restrictions();
    if main.is_some() || nothing {
        limits.extend(doubts.iter().filter(|doubt| !doubt.contains("left out")).cloned());
    }
    Report::new("verdict", "verdict", "verdict", Shape::Record(fields)).doubting(limits)
}

/// A prediction, with its ends.
fn saving(main: &Finding) -> Value {
    let (estimate, (low, high)) = main.gain;
    let percent = |value: f64| Value::Percent(value, None);
    Value::Record(vec![
        Field::new("memory_time_percent", "of the memory time", percent(estimate)),
        Field::new("low", "from", percent(low)),
        Field::new("high", "to", percent(high)),
    ])
}

/// Names the profile in the next command; `words`: as a shell takes them.
pub fn name_profile(reports: &mut [Report], words: &str) {
    for report in reports.iter_mut().filter(|report| report.section == "verdict") {
        let Shape::Record(fields) = &mut report.shape else { continue };
        for field in fields.iter_mut().filter(|field| field.key == "next") {
            if let Value::Text(command) = &mut field.value {
                *command = command.replace(PROFILE, words);
            }
        }
    }
}

/// `74.6 % of the accesses are remote`, and what has no distance where that is much.
fn remote(dataset: &Dataset, total: &Counts) -> String {
    let what = counted(&dataset.about);
    if !usages::matters(dataset) {
        return "the machine has one node, so that nothing is remote".to_string();
    }
    let mut words = format!("{} of {what} are remote", wording::share(&total.percent(total.remote())));
    let unpinned = total.percent(total.unpinned());
    if matches!(unpinned, Value::Percent(share, _) if share >= UNPINNED) {
        words += &format!(" and {} belong to no node (threads that are not pinned)", wording::share(&unpinned));
    }
    words
}

/// What shares are of.
fn counted(about: &About) -> &'static str {
    match about.unit {
        Unit::Accesses | Unit::Estimated => "the accesses",
        Unit::Time { .. } => "the samples at memory instructions",
    }
}

fn saved(main: &Finding, findings: usize) -> String {
    let (estimate, (low, high)) = main.gain;
    let would = if low >= CERTAIN { "would" } else { "may" };
    let which =
        if findings > 1 { format!("mending the first of {findings} faults") } else { "mending the fault".into() };
    format!(
        "{which} {would} save {} of the memory time ({low:.0} to {high:.0} %, predicted)",
        wording::percent(estimate)
    )
}

/// One sentence: the pattern, the memory, who touched it first and where, where it lies, who uses it.
fn fault(dataset: &Dataset, finding: &Finding) -> String {
    let pattern = finding.pattern;
    let used = used(finding);
    let Some(memory) = memory(finding) else {
        let place = finding.place.as_ref().map(|place| format!(", most of all at {}", at(place)));
        return format!("{}: {used}{}", pattern.title(), place.unwrap_or_default());
    };
    let mut sentence = format!("{}: {memory}", pattern.title());
    let homes = homes(finding);
    match (touched(dataset, finding), homes) {
        (Some(touched), Some(homes)) => sentence += &format!(" {touched}, {homes}"),
        (Some(touched), None) => sentence += &format!(" {touched}"),
        (None, Some(homes)) => sentence += &format!(" lies {}", homes.trim_start_matches("all ")),
        (None, None) => {}
    }
    format!("{sentence}; {used}")
}

/// `the heap block data of 32.0 MiB allocated in main (a.c:5)`.
fn memory(finding: &Finding) -> Option<String> {
    let object = |key: &str| find(&finding.object, key);
    let text = |key: &str| match object(key) {
        Some(Value::Text(text)) => text.as_str(),
        _ => "",
    };
    let (kind, name) = (text("kind"), text("name"));
    if kind.is_empty() {
        return None;
    }
    let count = match object("count") {
        Some(Value::Count(count)) => *count,
        _ => 1,
    };
    let named = if name.is_empty() { String::new() } else { format!(" {name}") };
    let size = match object("size") {
        Some(Value::Bytes(size)) if *size > 0 => wording::bytes(*size),
        _ => String::new(),
    };
    let of = |size: &str| if size.is_empty() { String::new() } else { format!(" of {size}") };
    let together = |size: &str| if size.is_empty() { String::new() } else { format!(" ({size} together)") };
    let words = match (kind, count) {
        ("heap", 0 | 1) => format!("the heap block{named}{}", of(&size)),
        ("heap", count) => format!("{count} heap blocks{named}{}", together(&size)),
        ("global", _) => format!("the global variable{named}{}", of(&size)),
        // Its name says that it is one.
        ("stack", 0 | 1) if !name.is_empty() => format!("the {name}"),
        ("stack", 0 | 1) => "the stack".to_string(),
        ("stack", count) => format!("{count} stacks"),
        ("unknown", _) => format!("memory whose allocation was not seen{}", of(&size)),
        (kind, _) => format!("the {kind}{named}{}", of(&size)),
    };
    let site = match object("site") {
        Some(Value::Location(site)) if kind == "heap" => format!(" allocated in {}", at(site)),
        _ => String::new(),
    };
    let first = format!("{words}{site}");
    Some(match finding.members.len() {
        0 | 1 => first,
        members => format!("{first}, the first of {members} alike,"),
    })
}

/// `was touched first by thread 0 at a.c:9`.
fn touched(dataset: &Dataset, finding: &Finding) -> Option<String> {
    let Some(Value::Record(toucher)) = find(&finding.evidence, "first_toucher") else { return None };
    let Some(Value::Id(thread)) = find(toucher, "thread") else { return None };
    let share = match find(toucher, "bytes_share") {
        Some(Value::Percent(share, _)) => *share,
        _ => 100.0,
    };
    if share < MOSTLY {
        return None;
    }
    let mostly = if share < ALL { " for the most part" } else { "" };
    let place = match (finding.remedy, &finding.place) {
        // Where a change begins is the first touch with these alone.
        (Remedy::LocalAllocation | Remedy::ParallelInitialisation, Some(place)) => {
            // Unless a library did that for the line which wanted the memory: that may be another.
            Some(place.clone()).filter(|place| !is_where_allocated(finding, place))
        }
        _ => first_touch(dataset, finding),
    };
    let place = place.map(|place| format!(" at {}", short(&place))).unwrap_or_default();
    Some(format!("was touched first{mostly} by thread {thread}{place}"))
}

/// Whether a line is where a finding's object was allocated.
fn is_where_allocated(finding: &Finding, place: &Location) -> bool {
    matches!(find(&finding.object, "site"), Some(Value::Location(site)) if site == place)
}

/// The line that touched most of a finding's object first: of the largest that is of its kind, name and allocation.
fn first_touch(dataset: &Dataset, finding: &Finding) -> Option<Location> {
    let said = |key: &str| find(&finding.object, key);
    let is_of_site = |example: &Object| {
        let site = dataset.wanted_at(example.stack, example.site);
        said("site").is_none_or(|of| *of == Value::maybe(site, |place| Value::Location(place.location)))
    };
    let is_meant = |target: &&PlacementTarget| {
        target.example.as_ref().is_some_and(|example| {
            said("kind") == Some(&Value::Text(example.kind.word().to_string()))
                && said("name") == Some(&Value::Text(example.name.clone()))
                && is_of_site(example)
        })
    };
    let target = dataset.memory.targets.all.iter().filter(is_meant).max_by_key(|target| target.bytes)?;
    let (stack, site) = *target.places.iter().rev().max_by_key(|(_, bytes)| **bytes)?.0;
    dataset.wanted_at(stack, site).map(|place| place.location)
}

/// `all on node 0`.
fn homes(finding: &Finding) -> Option<String> {
    let counts = per_node(finding, "homes")?;
    let total: f64 = counts.iter().map(|(_, n)| *n as f64).sum();
    let (node, most) = counts.iter().filter_map(|(node, n)| Some(((*node)?, *n))).max_by_key(|(_, n)| *n)?;
    let share = most as f64 * 100.0 / total.max(1.0);
    Some(match share {
        share if share >= ALL => format!("all on node {node}"),
        share if share >= MOSTLY => format!("{share:.0} % of it on node {node}"),
        _ => format!("on {} nodes", counts.iter().filter(|(node, n)| node.is_some() && *n > 0).count()),
    })
}

/// Who uses it, and how.
fn used(finding: &Finding) -> String {
    let nodes = per_node(finding, "users")
        .map_or(0, |counts| counts.iter().filter(|(node, n)| node.is_some() && *n > 0).count());
    let threads = if nodes > 1 { format!("threads of {nodes} nodes") } else { "the threads of one node".to_string() };
    match finding.pattern {
        Pattern::SerialInitialisation | Pattern::MisplacedBlocks => format!("{threads} use disjoint parts of it"),
        Pattern::ReadByAll => format!("{threads} read all of it"),
        Pattern::SharedReadWrite => format!("{threads} read and write all over it"),
        pattern => wording::begun(pattern.help()),
    }
}

fn remedy(finding: &Finding) -> String {
    format!("{}: {}", finding.remedy.title(), wording::begun(finding.remedy.help()))
}

fn find<'a>(fields: &'a [Field], key: &str) -> Option<&'a Value> {
    fields.iter().find(|field| field.key == key).map(|field| &field.value)
}

fn per_node<'a>(finding: &'a Finding, key: &str) -> Option<&'a [(Option<numalens_topology::NodeId>, u64)]> {
    match find(&finding.evidence, key) {
        Some(Value::PerNode(PerNode { counts, .. })) if !counts.is_empty() => Some(counts),
        _ => None,
    }
}

/// `main (a.c:5)`.
fn at(place: &Location) -> String {
    match (&place.file, place.line) {
        (Some(file), Some(line)) => format!("{} ({}:{line})", place.function, crate::facts::code::file_name(file)),
        _ => place.function.clone(),
    }
}

/// `a.c:5`, or the function.
fn short(place: &Location) -> String {
    match (&place.file, place.line) {
        (Some(file), Some(line)) => format!("{}:{line}", crate::facts::code::file_name(file)),
        _ => place.function.clone(),
    }
}
