//! What was seen of a target, or of those of one cause together.

use super::case::{Case, HandedOn};
use crate::facts::contended_lines::Contended;
use crate::facts::policies::{Policy, Setter};
use crate::model::counts::percent;
use crate::model::metrics;
use crate::model::report::{Field, Value};
use crate::model::sharing::Sharing;
use crate::model::tally::Tally;
use numalens_profile::ids::ThreadId;
use numalens_profile::words::SystemCall;
use numalens_simulate::Traffic;
use numalens_topology::NodeId;
use std::collections::BTreeMap;

/// What threads have in common in cache lines of which no address is known.
pub fn unknown_words() -> Field {
    Field::new("words", "they use", Value::Text(NOT_KNOWN.to_string()))
}

const NOT_KNOWN: &str = "not known whether the same words (record with --lines)";

/// Of one target or of several, the one with the most accesses first: sums are of all, the rest is of that one.
pub fn of(cases: &[&Case<'_>]) -> Vec<Field> {
    let Some(first) = cases.first() else { return Vec::new() };
    let mut evidence = shares(cases);
    evidence.extend(sums(cases));
    evidence.extend(first_toucher(first));
    evidence.extend(policy(first));
    evidence.extend(before(first));
    evidence.extend(sharing(first));
    evidence.extend(lines(first));
    evidence
}

/// The part of all accesses, and how much of it is remote.
pub fn shares(cases: &[&Case<'_>]) -> Vec<Field> {
    let Some(first) = cases.first() else { return Vec::new() };
    let (part, whole) = (tally(cases), &first.usages.all);
    let mut traffic = Traffic::default();
    cases.iter().for_each(|case| traffic.add_all(&case.usage.traffic, 1.0));
    let remote = traffic.remote() / traffic.total().max(f64::MIN_POSITIVE) * 1e6;
    vec![
        Field::new("share", "part of all accesses", percent(part.accesses(), whole.accesses(), whole.samples)),
        Field::new("remote_share", "remote", percent(remote as u64, 1_000_000, part.samples)),
    ]
}

fn tally(cases: &[&Case<'_>]) -> Tally {
    let mut sum = Tally::default();
    cases.iter().for_each(|case| sum += case.usage.all);
    sum
}

fn sums(cases: &[&Case<'_>]) -> Vec<Field> {
    let part = tally(cases);
    let mut users: BTreeMap<Option<NodeId>, u64> = BTreeMap::new();
    let mut homes: BTreeMap<Option<NodeId>, u64> = BTreeMap::new();
    for case in cases {
        case.usage.nodes.iter().for_each(|(node, tally)| *users.entry(*node).or_default() += tally.accesses());
        case.target.homes.iter().for_each(|(node, bytes)| *homes.entry(*node).or_default() += bytes);
    }
    vec![
        Field::metric(&metrics::READS, Value::Count(part.reads)),
        Field::metric(&metrics::WRITES, Value::Count(part.writes)),
        Field::new("users", "used by nodes", Value::users(users)),
        Field::new("homes", "lies on nodes", Value::homes(&metrics::BYTES, homes)),
    ]
}

fn first_toucher(case: &Case<'_>) -> Option<Field> {
    let (toucher, bytes) = case.target.touchers.iter().max_by_key(|(_, bytes)| **bytes)?;
    let (thread, node) = (*toucher)?;
    let name = case.usages.dataset.program.threads.get(&thread).map_or("", |thread| thread.name.as_str());
    let node = node.map_or("no node".to_string(), |node| format!("node {node}"));
    let share = *bytes as f64 * 100.0 / (case.target.bytes as f64).max(1.0);
    let mut touched = vec![
        Field::new("thread", "thread", Value::Id(u64::from(thread.0))),
        Field::new("name", "name", Value::Text(name.to_string())),
        Field::new("on", "on", Value::Text(node)),
        Field::new("bytes_share", "bytes", Value::Percent(share, None)),
    ];
    if let Some(call) = placing_call(case) {
        let words = format!("in a call of the kernel ({})", call.word());
        touched.push(Field::new("call", "how", Value::Text(words)));
    }
    Some(Field::new("first_toucher", "first touched by", Value::Record(touched)))
}

/// The system call in which the kernel has placed most of it.
fn placing_call(case: &Case<'_>) -> Option<SystemCall> {
    let by_calls: u64 = case.target.calls.values().sum();
    let most = case.target.calls.iter().max_by_key(|(_, bytes)| **bytes);
    most.filter(|_| by_calls * 2 > case.target.bytes).map(|(call, _)| *call)
}

/// What else than the first touch has said where it goes.
fn policy(case: &Case<'_>) -> Option<Field> {
    let Policy { words, setter } = case.policy()?;
    let threads = &case.usages.dataset.program.threads;
    let name = |thread: &ThreadId| threads.get(thread).map_or("", |row| row.name.as_str());
    let by = match setter {
        Setter::Call(thread) => format!("set_mempolicy of thread {} {}, or of what started it", thread.0, name(thread)),
        Setter::Machine => "`record --policy`".to_string(),
        Setter::Before => "whoever started it, before the recording".to_string(),
    };
    Some(Field::new("policy", "placed by policy", Value::Text(format!("{words}, set by {by}"))))
}

/// What lay there first, of memory that was handed on.
fn before(case: &Case<'_>) -> Option<Field> {
    let object =
        case.target.example.as_ref().filter(|_| case.handed_on.as_ref().is_some_and(|it| it.next.is_some()))?;
    let place = case.usages.dataset.wanted_at(object.stack, object.site)?.location;
    Some(Field::new("before", "lay there before", Value::Text(format!("{} ({place})", object.name).trim().to_string())))
}

fn sharing(case: &Case<'_>) -> Vec<Field> {
    if case.users.len() < 2 {
        return Vec::new();
    }
    let share = |sharing: Sharing| Value::Percent(sharing.main_share(case.users.len()) * 100.0, None);
    let mut evidence = vec![Field::new("page_main_user", "a page's main node", Value::maybe(case.pages, share))];
    if case.huge_pages.is_some() {
        let main_user = Value::maybe(case.huge_pages, share);
        evidence.push(Field::new("huge_page_main_user", "a huge page's main node", main_user));
    }
    let written = Value::Percent(case.usage.written_while_shared(case.target.bytes), None);
    let of_objects = match &case.handed_on {
        // Pages tell nothing of the blocks that lay there one after the other.
        Some(HandedOn { next: None, own }) => Value::Percent(own * 100.0, None),
        _ => Value::maybe(case.objects, share),
    };
    evidence.push(Field::new("object_main_user", "an object's main node", of_objects));
    evidence.push(Field::new("written_while_shared", "writes while shared", written));
    evidence
}

fn lines(case: &Case<'_>) -> Vec<Field> {
    let Some(lines) = case.contended else { return Vec::new() };
    let words = match lines {
        Contended { own, samples, .. } if own * 2 > *samples => "each thread its own words (false sharing)",
        Contended { same, samples, .. } if same * 2 > *samples => "the same words",
        _ => NOT_KNOWN,
    };
    let mut evidence = vec![
        Field::new("lines", "contended lines", Value::Count(lines.lines)),
        Field::new("threads", "threads in a line", Value::Count(lines.threads as u64)),
    ];
    if lines.transitions > 0 {
        evidence.push(Field::metric(&metrics::TRANSITIONS, Value::Count(lines.transitions)));
    }
    evidence.push(Field::new("words", "they use", Value::Text(words.to_string())));
    evidence
}
