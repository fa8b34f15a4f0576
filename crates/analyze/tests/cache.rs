//! What is read piece by piece for one question after the other gives the answers that reading all of it gives.

use numalens_analyze::whatif::{self, Plan};
use numalens_analyze::{DatasetCache, Filter, Need, Options, advice, sections};
use numalens_profile::Profile;
use numalens_profile::ids::{ObjectId, ThreadId};
use numalens_profile::testing::{Synthetic, large};
use numalens_simulate::{Policy, Threads};
use numalens_topology::NodeId;

fn profile(directory: &tempfile::TempDir) -> Profile {
    Profile::open(&Synthetic::example().write(&directory.path().join("a.numalens")).unwrap()).unwrap()
}

#[test]
fn every_question_after_every_other() {
    let scratch = tempfile::tempdir().unwrap();
    let profile = profile(&scratch);
    // One that counts of pages know, two that they do not: those take what the whole has; and one that asks what pages
    // are.
    let parts = [
        Filter { threads: vec![ThreadId(1)], ..Filter::default() },
        Filter { function: Some("work".to_string()), ..Filter::default() },
        Filter { place: Some(("app.c".to_string(), 20)), ..Filter::default() },
        Filter { homes: vec![Some(NodeId(0))], ..Filter::default() },
    ];
    let all: Vec<_> = sections::ALL.iter().collect();
    let backwards: Vec<_> = all.iter().rev().copied().collect();
    let (placements, policies) = (vec![Threads::Recorded], Policy::COMMON.to_vec());
    let plan = Plan { machine: None, placements, policies, choices: Vec::new(), page_size: 4096 };
    for (order, part) in [&all, &backwards].into_iter().flat_map(|order| parts.iter().map(move |part| (order, part))) {
        let mut cache = DatasetCache::new(Options::default());
        for section in order {
            for filter in [Filter::default(), part.clone()] {
                let options = Options { filter, ..Options::default() };
                let dataset = cache.dataset(&profile, &options, &sections::needs(&[section])).unwrap();
                let fresh = sections::run(&profile, &options, &[section]).unwrap();
                assert_eq!(sections::of(dataset, &[section]), fresh, "{} of {part:?}", section.name);
            }
        }
        let whole = Options::default();
        let dataset = cache.dataset(&profile, &whole, advice::NEEDS).unwrap();
        assert_eq!(advice::of(dataset), advice::run(&profile, &whole).unwrap());
        let dataset = cache.dataset(&profile, &whole, plan.needs()).unwrap();
        assert_eq!(whatif::of(dataset, &plan), whatif::run(&profile, &whole, &plan).unwrap());
    }
}

/// What the verdict has found is shown beside it, and need not be found again.
#[test]
fn advice_is_made_once_and_forgotten_with_what_it_was_made_of() {
    let scratch = tempfile::tempdir().unwrap();
    let (profile, whole) = (profile(&scratch), Options::default());
    let mut cache = DatasetCache::new(whole.clone());
    let verdict = sections::named("verdict").unwrap();
    let dataset = cache.dataset(&profile, &whole, &sections::needs(&[verdict])).unwrap();
    assert!(dataset.derived.advice.get().is_none());
    let _ = sections::of(dataset, &[verdict]);
    let made = dataset.derived.advice.get().expect("the verdict is made of advice").as_ptr();
    let told = advice::of(cache.dataset(&profile, &whole, advice::NEEDS).unwrap());
    let dataset = cache.dataset(&profile, &whole, advice::NEEDS).unwrap();
    assert_eq!(dataset.derived.advice.get().map(|advice| advice.as_ptr()), Some(made));
    assert_eq!(told, advice::run(&profile, &whole).unwrap());
    let dataset = cache.dataset(&profile, &whole, &[Need::PageUseByTime]).unwrap();
    assert!(dataset.derived.advice.get().is_none());
}

#[test]
fn what_several_sections_need_is_taken_once() {
    let scratch = tempfile::tempdir().unwrap();
    let profile = profile(&scratch);
    let named = |names: [&str; 2]| names.map(|name| sections::named(name).unwrap());
    for wanted in
        [["lines", "first-touch"], ["pages", "huge-pages"], ["objects", "call-tree"], ["timeline", "node-timeline"]]
    {
        let wanted = named(wanted);
        let mut cache = DatasetCache::new(Options::default());
        let options = Options::default();
        cache.dataset(&profile, &options, &[]).unwrap();
        let dataset = cache.dataset(&profile, &options, &sections::needs(&wanted)).unwrap();
        assert_eq!(
            sections::of(dataset, &wanted),
            sections::run(&profile, &options, &wanted).unwrap(),
            "{}",
            wanted[0].name
        );
    }
}

#[test]
fn an_error_leaves_what_was_there() {
    let scratch = tempfile::tempdir().unwrap();
    let profile = profile(&scratch);
    let mut cache = DatasetCache::new(Options::default());
    cache.dataset(&profile, &Options::default(), &[Need::Sites]).unwrap();
    let lost = Options { pids: vec![77], ..Options::default() };
    assert!(cache.dataset(&profile, &lost, &[Need::Sites]).is_err());
    assert!(!cache.dataset(&profile, &Options::default(), &[Need::Sites]).unwrap().facts.sites.is_empty());
}

/// Facts that are kept are folded by another way than those that are read: every section says the same of both.
fn kept_and_read_agree(profile: &Profile, parts: &[Filter]) {
    let all: Vec<_> = sections::ALL.iter().collect();
    let mut cache = DatasetCache::new(Options::default());
    assert!(cache.keep_facts(profile, 1 << 30).unwrap() > 0);
    for filter in parts {
        let options = Options { filter: filter.clone(), ..Options::default() };
        let dataset = cache.dataset(profile, &options, &sections::needs(&all)).unwrap();
        for (kept, read) in sections::of(dataset, &all).iter().zip(sections::run(profile, &options, &all).unwrap()) {
            assert_eq!(*kept, read, "{} of {filter:?}", read.section);
        }
        let mut few = sections::of(dataset, &all);
        few.iter_mut().for_each(|report| report.limit(3));
        assert_eq!(sections::first_of(dataset, &all, 3), few, "the first rows of {filter:?}");
        let dataset = cache.dataset(profile, &options, advice::NEEDS).unwrap();
        assert_eq!(advice::of(dataset), advice::run(profile, &options).unwrap(), "{filter:?}");
    }
}

#[test]
fn kept_facts_give_the_same_answers() {
    let scratch = tempfile::tempdir().unwrap();
    let profile = profile(&scratch);
    let bin_ns = profile.meta.bin_ns;
    let some = |threads: &[u32], nodes: &[Option<NodeId>], homes: &[Option<NodeId>]| Filter {
        threads: threads.iter().copied().map(ThreadId).collect(),
        nodes: nodes.to_vec(),
        homes: homes.to_vec(),
        ..Filter::default()
    };
    let mut parts = vec![
        Filter::default(),
        some(&[0, 2], &[], &[]),
        some(&[], &[None], &[]),
        some(&[], &[Some(NodeId(1)), None], &[Some(NodeId(0)), None]),
        some(&[9], &[], &[]),
        Filter { time_ns: (Some(bin_ns), Some(3 * bin_ns)), ..Filter::default() },
        Filter { time_ns: (Some(2 * bin_ns), None), ..some(&[1], &[], &[Some(NodeId(0))]) },
        Filter { function: Some("work(double*, int)".to_string()), ..Filter::default() },
    ];
    parts.extend((0..7).map(|object| Filter { object: Some(ObjectId(object)), ..Filter::default() }));
    kept_and_read_agree(&profile, &parts);
}

#[test]
fn many_kept_facts_give_the_same_answers() {
    let scratch = tempfile::tempdir().unwrap();
    let path = large::write(&scratch.path().join("large.numalens"), 90_000).unwrap();
    let cell = Filter { nodes: vec![Some(NodeId(3))], homes: vec![Some(NodeId(0))], ..Filter::default() };
    let span = Filter { time_ns: (Some(50_000_000), Some(130_000_000)), ..Filter::default() };
    kept_and_read_agree(&Profile::open(&path).unwrap(), &[Filter::default(), cell, span]);
}
