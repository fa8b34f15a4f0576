//! One figure or word as text.

use crate::numbers;
use numalens_analyze::metrics;
use numalens_analyze::report::{Field, Location, PerNode, Shown, Value};
use numalens_topology::NodeId;

/// Names longer than this are cut in the middle: C++ templates.
const LONGEST: usize = 56;

/// Without an interval.
pub fn plain(value: &Value) -> String {
    match value {
        Value::Absent => String::new(),
        Value::Flag(true) => "yes".to_string(),
        Value::Flag(false) => "no".to_string(),
        Value::Count(n) | Value::Estimate(n, _) => numbers::count(*n as f64),
        Value::Number(x, _) => numbers::count(*x),
        Value::Id(n) => n.to_string(),
        Value::Within(_, (low, high)) => format!("{} to {}", numbers::count(low.floor()), numbers::count(high.ceil())),
        Value::Percent(x, _) => numbers::percent(*x),
        Value::Bytes(n) => numbers::bytes(*n),
        Value::Time(ns) => numbers::time(*ns),
        Value::Address(address) => format!("{address:#x}"),
        Value::Node(node) => node.to_string(),
        Value::Text(text) => shorten(text, LONGEST),
        Value::Location(place) => location(place),
        Value::List(entries) => list(entries),
        Value::Record(fields) | Value::Parts(fields) => shown(fields).map(named).collect::<Vec<_>>().join(", "),
        Value::PerNode(counts) => per_node(counts),
    }
}

/// The first entries: a figure each, or a word each.
fn list(entries: &[Value]) -> String {
    let figures = entries.iter().all(|entry| matches!(entry, Value::Count(_) | Value::Id(_) | Value::Node(_)));
    let most = if figures { 16 } else { 3 };
    let mut words: Vec<String> = entries.iter().take(most).map(plain).collect();
    if entries.len() > most {
        words.push(format!("{} more", entries.len() - most));
    }
    words.join(", ")
}

/// In a table: the interval behind a percentage, its ends rounded outwards.
pub fn in_table(value: &Value) -> String {
    match value {
        Value::Percent(_, Some((low, high))) => format!("{} ({:.0}-{:.0})", plain(value), low.floor(), high.ceil()),
        _ => plain(value),
    }
}

/// In a record: both ends of the interval.
pub fn in_record(value: &Value) -> String {
    match value {
        Value::Percent(_, Some((low, high))) => format!("{} ({low:.1} to {high:.1})", plain(value)),
        Value::Estimate(_, (low, high)) => {
            format!("{} ({} to {})", plain(value), numbers::count(low.floor()), numbers::count(high.ceil()))
        }
        Value::Number(_, Some((low, high))) => {
            format!("{} ({} to {})", plain(value), numbers::count(*low), numbers::count(*high))
        }
        Value::Record(fields) => shown(fields)
            .map(|field| format!("{} {}", field.title, in_record(&field.value)))
            .collect::<Vec<_>>()
            .join(", "),
        Value::List(list) => list.iter().map(in_record).collect::<Vec<_>>().join("; "),
        Value::Text(text) => text.clone(),
        _ => plain(value),
    }
}

/// The value of a record's field, with the unit of its metric where the figure alone does not tell.
pub fn of_field(field: &Field) -> String {
    let bytes = |x: f64| numbers::bytes(x.max(0.0) as u64);
    match (&field.value, metrics::named(&field.key).map_or("", |metric| metric.unit)) {
        (Value::Number(x, _), "bytes / s") => format!("{}/s", bytes(*x)),
        (Value::Number(x, _), "bytes * s") => format!("{} for 1 s", bytes(*x)),
        (value @ Value::Number(..), "recorded unit * distance / s") => {
            format!("{} accesses x distance / s", in_record(value))
        }
        (value, _) => in_record(value),
    }
}

/// The fields that are for people and say something.
pub fn shown(fields: &[Field]) -> impl Iterator<Item = &Field> {
    fields.iter().filter(|field| field.shown != Shown::Data && field.value != Value::Absent)
}

fn named(field: &Field) -> String {
    format!("{} {}", field.title, plain(&field.value))
}

/// `file.c:12 main`, else the function and its module.
pub fn location(place: &Location) -> String {
    let function = shorten(&place.function, LONGEST);
    let file = place.file.as_deref().map(|path| path.rsplit('/').next().unwrap_or(path));
    match (file, place.line, &place.module) {
        (Some(file), Some(line), _) => format!("{file}:{line} {function}"),
        (Some(file), None, _) => format!("{file} {function}"),
        (None, _, Some(module)) if !function.starts_with(module.as_str()) => format!("{function} ({module})"),
        _ => function,
    }
}

/// `0: 75% 1: 25%`; a node alone needs no share; the largest four.
fn per_node(PerNode { none, counts, .. }: &PerNode) -> String {
    let total = counts.iter().map(|(_, n)| *n).fold(0, u64::saturating_add);
    let mut counts: Vec<_> = counts.iter().filter(|(_, n)| *n > 0).collect();
    let name = |node: Option<NodeId>| node.map_or_else(|| none.to_string(), |node| node.to_string());
    if let [(node, _)] = counts[..] {
        return name(*node);
    }
    counts.sort_by_key(|(node, n)| (std::cmp::Reverse(*n), *node));
    let more = if counts.len() > 4 { " ..." } else { "" };
    let mut first: Vec<_> = counts.into_iter().take(4).collect();
    first.sort_by_key(|(node, _)| (node.is_none(), *node));
    first
        .iter()
        .map(|(node, n)| format!("{}:{:.0}%", name(*node), *n as f64 * 100.0 / total as f64))
        .collect::<Vec<_>>()
        .join(" ")
        + more
}

/// Cuts in the middle, where long names differ least.
pub fn shorten(text: &str, longest: usize) -> String {
    let length = text.chars().count();
    if length <= longest {
        return text.to_string();
    }
    let end = longest / 3;
    let start = longest - end - 1;
    text.chars().take(start).chain(['…']).chain(text.chars().skip(length - end)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use numalens_analyze::metrics::ACCESSES;

    /// Guards units: a rate is of bytes.
    #[test]
    fn figures_have_their_units() {
        let field = |metric, x| of_field(&Field::metric(metric, Value::Number(x, None)));
        assert_eq!(field(&metrics::ALLOCATION_RATE, 104_858.0), "102 KiB/s");
        assert_eq!(field(&metrics::BYTE_SECONDS, 2048.0), "2.00 KiB for 1 s");
    }

    #[test]
    fn long_names_keep_both_ends() {
        assert_eq!(shorten("abcdefghijklmno", 10), "abcdef…mno");
        assert_eq!(shorten("short", 10), "short");
    }

    #[test]
    fn numbers_that_name_are_whole() {
        assert_eq!(plain(&Value::Id(25_512)), "25512");
        assert_eq!(plain(&Value::Within(0, (0.0, 1_234_567.0))), "0 to 1.23 M");
        assert_eq!(in_table(&Value::List(vec![Value::Id(7), Value::Id(1_234_567)])), "7, 1234567");
    }

    #[test]
    fn shares_of_nodes_are_short() {
        let node = |id: u16, n| (Some(NodeId(id)), n);
        let per_node = |counts: &[_]| per_node(&PerNode { metric: &ACCESSES, none: "none", counts: counts.to_vec() });
        assert_eq!(per_node(&[node(0, 10), node(1, 0)]), "0");
        assert_eq!(per_node(&[node(0, 10), (None, 30)]), "0:25% none:75%");
        assert_eq!(
            per_node(&[node(0, 1), node(1, 5), node(2, 2), node(3, 3), node(4, 4)]),
            "1:33% 2:13% 3:20% 4:27% ..."
        );
        assert_eq!(per_node(&[]), "");
    }
}
