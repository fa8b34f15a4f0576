//! Time of the first figures of filters that were never set, as `numalens view` computes them: facts kept, the whole
//! recording studied.
//!
//! `cargo run --release -p numalens-analyze --example filters PROFILE`, of a profile that `numalens-serve`'s example
//! `large_profile` made.

use numalens_analyze::{DatasetCache, Filter, Options, advice, sections};
use numalens_profile::Profile;
use numalens_profile::ids::{ObjectId, ThreadId};
use numalens_topology::NodeId;
use std::path::Path;
use std::time::Instant;

const ROUNDS: u32 = 5;
/// Lines that the page asks for before it asks for all.
const FIRST_LINES: usize = 500;
/// What the pages of the web view ask, the overview first.
const PAGES: [(&str, &[&str]); 6] = [
    ("overview", &["summary", "matrix", "machine"]),
    ("threads", &["threads", "placements"]),
    ("source", &["lines"]),
    ("objects", &["objects"]),
    ("pages", &["pages", "summary", "machine", "address-space"]),
    ("timeline", &["timeline", "node-timeline"]),
];

/// Those of `ui/e2e/speed.ts`.
fn filters(round: u32) -> Vec<(&'static str, Filter)> {
    let r = round as u16;
    let ms = |ms: u64| Some(ms * 1_000_000);
    let (ten, tenth) = (u64::from(round) * 200, 100 + u64::from(round) * 100);
    vec![
        ("a thread", Filter { threads: vec![ThreadId(100 + round)], ..Filter::default() }),
        (
            "a cell of the matrix",
            Filter { nodes: vec![Some(NodeId(r % 8))], homes: vec![Some(NodeId((r + 1) % 8))], ..Filter::default() },
        ),
        ("a span of 1 %", Filter { time_ns: (ms(tenth), ms(tenth + 20)), ..Filter::default() }),
        ("a span of 10 %", Filter { time_ns: (ms(ten), ms(ten + 200)), ..Filter::default() }),
        ("a span of 50 %", Filter { time_ns: (ms(ten / 4), ms(ten / 4 + 1000)), ..Filter::default() }),
        ("a span of 99 %", Filter { time_ns: (ms(10 * (u64::from(round) + 1)), None), ..Filter::default() }),
        ("an object", Filter { object: Some(ObjectId(200 + round)), ..Filter::default() }),
        ("a function", Filter { function: Some(format!("work::of::function_{}", 300 + round)), ..Filter::default() }),
        (
            "half of all",
            Filter {
                homes: vec![Some(NodeId(0))],
                time_ns: (ms(10 * (u64::from(round) + 1)), None),
                ..Filter::default()
            },
        ),
    ]
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: filters PROFILE")?;
    let profile = Profile::open(Path::new(&path))?;
    let timed = |work: &mut dyn FnMut() -> Result<(), Box<dyn std::error::Error>>| {
        let start = Instant::now();
        work()?;
        Ok::<f64, Box<dyn std::error::Error>>(start.elapsed().as_secs_f64() * 1e3)
    };
    let mut cache = DatasetCache::new(Options::default());
    let start = Instant::now();
    let bytes = cache.keep_facts(&profile, 1 << 30)?;
    println!("facts kept after {:.0} ms, in {} MiB", start.elapsed().as_secs_f64() * 1e3, bytes >> 20);
    let of = |cache: &mut DatasetCache, options: &Options, names: &[&str]| {
        let wanted: Vec<_> = names.iter().filter_map(|name| sections::named(name)).collect();
        let mut needs = sections::needs(&wanted);
        if needs.contains(&numalens_analyze::Need::Pages) {
            needs.push(numalens_analyze::Need::PageUse);
        }
        let read = Instant::now();
        let dataset = cache.dataset(&profile, options, &needs)?;
        let read = read.elapsed().as_secs_f64() * 1e3;
        let reports = match names {
            ["lines"] => sections::first_of(dataset, &wanted, FIRST_LINES),
            _ => sections::of(dataset, &wanted),
        };
        Ok::<_, Box<dyn std::error::Error>>((read, reports.len()))
    };
    let whole = timed(&mut || {
        for (_, names) in PAGES {
            of(&mut cache, &Options::default(), names)?;
        }
        cache.dataset(&profile, &Options::default(), advice::NEEDS).map(advice::of)?;
        Ok(())
    })?;
    println!("the whole recording after {whole:.0} ms");
    println!("medians, ms: reading + analyzing");
    let mut times: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    let mut note = |what: String, read: f64, all: f64| match times.iter_mut().find(|(known, _)| *known == what) {
        Some((_, list)) => list.push((read, all - read)),
        None => times.push((what, vec![(read, all - read)])),
    };
    for round in 0..ROUNDS {
        for (what, filter) in filters(round) {
            let options = Options { filter, ..Options::default() };
            for (page, names) in PAGES {
                let mut read = 0.0;
                let all = timed(&mut || {
                    read = of(&mut cache, &options, names)?.0;
                    Ok(())
                })?;
                note(format!("{what}: {page}"), read, all);
                if page == "overview" {
                    let start = Instant::now();
                    let dataset = cache.dataset(&profile, &options, advice::NEEDS)?;
                    let read = start.elapsed().as_secs_f64() * 1e3;
                    let _ = advice::of(dataset);
                    note(format!("{what}: advice"), read, start.elapsed().as_secs_f64() * 1e3);
                }
            }
        }
    }
    for (what, mut list) in times {
        list.sort_by(|a, b| (a.0 + a.1).total_cmp(&(b.0 + b.1)));
        let (read, analyzed) = list[list.len() / 2];
        println!("{what:<36} {:7.1} = {read:7.1} + {analyzed:7.1}", read + analyzed);
    }
    Ok(())
}
