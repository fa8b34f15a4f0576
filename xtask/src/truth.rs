//! `cargo xtask truth`: the first finding of `numalens advise` on programs whose fault is known, in so many runs of
//! either engine. `targets/truth.toml` has the programs: those of `targets/`, and others' whose sources lie in a folder
//! that is named (`--sources`, or `TRUTH_SOURCES`), each in a folder of its name. What cannot be built is left out by
//! name.

use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Percent of the runs in which the first finding must be right.
const ENOUGH: f64 = 95.0;

/// One program.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Program {
    /// What a shell executes: in `targets/build`, or where the program's sources are.
    run: String,
    /// The same for the sample engine, which needs seconds.
    longer: Option<String>,
    /// What builds it there; none: `make -C targets` has.
    build: Option<String>,
    /// The folder of its sources; none: that of its name.
    sources: Option<String>,
    /// Options of `record` beyond `--machine 4x2`.
    #[serde(default)]
    record: Vec<String>,
    /// Engines; all where none is named.
    #[serde(default)]
    engines: Vec<String>,
    /// Patterns, of which the first finding's must be one; empty: nothing to gain.
    #[serde(default)]
    pattern: Vec<String>,
    /// Text that its place, its object, or its first member must have.
    place: Option<String>,
    /// The same of the second finding.
    second: Option<String>,
    /// What its paper says.
    #[expect(dead_code, reason = "for readers of the table")]
    paper: Option<String>,
}

/// How it is run.
pub struct Options {
    pub runs: u32,
    pub engines: Vec<String>,
    pub only: Vec<String>,
    pub sources: Option<PathBuf>,
    pub numalens: PathBuf,
}

impl Options {
    /// From arguments.
    pub fn parse(arguments: &[&str], root: &Path) -> Result<Options, String> {
        let mut options = Options {
            runs: 10,
            engines: vec!["exact".into(), "sample".into()],
            only: Vec::new(),
            sources: std::env::var_os("TRUTH_SOURCES").filter(|path| !path.is_empty()).map(PathBuf::from),
            numalens: root.join("target/release/numalens"),
        };
        let mut rest = arguments.iter();
        while let Some(option) = rest.next() {
            let mut value = || rest.next().map(ToString::to_string).ok_or(format!("{option} wants a value"));
            match *option {
                "--runs" => options.runs = value()?.parse().map_err(|_| "--runs wants a number".to_string())?,
                "--engine" => options.engines = vec![value()?],
                "--only" => options.only.push(value()?),
                "--sources" => options.sources = Some(value()?.into()),
                "--numalens" => options.numalens = value()?.into(),
                _ => return Err(format!("unknown option `{option}`")),
            }
        }
        Ok(options)
    }
}

/// Prints the table; whether enough of it is right.
pub fn run(root: &Path, options: &Options) -> Result<bool, String> {
    let file = root.join("targets/truth.toml");
    let text = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let programs: BTreeMap<String, Program> =
        toml::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))?;
    if let Some(unknown) = options.only.iter().find(|name| !programs.contains_key(*name)) {
        return Err(format!("{} has no `{unknown}`", file.display()));
    }
    let mut sums: BTreeMap<(bool, &str), (u32, u32)> = BTreeMap::new();
    println!("{:<26} {:<7} {:>7}  first finding", "program", "engine", "right");
    for (name, program) in programs.iter().filter(|(name, _)| options.only.is_empty() || options.only.contains(name)) {
        let Some(folder) = built(root, name, program, options) else {
            println!("{name:<26} left out: it could not be built here");
            continue;
        };
        for engine in options.engines.iter().filter(|one| program.engines.is_empty() || program.engines.contains(one)) {
            let mut right = 0;
            let mut told: BTreeMap<String, u32> = BTreeMap::new();
            for _ in 0..options.runs {
                let advice = advice(&folder, program, engine, &options.numalens)?;
                right += u32::from(program.is_right(&advice));
                *told.entry(first(&advice)).or_default() += 1;
            }
            let sum = sums.entry((program.pattern.is_empty(), engine)).or_default();
            *sum = (sum.0 + right, sum.1 + options.runs);
            let mut told: Vec<(String, u32)> = told.into_iter().collect();
            told.sort_by_key(|(_, runs)| std::cmp::Reverse(*runs));
            let most = told.first().map_or("", |(what, _)| what);
            println!("{name:<26} {engine:<7} {right:>3}/{:<3}  {most}", options.runs);
            for (what, runs) in told.iter().skip(1).filter(|_| right < options.runs) {
                println!("{:<26} {:<7} {runs:>7}  {what}", "", "");
            }
        }
    }
    let mut enough = true;
    for ((faultless, engine), (right, runs)) in sums {
        let percent = f64::from(right) * 100.0 / f64::from(runs).max(1.0);
        let what = if faultless { "without a fault" } else { "with a fault" };
        println!("programs {what}, {engine} engine: right in {percent:.1} % of {runs} runs");
        enough &= percent >= ENOUGH;
    }
    Ok(enough)
}

/// Where the program is run; none: it cannot be built.
fn built(root: &Path, name: &str, program: &Program, options: &Options) -> Option<PathBuf> {
    let Some(build) = &program.build else {
        let folder = root.join("targets/build");
        let file = program.run.split(' ').next()?.trim_start_matches("./");
        return folder.join(file).exists().then_some(folder);
    };
    let folder = options.sources.as_ref()?.join(program.sources.as_deref().unwrap_or(name));
    let ended = Command::new("sh").args(["-c", build]).current_dir(&folder).stdout(Stdio::null()).status();
    ended.is_ok_and(|status| status.success()).then_some(folder)
}

/// Records a run, and asks for advice.
fn advice(folder: &Path, program: &Program, engine: &str, numalens: &Path) -> Result<Value, String> {
    let numalens = std::path::absolute(numalens).map_err(|error| error.to_string())?;
    let profile = std::env::temp_dir().join(format!("truth-{}.numalens", std::process::id()));
    let mut record = Command::new(&numalens);
    record.args(["record", "--force", "-q", "--machine", "4x2", "--engine", engine, "-o"]).arg(&profile);
    let run = program.longer.as_ref().filter(|_| engine == "sample").unwrap_or(&program.run);
    record.args(&program.record).args(["--", "sh", "-c"]).arg(format!("exec {run}")).current_dir(folder);
    record.env("OMP_NUM_THREADS", "8").stdout(Stdio::null()).stderr(Stdio::null());
    let status = record.status().map_err(|error| format!("{}: {error}", numalens.display()))?;
    if !status.success() {
        return Err(format!("`{run}` under `numalens record --engine {engine}`: {status}"));
    }
    let output = Command::new(&numalens).arg("advise").arg(&profile).args(["--format", "json"]).output();
    let answer = output.map_err(|error| error.to_string())?;
    let removed = std::fs::remove_dir_all(&profile);
    removed.map_err(|error| format!("{}: {error}", profile.display()))?;
    serde_json::from_slice(&answer.stdout).map_err(|error| format!("advise: {error}"))
}

impl Program {
    fn is_right(&self, advice: &Value) -> bool {
        let says = |index: usize, text: &str| {
            let finding = &advice["findings"][index];
            [&finding["where"], &finding["object"], &finding["members"][0]].iter().any(|part| within(part, text))
        };
        match advice["findings"].as_array().map(Vec::as_slice) {
            None | Some([]) => self.pattern.is_empty(),
            Some([first, ..]) => {
                self.pattern.iter().any(|pattern| first["pattern"] == pattern.as_str())
                    && self.place.as_ref().is_none_or(|text| says(0, text))
                    && self.second.as_ref().is_none_or(|text| says(1, text))
            }
        }
    }
}

/// Whether a place or an object is called so: `FILE:LINE`, or a part of a name.
fn within(part: &Value, text: &str) -> bool {
    let at = |place: &Value| {
        let file = place["file"].as_str().and_then(|file| file.rsplit('/').next()).unwrap_or_default();
        format!("{file}:{} {}", place["line"], place["function"].as_str().unwrap_or_default())
    };
    [at(part), at(&part["site"]), at(&part["where"])].iter().any(|said| said.contains(text))
        || part["name"].as_str().is_some_and(|name| name.contains(text))
}

/// The first finding in a few words.
fn first(advice: &Value) -> String {
    let finding = &advice["findings"][0];
    let Some(pattern) = finding["pattern"].as_str() else { return "nothing to gain".to_string() };
    let file = finding["where"]["file"].as_str().and_then(|file| file.rsplit('/').next()).unwrap_or("?");
    let gain = finding["gain"]["memory_time_percent"].as_f64().unwrap_or(0.0);
    let name = finding["object"]["name"].as_str().unwrap_or_default();
    format!("{pattern} {file}:{} {name} {gain:.0} %", finding["where"]["line"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_first_finding_is_compared() {
        let program = |pattern: &[&str], place: Option<&str>| Program {
            run: String::new(),
            longer: None,
            build: None,
            sources: None,
            record: Vec::new(),
            engines: Vec::new(),
            pattern: pattern.iter().map(ToString::to_string).collect(),
            place: place.map(str::to_string),
            second: None,
            paper: None,
        };
        let place = json!({ "file": "/src/a.c", "line": 5, "function": "main" });
        let advice =
            json!({ "findings": [{ "pattern": "read-by-all", "where": place, "object": { "name": "table" } }] });
        assert!(program(&["read-by-all"], Some("a.c:5 ")).is_right(&advice));
        assert!(program(&["serial-initialisation", "read-by-all"], Some("table")).is_right(&advice));
        assert!(!program(&["read-by-all"], Some("a.c:50")).is_right(&advice));
        assert!(!program(&["shared-line"], None).is_right(&advice));
        assert!(!program(&[], None).is_right(&advice), "a program without a fault");
        assert!(program(&[], None).is_right(&json!({ "findings": [] })));
    }
}
