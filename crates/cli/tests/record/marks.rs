//! What a program says by numalens.h, and a user by `numalens ctl`: when to count, phases, blocks of its own allocator.

use super::*;
use numalens_profile::tables::{Frame, Object, ObjectAccess, Phase, Process, Site};
use numalens_profile::words::ObjectKind;

/// Functions with accesses.
fn functions(lab: &Lab) -> Vec<String> {
    let report = lab.json(&["report", "--section", "functions"]);
    let rows = report["functions"].as_array().unwrap().iter();
    rows.filter(|row| row["accesses"].as_u64().unwrap() > 0)
        .map(|row| row["function"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_program_says_when_to_count_and_names_phases() {
    need_recording!();
    for engine in ENGINES {
        let lab = Lab::new();
        let (outcome, profile) = lab.record(&["--start-paused", "--engine", engine], &[marks()]);
        assert_eq!(outcome.stderr, "");
        let found = functions(&lab);
        assert!(found.iter().any(|name| name == "inside"), "{engine}: {found:?}");
        assert!(!found.iter().any(|name| name == "outside"), "{engine}: {found:?}");
        let counted = profile.meta.counted_ns.unwrap();
        assert!(0 < counted && counted < profile.meta.duration_ns, "{engine}: {counted}");
        let phases = profile.rows::<Phase>().unwrap();
        let names: Vec<_> = phases.iter().map(|phase| phase.name.as_str()).collect();
        assert_eq!(names, ["solve", "inner", "half way"], "{engine}");
        let times: Vec<_> = phases.iter().map(|phase| (phase.start_ns, phase.end_ns.unwrap())).collect();
        assert!(times[0].0 <= times[1].0 && times[1].1 <= times[2].0 && times[2].1 <= times[0].1, "{times:?}");
        assert_eq!(times[2].0, times[2].1);
        assert!(phases.iter().all(|phase| phase.thread.is_some()));
        let text = run(numalens(&["report", "--section", "phases"]).arg(lab.profile())).stdout;
        assert!(text.contains("half way") && text.contains("accesses were counted for"), "{text}");
        let of_phase =
            |name: &str| run(numalens(&["report", "--phase", name, "--section", "summary"]).arg(lab.profile()));
        let (solving, unknown) = (of_phase("solve"), of_phase("unknown"));
        assert!(solving.code() == Some(0) && solving.stdout.contains("only a part"), "{}", solving.stdout);
        assert_eq!(unknown.code(), Some(2));
        assert!(unknown.stderr.contains("no phase `unknown`; there are: half way, inner, solve"), "{}", unknown.stderr);
        // Nothing of it without the option, but the pause in the end.
        let lab = Lab::new();
        lab.record(&["--engine", engine], &[marks()]);
        assert!(functions(&lab).iter().any(|name| name == "outside"), "{engine}");
    }
}

/// Guards phases of exact recordings: counters were read when that was due, 50 ms apart or more, and what a reading
/// found was of the phase that ran then.
#[test]
fn a_phase_of_a_short_recording_has_its_accesses() {
    need_recording!();
    let lab = Lab::new();
    lab.record(&["--engine", "exact"], &[marks(), "phases"]);
    let phases = lab.json(&["report", "--section", "phases"])["phases"].clone();
    let share = |name: &str| {
        let mut rows = phases.as_array().unwrap().iter();
        rows.find(|row| row["name"] == name).unwrap()["share"].as_f64().unwrap()
    };
    // Five sixths, but what runs until the reading.
    assert!(share("solve") > 60.0 && share("before") < 30.0 && share("after") < 30.0, "{phases:#}");
    let of_phase = lab.json(&["report", "--section", "summary", "--phase", "solve"])["summary"]["accesses"].clone();
    let row = phases.as_array().unwrap().iter().find(|row| row["name"] == "solve").unwrap();
    assert_eq!(of_phase, row["accesses"], "the section and --phase");
}

#[test]
fn a_block_of_the_programs_own_allocator_is_an_object() {
    need_recording!();
    let static_one = built("record/marks.c", &["-static"]);
    for (engine, program) in [("sample", marks()), ("exact", marks()), ("exact", static_one)] {
        let lab = Lab::new();
        let (_, profile) = lab.record(&["--engine", engine], &[program, "arena"]);
        let objects = profile.rows::<Object>().unwrap();
        let grid = objects.iter().find(|object| object.name == "the grid").expect("the block's name");
        assert_eq!((grid.kind, grid.size, grid.count), (ObjectKind::Heap, 1 << 20, 1), "{program:?}");
        assert!(grid.death_ns.is_some(), "{program:?}: it was given back");
        let site = profile.rows::<Site>().unwrap().into_iter().find(|site| Some(site.site) == grid.site).unwrap();
        let frames = profile.rows::<Frame>().unwrap();
        let frame = frames.iter().find(|frame| frame.site == site.site).expect("a line");
        assert_eq!(frame.line.map(u64::from), Some(expected("record/marks.c", "grid")), "{program:?}");
        let rows = profile.rows::<ObjectAccess>().unwrap();
        let all: u64 = rows.iter().map(|row| row.reads + row.writes).sum();
        let of_grid =
            rows.iter().filter(|row| row.object == grid.object).map(|row| row.reads + row.writes).sum::<u64>();
        assert!(of_grid * 10 > all * 8, "{program:?}: {of_grid} of {all}");
    }
}

#[test]
fn a_user_says_when_to_count() {
    need_recording!();
    for engine in ENGINES {
        let lab = Lab::new();
        let mut command = lab.recorder(&["--start-paused", "--engine", engine]);
        command.arg(awkward()).arg("serve");
        let mut served = serve(command);
        let ctl = |arguments: &[&str], pid: u32| {
            let outcome = run(numalens(&["ctl"]).args(arguments).args(["--pid", &pid.to_string()]));
            (outcome.code(), outcome.stdout + &outcome.stderr)
        };
        let (program, recorder) = (served.pid as u32, served.numalens.id());
        let done = |text: &str| (Some(0), format!("{text}\n"));
        assert_eq!(ctl(&["start"], program), done("counting"), "{engine}");
        assert_eq!(ctl(&["start"], recorder), done("counting, as before"), "{engine}");
        assert_eq!(ctl(&["mark", "half way"], recorder), done("marked `half way`"), "{engine}");
        assert_eq!(ctl(&["stop"], program), done("paused"), "{engine}");
        assert_eq!(ctl(&["mark"], program).0, Some(2));
        let (code, text) = ctl(&["stop"], std::process::id());
        assert!(code == Some(1) && text.contains("is not being recorded"), "{text}");
        served.finish();
        let (status, stderr) = served.wait();
        assert_eq!((status.code(), stderr.as_str()), (Some(0), ""), "{engine}");
        let profile = lab.sound();
        let counted = profile.meta.counted_ns.unwrap();
        assert!(0 < counted && counted < profile.meta.duration_ns, "{engine}: {counted}");
        let phases = profile.rows::<Phase>().unwrap();
        assert_eq!((phases.len(), phases[0].name.as_str(), phases[0].thread), (1, "half way", None), "{engine}");
        let (code, text) = ctl(&["start"], program);
        assert!(code == Some(1) && text.contains("there is no process"), "{text}");
    }
    let outcome = run(&mut numalens(&["ctl", "start"]));
    assert_eq!((outcome.code(), outcome.stderr.contains("--pid")), (Some(2), true));
}

#[test]
fn a_recording_that_was_never_started_says_so() {
    need_recording!();
    for engine in ENGINES {
        let lab = Lab::new();
        let (_, profile) = lab.record(&["--start-paused", "--engine", engine], &["sh", "-c", "exit 0"]);
        assert_eq!(profile.meta.counted_ns, Some(0));
        assert_eq!(functions(&lab), [""; 0]);
        let text = run(numalens(&["report"]).arg(lab.profile())).stdout;
        assert!(text.contains("no start came"), "{engine}: {text}");
    }
}

#[test]
fn children_that_are_left_out_are_named() {
    need_recording!();
    for engine in ENGINES {
        let lab = Lab::new();
        // What the command executes itself is the command.
        let script = "/bin/echo one; (exit 3); echo $?; exec env sh -c '/bin/echo two; exit 0'";
        let (outcome, profile) = lab.record(&["--no-follow", "--engine", engine], &["sh", "-c", script]);
        assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("one\n3\ntwo\n", ""), "{engine}");
        let processes = profile.rows::<Process>().unwrap();
        assert_eq!(processes.len(), 1, "{engine}");
        // A program that is over before the collector looks goes by the name of the one before it.
        assert!(processes[0].command.contains("sh -c"), "{engine}: {}", processes[0].command);
        let left_out = &profile.meta.unobserved;
        // Each echo and the subshell; a shell may well execute the last of its commands itself.
        assert!((2..=3).contains(&left_out.len()), "{engine}: {left_out:?}");
        assert!(left_out.iter().all(|line| line.ends_with("left out by --no-follow")), "{engine}: {left_out:?}");
    }
}
