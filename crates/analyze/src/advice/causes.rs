//! Targets of one cause: what one change would mend.
//!
//! One line may touch the arrays of eight others first, one function may allocate hundreds of blocks, and all worker
//! threads have a stack each. Each of them alone may be too little to tell, so what has a cause in common is one
//! finding.

use super::judgement::Judgement;
use crate::facts::code::OwnPlace;
use crate::model::patterns::{Pattern, Remedy};
use numalens_profile::words::ObjectKind;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// What two targets of the same pattern and remedy may have in common.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Cause {
    /// Objects that no line allocates.
    Kind(ObjectKind),
    /// The function that called the allocating one; where nobody of the program's own has, that one itself. And its
    /// file.
    Caller(String, Option<String>),
    /// The line that touched most of it first.
    Touched(String, u32),
}

/// Part of a group's accesses that its members make; what has the rest is left out.
const MOST: f64 = 0.999;

/// The same, those of one cause together: the member with the most accesses comes first.
pub fn groups(judged: Vec<Judgement<'_>>) -> Vec<Vec<Judgement<'_>>> {
    let causes: Vec<_> = judged.iter().map(causes).collect();
    let mut groups: BTreeMap<usize, Vec<Judgement<'_>>> = BTreeMap::new();
    for (group, one) in connected(&causes).into_iter().zip(judged) {
        groups.entry(group).or_default().push(one);
    }
    groups.into_values().map(members).collect()
}

/// The members that matter, in the order of accesses.
fn members(mut group: Vec<Judgement<'_>>) -> Vec<Judgement<'_>> {
    let total = |one: &Judgement<'_>| one.case.usage.traffic.total();
    group.sort_by(|a, b| total(b).total_cmp(&total(a)));
    let mut left_out = group.iter().map(total).sum::<f64>() * (1.0 - MOST);
    while let Some(last) = group.last().filter(|_| group.len() > 1) {
        left_out -= total(last);
        if left_out < 0.0 {
            break;
        }
        group.pop();
    }
    group
}

fn causes(one: &Judgement<'_>) -> Vec<(Pattern, Remedy, Cause)> {
    let dataset = one.case.usages.dataset;
    let mut found = Vec::new();
    match &one.case.target.example {
        Some(object) if object.kind == ObjectKind::Stack => found.push(Cause::Kind(object.kind)),
        Some(object) => {
            let path = dataset.code.own_path(object.stack, object.site);
            let same = |place: &OwnPlace, other: &OwnPlace| {
                (&place.location.function, &place.location.file) == (&other.location.function, &other.location.file)
            };
            let wanted = dataset.wanted_at(object.stack, object.site);
            let innermost = wanted.as_ref().zip(path.first()).is_some_and(|(wanted, first)| same(wanted, first));
            let caller = if innermost { path.get(1).or(path.first()) } else { wanted.as_ref() };
            let caller = caller.map(|place| place.location.clone());
            found.extend(caller.map(|place| Cause::Caller(place.function, place.file)));
        }
        None => {}
    }
    let touched = one.case.first_touch().map(|place| place.location);
    found.extend(touched.and_then(|place| Some(Cause::Touched(place.file?, place.line?))));
    found.into_iter().map(|cause| (one.pattern, one.remedy, cause)).collect()
}

/// A number for each: the same for those that have a key in common, by themselves or through others.
fn connected<K: std::hash::Hash + Eq>(keys: &[Vec<K>]) -> Vec<usize> {
    let mut of: Vec<usize> = (0..keys.len()).collect();
    let root = |of: &[usize], mut one: usize| {
        while of[one] != one {
            one = of[one];
        }
        one
    };
    let mut first: FxHashMap<&K, usize> = FxHashMap::default();
    for (one, keys) in keys.iter().enumerate() {
        for key in keys {
            let [a, b] = [*first.entry(key).or_insert(one), one].map(|one| root(&of, one));
            of[a.max(b)] = a.min(b);
        }
        of[one] = root(&of, one);
    }
    (0..keys.len()).map(|one| root(&of, one)).collect()
}

#[cfg(test)]
mod tests {
    use super::connected;

    #[test]
    fn a_key_in_common_connects() {
        assert_eq!(connected(&[vec![1], vec![2], vec![3, 1], vec![], vec![]]), [0, 1, 0, 3, 4]);
        // Two groups become one with the last.
        assert_eq!(connected(&[vec![1], vec![2], vec![2], vec![3], vec![2, 1]]), [0, 0, 0, 3, 0]);
        assert_eq!(connected::<u32>(&[]), [0; 0]);
    }
}
