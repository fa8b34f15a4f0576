//! Any bytes as one table of an otherwise valid profile, or as a packed profile: refused, or checked and looked at.
//!
//! The first byte of an input names the table, in the order of their names, so that a mutation changes one table and is
//! not stopped by a checksum of the archive; [`PACKED`] stands for the archive itself.
#![no_main]

use libfuzzer_sys::fuzz_target;
use numalens_profile::Profile;
use numalens_profile::testing::Synthetic;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

const PACKED: u8 = 0xff;

/// The tables of a valid profile, by name.
static TABLES: LazyLock<Vec<(PathBuf, Vec<u8>)>> = LazyLock::new(|| {
    let scratch = tempfile::tempdir().expect("a scratch directory");
    let path = Synthetic::example().write(&scratch.path().join("a.numalens")).expect("the example can be written");
    let mut tables: Vec<_> = fs::read_dir(path)
        .expect("it is a directory")
        .map(|entry| entry.expect("it can be read").path())
        .map(|file| (file.file_name().expect("a file").into(), fs::read(&file).expect("it can be read")))
        .collect();
    tables.sort();
    tables
});

fn write(path: &Path, table: usize, bytes: &[u8]) -> std::io::Result<()> {
    fs::create_dir(path)?;
    for (number, (name, valid)) in TABLES.iter().enumerate() {
        fs::write(path.join(name), if number == table { bytes } else { valid })?;
    }
    Ok(())
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&table, bytes)) = bytes.split_first() else { return };
    let Ok(scratch) = tempfile::tempdir() else { return };
    let path = scratch.path().join("a.numalens");
    let written =
        if table == PACKED { fs::write(&path, bytes) } else { write(&path, usize::from(table) % TABLES.len(), bytes) };
    if written.is_err() {
        return;
    }
    if let Ok(profile) = Profile::open(&path) {
        let _ = numalens_profile::check(&profile);
        let sections: Vec<_> = numalens_analyze::sections::ALL.iter().collect();
        let _ = numalens_analyze::sections::run(&profile, &Default::default(), &sections);
        let _ = numalens_analyze::advice::run(&profile, &Default::default());
    }
});
