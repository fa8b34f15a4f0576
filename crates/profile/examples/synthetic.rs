//! Writes the synthetic profile that the tests use, for tests in other languages: `synthetic PATH [sample|exact]`. As
//! `exact` it has counts instead of samples.

use numalens_profile::testing::Synthetic;
use numalens_profile::{Engine, RecordedUnit};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: synthetic PATH [sample|exact]")?;
    let mut example = Synthetic::example();
    if arguments.next().as_deref() == Some("exact") {
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
