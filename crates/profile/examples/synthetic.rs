//! Writes the synthetic profiles that the tests use, for tests in other languages: `synthetic PATH [sample|exact]`.
//! As `exact` it has counts instead of samples. Many at once: `synthetic --fleet PROFILES --facts FACTS FOLDER`.

use numalens_profile::testing::Synthetic;
use numalens_profile::testing::fleet::Fleet;
use numalens_profile::{Engine, RecordedUnit};

const USAGE: &str = "usage: synthetic PATH [sample|exact], or synthetic --fleet PROFILES --facts FACTS FOLDER";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["--fleet", profiles, "--facts", facts, folder] => {
            Ok(Fleet { profiles: profiles.parse()?, facts: facts.parse()? }.write(folder.as_ref())?)
        }
        [path] | [path, "sample"] => one(path, false),
        [path, "exact"] => one(path, true),
        _ => Err(USAGE.into()),
    }
}

fn one(path: &str, exact: bool) -> Result<(), Box<dyn std::error::Error>> {
    let mut example = Synthetic::example();
    if exact {
        example.samples.clear();
        (example.meta.engine, example.meta.unit, example.meta.period) = (Engine::Exact, RecordedUnit::Accesses, 1);
        example.page_accesses.iter_mut().for_each(|row| (row.samples, row.period) = (0, 1));
        example.site_accesses.iter_mut().for_each(|row| (row.samples, row.period) = (0, 1));
        example.object_accesses.iter_mut().for_each(|row| (row.samples, row.period) = (0, 1));
        example.code_fetches.iter_mut().for_each(|row| row.period = 1);
    }
    println!("{}", example.write(path.as_ref())?.display());
    Ok(())
}
