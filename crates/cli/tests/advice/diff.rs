//! `numalens diff` of a program and its repaired twin: the verdict, what comes first, and rows that are one in both
//! builds.

use super::*;
use std::path::{Path, PathBuf};

const SOURCE: &str = include_str!("init.c");

fn compiled(lab: &Lab, name: &str, source: &str) -> PathBuf {
    let (file, program) = (lab.at("init.c"), lab.path().join(name));
    std::fs::write(&file, source).unwrap();
    compile(&file, &program, &["-O2", "-g", "-fopenmp"]);
    program
}

/// Records a program; each recording has a name.
fn recorded(lab: &Lab, program: &Path, argument: &str, name: &str) -> PathBuf {
    let profile = lab.path().join(format!("{name}.numalens"));
    let recorded = lab.recorded(&[], &[program.to_str().unwrap(), argument]).succeeded();
    std::fs::rename(&recorded.path, &profile).unwrap();
    profile
}

/// `numalens diff BEFORE AFTER`
fn diff(before: &Path, after: &Path) -> std::process::Command {
    let mut command = numalens(&["diff"]);
    command.args([before, after]);
    command
}

#[track_caller]
fn text(before: &Path, after: &Path, arguments: &[&str]) -> String {
    stdout(diff(before, after).args(arguments))
}

#[track_caller]
fn json(before: &Path, after: &Path) -> Value {
    super::json(&mut diff(before, after))
}

fn rows<'a>(document: &'a Value, table: &str) -> &'a [Value] {
    document[table].as_array().unwrap()
}

/// Twice the program as it is and once repaired, recorded by one executable.
fn recordings() -> (Lab, [PathBuf; 3]) {
    let lab = Lab::exact();
    let program = compiled(&lab, "init", SOURCE);
    let recordings = [("b", "b"), ("b", "b_again"), ("p", "p")].map(|(how, name)| recorded(&lab, &program, how, name));
    (lab, recordings)
}

/// The cost model of docs/guide/advice.md, over the matrix of a report.
fn memory_time(profile: &Path, queue: f64) -> f64 {
    let report = super::json(numalens(&["report"]).arg(profile));
    let matrix = &report["matrix"]["access"];
    let number = |value: &Value| value.as_f64().unwrap();
    let nodes = matrix["nodes"].as_array().unwrap().len();
    let loads: Vec<f64> = (0..nodes).map(|to| (0..nodes).map(|from| number(&matrix["rows"][from][to])).sum()).collect();
    let mean = loads.iter().sum::<f64>() / nodes as f64;
    let cost = |from: usize, to: usize| {
        let way = if from == to { 1.0 } else { 2.0 };
        number(&matrix["rows"][from][to]) * way * (1.0 + queue * (loads[to] / mean - 1.0).max(0.0))
    };
    let homeless: f64 = matrix["unplaced"]["rows"].as_array().unwrap().iter().map(number).sum();
    (0..nodes).flat_map(|from| (0..nodes).map(move |to| (from, to))).map(|(from, to)| cost(from, to)).sum::<f64>()
        + homeless
}

#[test]
fn the_first_line_is_a_verdict() {
    let (_lab, [before, again, after]) = recordings();
    let allocated = format!("array allocated at init.c:{} (main)", line_of(SOURCE, "malloc"));
    let memory = allocated.replace("array", "memory");
    let first = |one: &Path, other: &Path| text(one, other, &[]).lines().next().unwrap().to_string();
    let better = first(&before, &after);
    assert!(better.starts_with("AFTER is better: predicted memory time -"), "{better}");
    assert!(better.contains(&allocated) || better.contains(&memory), "{better}");
    let worse = first(&after, &before);
    assert!(worse.starts_with("AFTER is worse: predicted memory time +"), "{worse}");
    assert!(worse.contains(&allocated) || worse.contains(&memory), "{worse}");
    let same = first(&before, &again);
    assert!(same.starts_with("no difference that matters: predicted memory time 0.0 %"), "{same}");

    let verdict = &json(&before, &after)["verdict"];
    let number = |keys: [&str; 2]| verdict[keys[0]][keys[1]].as_f64().unwrap();
    assert!(number(["remote_share", "before"]) > 60.0 && number(["remote_share", "after"]) < 1.0, "{verdict:#}");
    for (key, queue) in [("value", 0.25), ("high", 0.0), ("low", 1.0)] {
        let gained = (memory_time(&after, queue) / memory_time(&before, queue) - 1.0) * 100.0;
        let found = number(["memory_time_percent", key]);
        assert!((found - gained).abs() < 0.01, "{key}: {found}, not {gained}");
    }
    assert_eq!((&verdict["result"], &verdict["sentence"]), (&"better".into(), &better.as_str().into()));
    assert_eq!(verdict["chiefly"]["place"]["line"], line_of(SOURCE, "malloc"));
    assert_eq!(json(&after, &before)["verdict"]["result"], "worse");
}

#[test]
fn what_was_remote_comes_first_and_noise_not_at_all() {
    let (_lab, [before, again, after]) = recordings();
    let document = json(&before, &after);
    let line = &rows(&document, "lines")[0];
    assert_eq!(line["line"], line_of(SOURCE, "/* use */"), "{line:#}");
    let object = &rows(&document, "objects")[0];
    assert_eq!((&object["kind"], &object["site"]["line"]), (&"heap".into(), &line_of(SOURCE, "malloc").into()));
    for row in [line, object] {
        let remote = |side: &str| row[side].as_f64().unwrap();
        assert!(remote("remote_before") > 60.0 && remote("remote_after") < 1.0, "{row:#}");
        assert!(row["significant"] == true && row["state"].is_null(), "{row:#}");
    }
    let screen = text(&before, &after, &[]);
    for noise in ["ld-linux", "libgomp", "omp_get_num_threads", "_rtld_global", "stack of"] {
        assert!(!screen.contains(noise), "{noise} in\n{screen}");
    }
    assert!(screen.contains("not shown: ") && screen.contains("points"), "{screen}");
    let page = text(&before, &after, &["--format", "html"]);
    assert!(page.contains("AFTER is better") && page.contains("not shown: "), "{page}");

    // Of one program twice nothing is significant, and stacks have numbers, not the kernel's.
    let same = json(&before, &again);
    for table in ["figures", "lines", "objects"] {
        for row in rows(&same, table) {
            assert_ne!(row["significant"], true, "{row:#}");
        }
    }
    let stacks: Vec<&Value> = rows(&same, "objects").iter().filter(|row| row["kind"] == "stack").collect();
    assert!(stacks.iter().any(|row| row["object"] == "stack stack of worker 3"), "{stacks:#?}");
    assert!(stacks.iter().all(|row| row["state"].is_null()), "{stacks:#?}");
}

#[test]
fn a_copied_executable_has_the_same_rows() {
    let lab = Lab::exact();
    let program = compiled(&lab, "init", SOURCE);
    let copy = lab.path().join("init_v1");
    std::fs::copy(&program, &copy).unwrap();
    let document = json(&recorded(&lab, &program, "b", "before"), &recorded(&lab, &copy, "p", "after"));
    let of_program: Vec<&Value> = rows(&document, "lines").iter().filter(|row| row["module"].is_null()).collect();
    assert!(of_program.iter().all(|row| row["module"] != "init" && row["module"] != "init_v1"));
    let used = of_program.iter().find(|row| row["line"] == line_of(SOURCE, "/* use */")).unwrap();
    assert!(used["state"].is_null() && used["remote_after"].as_f64() < Some(1.0), "{used:#}");
    // What only one of the ways executes is new or gone; everything else of the program is in both.
    let alone = |row: &&&Value| row["state"] == "new" || row["state"] == "gone";
    let lines: Vec<u64> = of_program.iter().filter(alone).filter_map(|row| row["line"].as_u64()).collect();
    let (first, last) = (line_of(SOURCE, "argc > 1"), line_of(SOURCE, "int round"));
    assert!(lines.iter().all(|line| (first..last).contains(line)), "{lines:?}");
}

#[test]
fn outlined_functions_are_renumbered_and_lines_move() {
    let lab = Lab::exact();
    let before = recorded(&lab, &compiled(&lab, "init", SOURCE), "b", "before");
    // One parallel region more, before the others: what was `main._omp_fn.1` is `main._omp_fn.2`.
    let more = "#pragma omp parallel for\n    for (int i = 0; i < 8; i++) array[i * 64] = 0;\n";
    let at = "    for (int round";
    let source = SOURCE.replace(at, &format!("{more}{at}"));
    let after = recorded(&lab, &compiled(&lab, "init_v1", &source), "p", "after");
    let document = json(&before, &after);
    let used = &rows(&document, "lines")[0];
    assert_eq!(
        (&used["line"], &used["line_before"], &used["function"], &used["state"]),
        (&line_of(&source, "/* use */").into(), &line_of(SOURCE, "/* use */").into(), &"main".into(), &"moved".into())
    );
    assert!(used["remote_before"].as_f64() > Some(60.0) && used["remote_after"].as_f64() < Some(1.0), "{used:#}");
    assert_eq!(document["verdict"]["result"], "better");
}
