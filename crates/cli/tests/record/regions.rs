//! OpenMP's parallel regions are phases, by the place in the program that begins them.

use super::*;
use numalens_profile::Profile;
use numalens_profile::tables::{Phase, Site};
use std::process::Command;

/// Phases of a name, which all have a place, a thread and an end.
fn phases(profile: &Profile, name: &str) -> Vec<Phase> {
    let sites = profile.rows::<Site>().unwrap();
    let all = profile.rows::<Phase>().unwrap();
    let found: Vec<Phase> = all.iter().filter(|phase| phase.name == name).cloned().collect();
    assert!(!found.is_empty(), "no {name}: {:?}", all.iter().map(|phase| &phase.name).collect::<Vec<_>>());
    for phase in &found {
        assert!(sites.iter().any(|site| Some(site.site) == phase.site), "{phase:?}");
        assert!(phase.thread.is_some() && phase.end_ns.is_some(), "{phase:?}");
    }
    found
}

#[test]
fn regions_are_phases() {
    need_recording!();
    // A static program has its runtime's symbols. Optimized, regions at the end of their functions are begun by a jump.
    let built = |flags: &[&str]| built("record/regions.c", flags);
    let [shared, jumps, whole] = [&["-fopenmp"][..], &["-fopenmp", "-O2"], &["-fopenmp", "-O2", "-static"]].map(built);
    let alone = run(&mut Command::new(shared));
    for (engine, program) in
        [("sample", shared), ("sample", jumps), ("exact", shared), ("exact", jumps), ("exact", whole)]
    {
        let lab = Lab::new();
        let (outcome, profile) = lab.record(&["--engine", engine], &[program]);
        assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), (alone.stdout.as_str(), ""), "{engine}");
        let [fill, step, total] = ["fill", "step", "total"].map(|tag| {
            phases(&profile, &format!("omp parallel {tag} at regions.c:{}", expected("record/regions.c", tag)))
        });
        assert_eq!((fill.len(), total.len()), (1, 1), "{engine}");
        // Twenty thousand of them, one for each time bin at most.
        assert!(step.len() as u32 <= profile.meta.bins, "{engine}: {}", step.len());
        assert!(fill[0].end_ns.unwrap() <= step[0].start_ns, "{engine}");
        assert!(step.last().unwrap().end_ns.unwrap() <= total[0].start_ns, "{engine}");
        // The end that was still waiting when the last one came has been told.
        let told: u64 = step.iter().map(|phase| phase.end_ns.unwrap() - phase.start_ns).sum();
        let between = total[0].start_ns - fill[0].end_ns.unwrap();
        assert!(told * 2 > between, "{engine}: {told} of {between} ns");
        let name = &step[0].name;
        let report = run(numalens(&["report", "--section", "summary", "--phase", name]).arg(lab.profile()));
        assert_eq!(report.code(), Some(0), "{engine}: {}", report.stderr);
    }
}

#[test]
fn a_runtime_for_tools_names_its_regions() {
    need_recording!();
    let program = built("record/regions_tool.c", &["-l:libomp.so.5"]);
    for engine in ENGINES {
        let lab = Lab::new();
        let (outcome, profile) = lab.record(&["--engine", engine], &[program]);
        assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("2000000\n", ""), "{engine}");
        let found = phases(
            &profile,
            &format!("omp parallel main at regions_tool.c:{}", expected("record/regions_tool.c", "region")),
        );
        assert_eq!(found.len(), 1, "{engine}");
    }
}

/// Python modules bring runtimes of their own: each region is its own runtime's.
#[test]
fn a_region_is_its_own_runtimes() {
    need_recording!();
    let folder = Lab::new();
    let source = source("record/regions_module.c");
    let at = |name: &str| folder.at(name);
    let compile = |arguments: &[&str]| {
        let status = Command::new("cc").args(["-O1", "-o"]).args(arguments).arg(&source).status().unwrap();
        assert!(status.success(), "{arguments:?}");
    };
    let (runtime, object, own, other, program) =
        (at("libother.so"), at("module.o"), at("own.so"), at("other.so"), at("program"));
    compile(&[&runtime, "-shared", "-fPIC", "-DRUNTIME", "-Wl,-soname,libother.so"]);
    compile(&[&own, "-shared", "-fPIC", "-fopenmp", "-DMODULE"]);
    compile(&[&object, "-c", "-fPIC", "-fopenmp", "-DMODULE"]);
    compile(&[&program]);
    let rpath = format!("-Wl,-rpath,{}", folder.path().display());
    let linked = Command::new("cc").args(["-shared", "-o", &other, &object, &runtime, &rpath]).status().unwrap();
    assert!(linked.success());
    for order in [[&own, &other], [&other, &own]] {
        let alone = run(Command::new(&program).args(order));
        assert!(alone.stdout.contains("the other runtime\n1\n") && alone.stdout.contains("2\n"), "{}", alone.stdout);
        for engine in ENGINES {
            let lab = Lab::new();
            let command = [program.as_str(), order[0], order[1]];
            let (outcome, profile) = lab.record(&["--engine", engine], &command);
            assert_eq!((outcome.stdout, outcome.stderr), (alone.stdout.clone(), String::new()), "{engine}");
            assert_eq!(profile.rows::<Phase>().unwrap().len(), 2, "{engine}");
        }
    }
}
