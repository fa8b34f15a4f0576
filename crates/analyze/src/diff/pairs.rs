//! Which row before is which row after: by name and line; where lines moved, by function.

use crate::facts::code::file_name;
use crate::model::report::Location;
use numalens_profile::words::ObjectKind;
use std::collections::BTreeMap;

/// What a row is of, in words that do not depend on the build.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Key {
    /// None: a line.
    pub kind: Option<ObjectKind>,
    pub name: String,
    /// Of the access, or of the allocation; without a module where it is the program's own.
    pub place: Option<Location>,
}

/// A row of each side, by index; none: there is no such row.
pub type Pair = (Option<usize>, Option<usize>);

/// What rows must have in common, from the strictest on.
#[derive(Clone, Copy)]
enum Stage {
    /// File and function.
    File,
    /// The file's name and the function: the sources lie elsewhere.
    FileName,
    /// The file's name and the line.
    Line,
    /// The function, of the program's own.
    Function,
    /// The file's name and the function, of blocks: sources tell their names, and can be read or not.
    Nameless,
}

const STAGES: [Stage; 5] = [Stage::File, Stage::FileName, Stage::Line, Stage::Function, Stage::Nameless];

/// What is equal in rows of one stage: kind, name, module, file, function, line.
type Group<'a> = (Option<ObjectKind>, &'a str, Option<&'a str>, Option<&'a str>, Option<&'a str>, Option<u32>);

fn group(key: &Key, stage: Stage) -> Option<Group<'_>> {
    let place = key.place.as_ref();
    let module = place.and_then(|place| place.module.as_deref());
    let file = place.and_then(|place| place.file.as_deref());
    let function = place.map(|place| place.function.as_str());
    let of = |file, function, line| (key.kind, key.name.as_str(), module, file, function, line);
    match stage {
        Stage::File => Some(of(file, function, None)),
        Stage::FileName => file.map(|file| of(Some(file_name(file)), function, None)),
        Stage::Line => line(key).zip(file).map(|(line, file)| of(Some(file_name(file)), None, Some(line))),
        Stage::Nameless => {
            let file = file.filter(|_| key.kind == Some(ObjectKind::Heap))?;
            Some((key.kind, "", module, Some(file_name(file)), function, None))
        }
        Stage::Function => function.filter(|_| module.is_none()).map(|function| of(None, Some(function), None)),
    }
}

fn line(key: &Key) -> Option<u32> {
    key.place.as_ref()?.line
}

/// Rows with their accesses, in the order of keys. Every row is in one pair.
pub fn pairs(before: &[(Key, u64)], after: &[(Key, u64)]) -> Vec<Pair> {
    let (mut of_before, mut of_after) = (vec![None; before.len()], vec![None; after.len()]);
    for stage in STAGES {
        let groups = groups([before, after], [&of_before, &of_after], stage);
        for Grouped { rows: [old, new], all } in groups.into_values() {
            let likeness = |i: usize, j: usize| likeness(&before[old[i]], &after[new[j]], all == [1, 1]);
            for (i, j) in aligned(old.len(), new.len(), likeness) {
                (of_before[old[i]], of_after[new[j]]) = (Some(new[j]), Some(old[i]));
            }
        }
    }
    let matched = of_before.into_iter().enumerate().map(|(old, new)| (Some(old), new));
    let new = of_after.into_iter().enumerate().filter(|(_, old)| old.is_none()).map(|(new, _)| (None, Some(new)));
    matched.chain(new).collect()
}

/// Rows of one group, of both sides: those without a partner, and how many there are in all.
#[derive(Default)]
struct Grouped {
    rows: [Vec<usize>; 2],
    all: [usize; 2],
}

fn groups<'a>(
    sides: [&'a [(Key, u64)]; 2],
    partners: [&[Option<usize>]; 2],
    stage: Stage,
) -> BTreeMap<Group<'a>, Grouped> {
    let mut groups: BTreeMap<Group<'a>, Grouped> = BTreeMap::new();
    for (side, rows) in sides.into_iter().enumerate() {
        for (index, (key, _)) in rows.iter().enumerate() {
            let Some(group) = group(key, stage) else { continue };
            let grouped = groups.entry(group).or_default();
            grouped.all[side] += 1;
            if partners[side][index].is_none() {
                grouped.rows[side].push(index);
            }
        }
    }
    groups
}

/// How much speaks for two rows of a group being one; 0: they are not. A line that moved has about as many accesses as
/// before, unless it is alone.
fn likeness((old, a): &(Key, u64), (new, b): &(Key, u64), alone: bool) -> f64 {
    let ratio = (*a.min(b) as f64 + 1.0) / (*a.max(b) as f64 + 1.0);
    match line(old) == line(new) {
        true => 0.5 + ratio,
        false if ratio >= 0.5 || alone => ratio,
        false => 0.0,
    }
}

/// Groups of more pairs than this (generated code) are not aligned.
const MOST: usize = 1 << 20;

/// The pairs of two sequences, both in order, whose likeness sums to most.
fn aligned(n: usize, m: usize, likeness: impl Fn(usize, usize) -> f64) -> Vec<(usize, usize)> {
    if n.saturating_mul(m) > MOST {
        return Vec::new();
    }
    // The best sum of what begins at i and j.
    let mut best = vec![vec![0.0f64; m + 1]; n + 1];
    for i in (0..n).rev() {
        for j in (0..m).rev() {
            best[i][j] = best[i + 1][j].max(best[i][j + 1]).max(best[i + 1][j + 1] + likeness(i, j));
        }
    }
    let (mut i, mut j, mut pairs) = (0, 0, Vec::new());
    while i < n && j < m {
        let one = likeness(i, j);
        if one > 0.0 && best[i][j] <= best[i + 1][j + 1] + one {
            pairs.push((i, j));
            (i, j) = (i + 1, j + 1);
        } else if best[i][j] <= best[i + 1][j] {
            i += 1;
        } else {
            j += 1;
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(file: &str, function: &str, line: u32, accesses: u64) -> (Key, u64) {
        let place = Location { file: Some(file.into()), line: Some(line), function: function.into(), module: None };
        (Key { place: Some(place), ..Key::default() }, accesses)
    }

    #[test]
    fn lines_that_moved_are_found_by_function() {
        // A line more above a loop of two statements: line 11 is another one now.
        let before = [row("a.c", "work", 10, 1000), row("a.c", "work", 11, 7)];
        let after = [row("a.c", "work", 11, 1000), row("a.c", "work", 12, 7)];
        assert_eq!(pairs(&before, &after), [(Some(0), Some(0)), (Some(1), Some(1))]);
        // Nothing moved.
        assert_eq!(pairs(&before, &before), [(Some(0), Some(0)), (Some(1), Some(1))]);
        // What is written anew is no line that moved.
        let other = [row("a.c", "work", 10, 1000), row("a.c", "work", 30, 100_000)];
        assert_eq!(pairs(&before, &other), [(Some(0), Some(0)), (Some(1), None), (None, Some(1))]);
    }

    #[test]
    fn blocks_may_have_names_on_one_side() {
        let named = |name: &str, line| {
            let (key, accesses) = row("a.c", "main", line, 100);
            (Key { kind: Some(ObjectKind::Heap), name: name.to_owned(), ..key }, accesses)
        };
        let (before, after) = ([named("", 5), named("", 6)], [named("a", 5), named("b", 6)]);
        assert_eq!(pairs(&before, &after), [(Some(0), Some(0)), (Some(1), Some(1))]);
        // Where both have names, these come first.
        let moved = [named("b", 5), named("a", 6)];
        assert_eq!(pairs(&after, &moved), [(Some(0), Some(1)), (Some(1), Some(0))]);
    }

    #[test]
    fn sources_may_lie_elsewhere_and_files_have_other_names() {
        let before = [row("/v0/a.c", "main", 5, 10), row("/v0/a.c", "work", 9, 1000)];
        let after = [row("/v1/a.c", "main", 5, 10), row("/v1/a_fixed.c", "work", 19, 3000)];
        assert_eq!(pairs(&before, &after), [(Some(0), Some(0)), (Some(1), Some(1))]);
    }
}
