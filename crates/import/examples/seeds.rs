//! Writes the small files that the importers' tests use into DIRECTORY/numaprof and DIRECTORY/perf: what fuzzing starts
//! from.

#[path = "../tests/common/mod.rs"]
mod common;

use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory: PathBuf = std::env::args_os().nth(1).ok_or("usage: seeds DIRECTORY")?.into();
    for (tool, name, content) in [
        ("numaprof", "numaprof-app-1.json", common::numaprof().to_string().into_bytes()),
        ("perf", "perf.data", common::perf::file(&common::perf::forty())),
        ("perf", "pipe.data", common::perf::pipe(&common::perf::forty())),
    ] {
        std::fs::create_dir_all(directory.join(tool))?;
        std::fs::write(directory.join(tool).join(name), content)?;
    }
    Ok(())
}
