//! `import` and `export` as a user types them, with the programs that read the exports.

#[path = "../../../import/tests/common/mod.rs"]
mod perf_data;

use super::*;
use numalens_profile::testing::Synthetic;
use std::path::Path;
use std::process::Command;

/// What a program that must succeed prints.
#[track_caller]
fn read_by(program: &str, args: &[&str], file: &Path) -> String {
    let mut command = Command::new(program);
    command.args(args).arg(file).env("PPROF_TMPDIR", file.parent().unwrap());
    stdout(&mut command)
}

/// A directory with the synthetic profile in it, and an export of it. 77 accesses, 32 of them remote, all on line 21 of
/// `step`, inlined into `work`.
fn export(to: &str) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let profile = Synthetic::example().write(&directory.path().join("app.numalens")).unwrap();
    let file = directory.path().join("export");
    let export = || {
        let mut command = numalens(&["export", "--to", to, "-o"]);
        command.arg(&file).arg(&profile);
        command
    };
    output(&mut export()).succeeded();
    // Not a second time, unless asked for.
    assert!(failure(&mut export(), 1).contains("--force"));
    output(export().arg("--force")).succeeded();
    (directory, file)
}

/// Numbers without their separators, and without percentages.
fn plain(line: &str) -> String {
    let words = line.split_whitespace().filter(|word| !word.ends_with("%)") && !word.starts_with('('));
    words.map(|word| word.replace(',', "")).collect::<Vec<_>>().join(" ")
}

#[test]
fn callgrind_annotate_reads_the_export_with_its_calls() {
    let (_directory, file) = export("callgrind");
    let own = read_by("callgrind_annotate", &["--auto=no", "--threshold=100", "--show=accesses,remote"], &file);
    let has = |report: &str, line: &str| report.lines().any(|l| plain(l).starts_with(line));
    assert!(has(&own, "77 32 PROGRAM TOTALS"), "{own}");
    assert!(has(&own, "51 32 app.c:work(double* int)"), "{own}");
    assert!(has(&own, "16 . app.c:fill") || has(&own, "16 0 app.c:fill"), "{own}");
    // `main` accesses nothing itself, but all that its callees do.
    let inclusive = read_by(
        "callgrind_annotate",
        &["--inclusive=yes", "--tree=calling", "--show=accesses", "--threshold=100"],
        &file,
    );
    assert!(has(&inclusive, "77 * app.c:main"), "{inclusive}");
    assert!(has(&inclusive, "51 > app.c:work(double* int)"), "{inclusive}");
}

#[test]
fn pprof_reads_the_export_with_its_inlined_calls() {
    let (_directory, file) = export("pprof");
    let top = read_by("go", &["tool", "pprof", "-top", "-sample_index=remote"], &file);
    assert!(top.contains("of 32 total"), "{top}");
    assert!(top.lines().any(|line| line.contains("step") && line.contains("inline")), "{top}");
    let all = read_by("go", &["tool", "pprof", "-top", "-cum", "-sample_index=accesses"], &file);
    let main =
        all.lines().find(|line| line.trim_end().ends_with(" main")).unwrap_or_else(|| panic!("no main in {all}"));
    assert_eq!(main.split_whitespace().nth(3), Some("77"), "{all}");
    let threads = read_by("go", &["tool", "pprof", "-tags", "-sample_index=accesses"], &file);
    assert!(threads.contains("worker"), "{threads}");
}

#[test]
fn the_firefox_profiler_gets_threads_in_time() {
    let (_directory, file) = export("firefox");
    let document: serde_json::Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    assert_eq!(document["meta"]["preprocessedProfileVersion"].as_u64().map(|version| version >= 44), Some(true));
    let threads = document["threads"].as_array().unwrap();
    let names: Vec<_> = threads.iter().map(|thread| thread["name"].as_str().unwrap()).collect();
    // Main threads are called as their processes are.
    for name in ["./app", "worker", "floater", "child"] {
        assert!(names.contains(&name), "{names:?}");
    }
    let weights = threads.iter().flat_map(|thread| thread["samples"]["weight"].as_array().unwrap());
    assert_eq!(weights.map(|weight| weight.as_i64().unwrap()).sum::<i64>(), 77);
    let categories: Vec<_> =
        document["meta"]["categories"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert!(categories.contains(&"remote") && categories.contains(&"unplaced"), "{categories:?}");
    for thread in threads {
        let length = thread["samples"]["length"].as_u64().unwrap();
        assert_eq!(thread["samples"]["stack"].as_array().unwrap().len() as u64, length);
    }
}

/// A recording of perf on its way: from standard input, by either of its names, whatever frame it has; and why not.
#[test]
fn perf_s_recordings_come_by_standard_input() {
    use perf_data::perf;
    let directory = tempfile::tempdir().unwrap();
    let samples = perf::forty();
    for (name, bytes) in
        [("-", perf::pipe(&samples)), ("/dev/stdin", perf::pipe(&samples)), ("-", perf::file(&samples))]
    {
        let output = directory.path().join("a.numalens");
        fed(numalens(&["import", name, "-f", "-o"]).arg(&output), &bytes).succeeded();
        let report = json(numalens(&["report"]).arg(&output));
        assert_eq!(report["summary"]["accesses"], 40_000);
    }
    let refused = |of: &Path, stdin: &str| {
        let output = directory.path().join("b.numalens");
        let refused = fed(numalens(&["import"]).arg(of).arg("-o").arg(output), stdin.as_bytes());
        assert_eq!(refused.code(), Some(1), "{refused:?}");
        refused.told()
    };
    assert!(refused(Path::new("-"), "").contains("it was a pipe that has been read before"));
    assert!(refused(directory.path(), "").contains("none of `perf record --threads`"));
}

#[test]
fn a_numaprof_file_is_imported_and_reported() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("numaprof-app-5.json");
    let profile = serde_json::json!({
        "infos": { "formatVersion": 2, "tool": "numaprof", "command": "./app", "duration": 100 },
        "topo": { "0": { "cpus": [0], "distance": [0, 1] }, "1": { "cpus": [1], "distance": [1, 0] } },
        "threads": [{ "stats": { "localAccess": 300, "remoteAccess": 100 }, "numa": 1, "accessMatrix": { "1": [100, 300] } }],
        "instructions": { "0x10": { "localAccess": 300, "remoteAccess": 100 } },
    });
    std::fs::write(&file, profile.to_string()).unwrap();
    let made = directory.path().join("app.numalens");
    let mut import = numalens(&["import", "--machine", "2x1", "--run-time", "0.5", "-o"]);
    output(import.arg(&made).arg(&file)).succeeded();
    let report = json(numalens(&["report"]).arg(&made));
    assert_eq!(report["summary"]["local_share"], 75.0);
    // Neighbours of an NxC machine are at distance 20.
    assert_eq!(report["summary"]["numa_access_rate"], (300.0 * 10.0 + 100.0 * 20.0) / 0.5);
    assert_eq!(report["summary"]["run_time_of"], "program without a profiler");
    assert_eq!(report["meta"]["duration_s"], serde_json::Value::Null);
    check(&made);

    let other = directory.path().join("text");
    std::fs::write(&other, "hello").unwrap();
    let mut import = numalens(&["import"]);
    let told = failure(import.arg(&other).arg("-o").arg(directory.path().join("b")), 1);
    assert!(told.contains("--from"), "{told}");
}
