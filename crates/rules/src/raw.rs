//! The file as TOML has it, and what is wrong with it as rules.

use crate::error::Slip;
use crate::{Action, Allocation, Frame, MOST_RULES, Matcher, Nodes, ObjectKind, Rule, Rules, SizeRange, VERSION};
use numalens_topology::CpuSet;
use serde::Deserialize;
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use toml::Spanned;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    version: Spanned<u32>,
    #[serde(default)]
    rule: Vec<Spanned<RawRule>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRule {
    name: Spanned<String>,
    allocation: Option<Spanned<RawAllocation>>,
    object: Option<Spanned<RawObject>>,
    thread: Option<String>,
    process: Option<Spanned<bool>>,
    #[serde(rename = "do")]
    action: Spanned<String>,
    nodes: Option<Spanned<String>>,
    cpus: Option<Spanned<String>>,
    weights: Option<Spanned<BTreeMap<String, u8>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAllocation {
    #[serde(default)]
    frames: Vec<Spanned<String>>,
    at: Option<String>,
    size: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawObject {
    kind: Spanned<String>,
    name: String,
}

/// Reads the text of a file.
pub(crate) fn read(text: &str) -> Result<Rules, Slip> {
    let file: RawFile =
        toml::from_str(text).map_err(|error| Slip { span: error.span(), reason: error.message().to_owned() })?;
    if *file.version.get_ref() != VERSION {
        let reason = format!("version {} is not known: this numalens reads {VERSION}", file.version.get_ref());
        return Err(Slip::new(file.version.span(), reason));
    }
    if let Some(one) = file.rule.get(MOST_RULES) {
        return Err(Slip::new(one.span(), format!("more than {MOST_RULES} rules")));
    }
    let mut names = HashSet::new();
    let mut rules = Vec::with_capacity(file.rule.len());
    for raw in file.rule {
        let span = raw.get_ref().name.span();
        let rule = rule(raw)?;
        if !names.insert(rule.name.clone()) {
            return Err(Slip::new(
                span,
                format!("two rules are called `{}`: what they did is told by name", rule.name),
            ));
        }
        rules.push(rule);
    }
    Ok(Rules { rules })
}

fn rule(raw: Spanned<RawRule>) -> Result<Rule, Slip> {
    let whole = raw.span();
    let mut raw = raw.into_inner();
    let matcher = matcher(&mut raw, whole)?;
    let action = action(&raw)?;
    let (word, of_threads) = (action.word(), matches!(matcher, Matcher::Thread(_)));
    if action.is_of_threads() != of_threads && matcher != Matcher::Process {
        let what = if of_threads { "a thread is pinned (`pin`)" } else { "`pin` is for threads and processes" };
        return Err(Slip::new(raw.action.span(), format!("`{word}` does not fit what the rule matches: {what}")));
    }
    if action == Action::Pad && !matches!(matcher, Matcher::Allocation(_)) {
        return Err(Slip::new(raw.action.span(), "`pad` is for allocations: others have their place already"));
    }
    Ok(Rule { name: raw.name.into_inner(), notes: Vec::new(), matcher, action })
}

fn matcher(raw: &mut RawRule, whole: Range<usize>) -> Result<Matcher, Slip> {
    let mut found = Vec::new();
    if let Some(place) = raw.allocation.take() {
        found.push(Matcher::Allocation(allocation(place)?));
    }
    if let Some(object) = raw.object.take() {
        let RawObject { kind, name } = object.into_inner();
        let known = ObjectKind::ALL.into_iter().find(|known| known.word() == kind.get_ref());
        let kind = known.ok_or_else(|| {
            let reason = format!("`{}` is no kind of object: global, file or code", kind.get_ref());
            Slip::new(kind.span(), reason)
        })?;
        found.push(Matcher::Object { kind, name });
    }
    found.extend(raw.thread.take().map(Matcher::Thread));
    if let Some(process) = raw.process.take() {
        if !process.get_ref() {
            return Err(Slip::new(process.span(), "`process = false` matches nothing: leave the rule out"));
        }
        found.push(Matcher::Process);
    }
    match (found.pop(), found.is_empty()) {
        (Some(matcher), true) => Ok(matcher),
        (None, _) => {
            Err(Slip::new(whole, "a rule says of what it speaks: `allocation`, `object`, `thread` or `process = true`"))
        }
        (Some(_), false) => Err(Slip::new(whole, "a rule speaks of one thing: write a second rule for the other")),
    }
}

fn allocation(raw: Spanned<RawAllocation>) -> Result<Allocation, Slip> {
    let span = raw.span();
    let RawAllocation { frames, at, size } = raw.into_inner();
    let mut calls = Vec::with_capacity(frames.len());
    for frame in frames {
        calls.push(Frame::parse(frame.get_ref()).map_err(|reason| Slip::new(frame.span(), reason))?);
    }
    let range = match &size {
        Some(size) => SizeRange::parse(size.get_ref()).map_err(|reason| Slip::new(size.span(), reason))?,
        None => SizeRange::default(),
    };
    if calls.is_empty() && at.is_none() && size.is_none() {
        return Err(Slip::new(span, "an allocation is told by `frames`, by `at` or by `size`"));
    }
    Ok(Allocation { frames: calls, at, size: range })
}

fn action(raw: &RawRule) -> Result<Action, Slip> {
    let word = &raw.action;
    let nodes = || -> Result<Nodes, Slip> { raw.nodes.as_ref().map_or(Ok(Nodes::new()), list) };
    let some_nodes = || match raw.nodes.as_ref() {
        Some(_) => nodes(),
        None => Err(Slip::new(word.span(), format!("`{}` needs `nodes`, such as nodes = \"0-3\"", word.get_ref()))),
    };
    let action = match word.get_ref().as_str() {
        "bind" => Action::Bind(some_nodes()?),
        "prefer" => Action::Prefer(some_nodes()?),
        "interleave" => Action::Interleave(nodes()?),
        "spread-by-parts" => Action::SpreadByParts(nodes()?),
        "weighted" => Action::Weighted(weights(raw)?),
        "huge-pages" => Action::HugePages(true),
        "no-huge-pages" => Action::HugePages(false),
        "pad" => Action::Pad,
        "pin" => match &raw.cpus {
            Some(cpus) => Action::Pin(list(cpus)?),
            None => return Err(Slip::new(word.span(), "`pin` needs `cpus`, such as cpus = \"0-15\"")),
        },
        other => {
            let known = "bind, prefer, interleave, weighted, spread-by-parts, huge-pages, no-huge-pages, pad or pin";
            return Err(Slip::new(word.span(), format!("`{other}` is nothing that a rule does: {known}")));
        }
    };
    unused(raw, &action)?;
    Ok(action)
}

/// A word that the action has no use for must not look as if it had.
fn unused(raw: &RawRule, action: &Action) -> Result<(), Slip> {
    let [nodes, cpus, weights] = [
        raw.nodes.as_ref().filter(|_| action.nodes().is_none()).map(|value| ("nodes", value.span())),
        raw.cpus.as_ref().filter(|_| !matches!(action, Action::Pin(_))).map(|value| ("cpus", value.span())),
        raw.weights.as_ref().filter(|_| !matches!(action, Action::Weighted(_))).map(|value| ("weights", value.span())),
    ];
    match nodes.or(cpus).or(weights) {
        Some((key, span)) => Err(Slip::new(span, format!("`{}` takes no `{key}`", action.word()))),
        None => Ok(()),
    }
}

fn list(text: &Spanned<String>) -> Result<CpuSet, Slip> {
    let wrong = |reason: String| Slip::new(text.span(), reason);
    let set = CpuSet::parse(text.get_ref()).map_err(|error| wrong(error.to_string()))?;
    if set.is_empty() { Err(wrong("an empty list: one looks like 0-3,8".to_owned())) } else { Ok(set) }
}

fn weights(raw: &RawRule) -> Result<Vec<(u32, u8)>, Slip> {
    let Some(weights) = &raw.weights else {
        return Err(Slip::new(raw.action.span(), "`weighted` needs `weights`, such as weights = { 0 = 3, 1 = 1 }"));
    };
    let wrong = |reason: String| Slip::new(weights.span(), reason);
    let mut by_node = BTreeMap::new();
    for (node, &weight) in weights.get_ref() {
        let number: u32 = node.parse().map_err(|_| wrong(format!("`{node}` is no node's number")))?;
        if weight == 0 || by_node.insert(number, weight).is_some() {
            return Err(wrong(format!("node {number} has no weight, or two: weights are from 1 to 255")));
        }
    }
    if by_node.is_empty() { Err(wrong("no node has a weight".to_owned())) } else { Ok(by_node.into_iter().collect()) }
}
