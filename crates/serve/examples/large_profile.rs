//! Writes a profile of the size that the web view must stand: ten million facts, 1,024 threads, 100,000 lines of
//! source. `ui/e2e/speed.ts` measures with it.
//!
//! `cargo run --release -p numalens-serve --example large_profile -- PATH [FACTS]`

use numalens_profile::testing::large;
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let path = arguments.first().ok_or("usage: large_profile PATH [FACTS]")?;
    let facts: u64 = arguments.get(1).map_or(Ok(10_000_000), |facts| facts.parse())?;
    println!("{}", large::write(Path::new(path), facts)?.display());
    Ok(())
}
