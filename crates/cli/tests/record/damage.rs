//! Damaged profiles: an error that names the file, never a panic.

use super::*;
use std::path::{Path, PathBuf};

fn files(profile: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = std::fs::read_dir(profile).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|ending| ending == "parquet"));
    files.sort();
    files
}

/// All commands that read the whole profile; whether one complained.
#[track_caller]
fn complains(profile: &Path, file: &Path, commands: &[&str]) -> bool {
    let mut complained = false;
    for command in commands {
        let out = tempfile::tempdir().unwrap();
        let mut numalens = numalens(&[command]);
        numalens.arg(profile);
        if *command == "export" {
            numalens.args(["--to", "csv", "-o"]).arg(out.path().join("csv"));
        }
        let outcome = run(&mut numalens);
        assert!(!outcome.stderr.contains("panicked"), "{command} {}: {outcome:?}", file.display());
        assert!(matches!(outcome.code(), Some(0 | 1)), "{command} {}: {outcome:?}", file.display());
        if outcome.code() == Some(1) {
            complained = true;
            // The text may be wrapped at the edge of the screen.
            let text: String = outcome.stderr.chars().filter(|c| !c.is_whitespace() && *c != '│').collect();
            let name = file.file_name().unwrap().to_str().unwrap();
            let table = name.split('.').next().unwrap();
            assert!(text.contains(name) || text.contains(table), "{command}: {} is not named: {outcome:?}", name);
        }
    }
    complained
}

#[test]
fn what_is_no_profile_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::create_dir(path("empty.numalens")).unwrap();
    std::fs::write(path("nothing.zip"), "").unwrap();
    std::fs::write(path("text.numalens"), "I am a text.\n".repeat(99)).unwrap();
    for name in ["missing.numalens", "empty.numalens", "nothing.zip", "text.numalens"] {
        refused(&path(name), &["report", "export", "check", "unpack"]);
    }
}

#[test]
fn a_damaged_package_is_refused() {
    need_recording!();
    let lab = Lab::new();
    lab.record(&[], &["sh", "-c", "exit 0"]);
    let package = lab.path().join("run.zip");
    assert_eq!(run(numalens(&["pack"]).arg(lab.profile()).arg("-o").arg(&package)).code(), Some(0));
    check(&package);
    let good = std::fs::read(&package).unwrap();
    for length in [good.len() / 2, good.len() - 1, 3] {
        std::fs::write(&package, &good[..length]).unwrap();
        refused(&package, &["report", "export", "check", "unpack"]);
    }
    let mut bad = good.clone();
    // In the contents of a table: not all bytes between them mean something.
    let table = good.windows(4).position(|bytes| bytes == b"PAR1").unwrap();
    bad[table + 8] ^= 4;
    std::fs::write(&package, bad).unwrap();
    refused(&package, &["check", "unpack"]);
}

/// Every command ends with 1, and says which file it is about.
#[track_caller]
fn refused(path: &Path, commands: &[&str]) {
    for command in commands {
        let out = tempfile::tempdir().unwrap();
        let mut numalens = numalens(&[command]);
        numalens.arg(path).current_dir(out.path());
        match *command {
            "export" => drop(numalens.args(["--to", "csv", "-o", "csv"])),
            "unpack" => drop(numalens.args(["-o", "unpacked.numalens"])),
            _ => {}
        }
        let outcome = run(&mut numalens);
        assert_eq!(outcome.code(), Some(1), "{command}: {outcome:?}");
        assert!(!outcome.stderr.contains("panicked"), "{command}: {outcome:?}");
        let text: String = outcome.stderr.chars().filter(|c| !c.is_whitespace() && *c != '│').collect();
        assert!(text.contains(path.file_name().unwrap().to_str().unwrap()), "{command}: {outcome:?}");
    }
}

#[test]
fn truncated_and_altered_files_are_named() {
    need_recording!();
    let lab = Lab::new();
    lab.record(&[], &[pages(), "fork", "300"]);
    let profile = lab.profile();
    let files = files(&profile);
    assert!(files.len() > 10, "{files:?}");
    let mut noticed = 0;
    for (number, file) in files.iter().enumerate() {
        let good = std::fs::read(file).unwrap();
        std::fs::write(file, &good[..good.len() / 2]).unwrap();
        assert!(complains(&profile, file, &["check"]), "{} cut in half", file.display());
        let command = ["report", "export"][number % 2];
        assert!(complains(&profile, file, &[command]), "{command}: {} cut in half", file.display());
        // One bit in the data, one in what describes them.
        for at in [good.len() / 3, good.len() - 20] {
            let mut bad = good.clone();
            bad[at] ^= 1 << (number % 8);
            std::fs::write(file, &bad).unwrap();
            noticed += usize::from(complains(&profile, file, &["check", command]));
        }
        std::fs::write(file, &good).unwrap();
    }
    assert!(noticed > 0, "no altered bit was noticed");
    check(&profile);
    std::fs::remove_file(&files[1]).unwrap();
    assert!(complains(&profile, &files[1], &["check", "report", "export"]));
}
