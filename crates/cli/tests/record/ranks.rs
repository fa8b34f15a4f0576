//! MPI programs under Open MPI's launcher: a profile of each rank, and one of all.

use super::*;
use numalens_profile::Profile;
use numalens_profile::tables::{PlacedPages, Process, Site};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

/// Two ranks on this host, whoever calls, however many cores it has.
fn mpirun() -> Command {
    let mut command = Command::new("mpirun");
    command.args(["--oversubscribe", "--bind-to", "none", "-n", "2"]);
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command
}

fn ranks(profile: &Profile) -> BTreeSet<u32> {
    profile.rows::<Process>().unwrap().iter().filter_map(|process| process.rank).collect()
}

fn first_touches(profile: &Profile) -> u64 {
    profile.rows::<PlacedPages>().unwrap().iter().filter(|row| row.site.is_some()).map(|row| row.count).sum()
}

#[test]
fn each_rank_records_itself_and_a_report_reads_all() {
    need_recording!();
    let lab = Lab::new();
    for engine in ENGINES {
        let name = |rank: &str| lab.path().join(format!("{engine}-{rank}.numalens"));
        let outcome = run(mpirun()
            .arg(NUMALENS)
            .args(["record", "-q", "--engine", engine, "-o"])
            .arg(name("%r"))
            .arg("--")
            .args([pages(), "write", "500"]));
        assert_eq!(outcome.code(), Some(0), "{outcome:?}");
        let paths: Vec<PathBuf> = ["0", "1"].map(name).into();
        let alone: Vec<Profile> = paths.iter().map(|path| Profile::open(path).unwrap()).collect();
        assert_eq!(alone.iter().map(ranks).collect::<Vec<_>>(), [BTreeSet::from([0]), BTreeSet::from([1])]);

        let merged = name("all");
        let outcome = run(numalens(&["merge"]).args(&paths).arg("-o").arg(&merged));
        assert_eq!(outcome.code(), Some(0), "{outcome:?}");
        check(&merged);
        let both = Profile::open(&merged).unwrap();
        assert_eq!(ranks(&both), BTreeSet::from([0, 1]));
        assert_eq!(first_touches(&both), alone.iter().map(first_touches).sum::<u64>());
        let most_sites = alone.iter().map(|profile| profile.count::<Site>().unwrap()).max().unwrap();
        let sites = both.count::<Site>().unwrap();
        assert!(sites < 2 * most_sites, "the ranks run the same code: {sites} of at most {most_sites} each");

        let report = |paths: &[PathBuf]| {
            let outcome = run(numalens(&["report", "--section", "threads,lines", "--format", "json"]).args(paths));
            assert_eq!(outcome.code(), Some(0), "{outcome:?}");
            outcome.stdout
        };
        assert_eq!(report(&paths), report(&[merged]), "merged for a report, or to keep");
        let text = run(numalens(&["report", "--section", "threads"]).args(&paths));
        assert!(text.stdout.contains("rank"), "{text:?}");
    }
}

/// A window that one rank placed is remote for the other, though each is a recording of its own; through a shell, too.
#[test]
fn ranks_know_where_memory_is_that_they_share() {
    need_recording!();
    let program = built("record/ranks_share.c", &[]);
    for (machine, shell) in [("2x2", false), ("2x2", true), ("real", false)] {
        let lab = Lab::new();
        let at = |name: &str| lab.path().join(name);
        std::fs::File::create(at("memory")).and_then(|file| file.set_len(256 * 4096)).unwrap();
        assert!(Command::new("mkfifo").arg(at("turn")).status().unwrap().success());
        let mut command = mpirun();
        if shell {
            command.args(["sh", "-c", "\"$@\"; exit $?", "sh"]);
        }
        command.arg(NUMALENS).args(["record", "-q", "--machine", machine, "-o"]).arg(at("%r.numalens"));
        let outcome = run(command.arg("--").arg(program).args([at("memory"), at("turn")]));
        assert_eq!(outcome.code(), Some(0), "{machine}: {outcome:?}");
        let both = [at("0.numalens"), at("1.numalens")];
        let report = json(numalens(&["report", "--section", "functions"]).args(both));
        let functions = report["functions"].as_array().unwrap();
        let named = |name: &str| functions.iter().find(|row| row["function"] == name).unwrap();
        let (reads, writes) = (named("read_all"), named("write_all"));
        assert_eq!((&reads["accesses"], &writes["accesses"]), (&(256 * 100).into(), &256.into()), "{machine}");
        assert_eq!((&reads["first_touch"], &writes["first_touch"]), (&0.into(), &256.into()), "{machine}");
        if machine != "real" {
            assert_eq!((&reads["classes"]["remote"], &writes["classes"]["local"]), (&(256 * 100).into(), &256.into()));
        }
    }
}

#[test]
fn the_launcher_is_recorded_with_its_ranks() {
    need_recording!();
    let lab = Lab::new();
    let launcher = mpirun();
    let mut recorder = lab.recorder(&[]);
    recorder.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    recorder.arg(launcher.get_program()).args(launcher.get_args()).args([pages(), "write", "500"]);
    let outcome = run(&mut recorder);
    assert_eq!(outcome.code(), Some(0), "{outcome:?}");
    let processes = lab.sound().rows::<Process>().unwrap();
    let of_pages: BTreeSet<_> =
        processes.iter().filter(|row| row.command.starts_with(pages())).map(|row| row.rank).collect();
    assert_eq!(of_pages, BTreeSet::from([Some(0), Some(1)]));
    let launcher = processes.iter().find(|row| row.command.starts_with("mpirun")).unwrap();
    assert_eq!(launcher.rank, None);
}

/// Programs tell their rank themselves: when they are looked at, these have ended.
#[test]
fn ranks_of_programs_that_are_gone_at_once() {
    need_recording!();
    let lab = Lab::new();
    let starts = "for rank in 0 1 2 3 4 5 6 7; do PMI_RANK=$rank /bin/true; done";
    let (_, profile) = lab.record(&["--engine", "exact"], &["sh", "-c", starts]);
    assert_eq!(ranks(&profile), (0..8).collect());
}

#[test]
fn profiles_that_do_not_go_together_are_refused() {
    need_recording!();
    let lab = Lab::new();
    let name = |engine: &str| lab.path().join(format!("{engine}.numalens"));
    for engine in ENGINES {
        let outcome = run(numalens(&["record", "-q", "--engine", engine, "-o"]).arg(name(engine)).args(["--", "true"]));
        assert_eq!(outcome.code(), Some(0), "{outcome:?}");
    }
    let output = lab.path().join("both.numalens");
    let both = [name("sample"), name("exact")];
    let merged = run(numalens(&["merge"]).args(&both).arg("-o").arg(&output));
    let reported = run(numalens(&["report"]).args(&both));
    for outcome in [merged, reported] {
        assert_eq!(outcome.code(), Some(1), "{outcome:?}");
        assert!(outcome.stderr.contains("cannot be merged"), "{outcome:?}");
    }
    assert!(!output.exists());
}
