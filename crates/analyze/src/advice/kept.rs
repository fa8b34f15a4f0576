//! The note on memory that stays in private caches: why much that is remote is nothing to mend.

use super::candidate::MUCH;
use super::case::cases;
use super::neighbours::Neighbours;
use crate::dataset::usages::Usages;
use crate::facts::usage::Usage;
use rayon::iter::ParallelIterator;

/// What is said of accesses that are remote to memory which its users keep in their caches, where they are many.
pub fn note(usages: &Usages, neighbours: &Neighbours<'_>) -> Option<String> {
    let kept = |(id, _, usage): &(_, _, &Usage)| usages.working_sets.keep(*id) && usage.traffic.remote() > 0.0;
    let targets: Vec<_> = cases(usages).filter(kept).collect();
    let remote: f64 = targets.iter().map(|(.., usage)| usage.traffic.remote()).sum();
    // Homes of pages at the end of a time bin may make a little more of it than the classes do, which the verdict
    // tells.
    let all = usages.dataset.facts.total();
    let most = all.remote() as f64 * 100.0 / all.accesses().max(1) as f64;
    let share = usages.share(remote).0.min(most);
    // Of those with as many, the first.
    let hottest = targets.iter().rev().max_by(|(.., a), (.., b)| a.traffic.remote().total_cmp(&b.traffic.remote()));
    let (_, target, usage) = hottest.filter(|_| share >= MUCH)?;
    let example = target.example.as_ref()?;
    let page = neighbours.page(Some(example), usage.traffic.total());
    let object = page.busiest.unwrap_or(example);
    let place =
        usages.dataset.wanted_at(object.stack, object.site).map(|place| format!(", allocated in {}", place.location));
    let name = Some(usages.dataset.name_of(object)).filter(|name| !name.is_empty()).unwrap_or(object.kind.word());
    let name = match page.is_any_of_several {
        true => format!("variables that share a page, {name} among them"),
        false => name.to_owned(),
    };
    Some(format!(
        "{share:.1} % of the accesses are remote to memory that its users have in their private caches, chiefly {name}{}; where that lies makes next to no difference",
        place.unwrap_or_default()
    ))
}
