//! `cargo xtask bench`: what recording costs, measured on whole programs.
//!
//! Every program of `bench/suite.toml` runs by itself and under `numalens record`, in turn (A B A B ...), so that what
//! else happens on the machine meets both alike. The figures are ratios of medians: of elapsed time, which a user
//! feels, and of processor time of everything involved, which a busy machine distorts less. Nothing is asserted; a run
//! is a dated file in `bench/runs/`, to be compared with other runs on the same machine. `--engine exact` measures the
//! exact engine on the programs of `bench/exact.toml`; `--suite threads` takes those of `bench/threads.toml` instead:
//! the same work shared out among ever more threads; `--suite wide` programs that nobody here wrote or tuned for;
//! `--suite starts` what starts, processes and first touches take; `--suite options` short programs, to be recorded
//! `--with` an option that looks at every access. `--suite scale` asks more, of those of `bench/scale.toml`: see
//! `scale`.

mod measure;
mod prepare;
mod report;
mod scale;
mod statistics;
mod suite;

use measure::Measured;
use report::{Host, ProgramResult, Results};
use std::io;
use std::path::{Path, PathBuf};
use suite::Suite;

/// How to measure.
#[derive(PartialEq, Eq, Debug)]
pub struct Options {
    /// The engine to measure: `sample` or `exact`.
    pub engine: String,
    /// The list of programs in `bench/`, without its ending; none: the engine's own.
    pub suite: Option<String>,
    /// Options to record with, besides.
    pub with: Vec<String>,
    /// Pairs of runs of each program.
    pub rounds: usize,
    /// Only these programs; none: all.
    pub only: Vec<String>,
    /// The binary to measure.
    pub numalens: PathBuf,
}

impl Options {
    /// Reads the arguments after `bench`.
    ///
    /// # Errors
    /// Says which argument is wrong.
    pub fn parse(arguments: &[&str], root: &Path) -> Result<Self, String> {
        let numalens = root.join("target/release/numalens");
        let mut options = Options {
            engine: "sample".to_owned(),
            suite: None,
            with: Vec::new(),
            rounds: 5,
            only: Vec::new(),
            numalens,
        };
        let mut rest = arguments.iter();
        while let Some(&name) = rest.next() {
            let value = rest.next().ok_or_else(|| format!("{name}: unknown, or its value is missing"))?;
            match name {
                "--rounds" => {
                    let rounds = value.parse().ok().filter(|&rounds| rounds > 0);
                    options.rounds = rounds.ok_or_else(|| format!("--rounds {value}: not a number above 0"))?;
                }
                "--engine" if ["sample", "exact"].contains(value) => options.engine = (*value).to_owned(),
                "--engine" => return Err(format!("--engine {value}: not sample or exact")),
                "--suite" if value.bytes().all(|byte| byte.is_ascii_lowercase()) => {
                    options.suite = Some((*value).to_owned())
                }
                "--suite" => return Err(format!("--suite {value}: not the name of a list in bench/")),
                "--with" => options.with.push((*value).to_owned()),
                "--only" => options.only.push((*value).to_owned()),
                "--numalens" => options.numalens = PathBuf::from(value),
                _ => return Err(format!("{name}: no such option")),
            }
        }
        Ok(options)
    }
}

/// Measures and writes the results; returns the files written.
///
/// # Errors
/// The suite cannot be read, no such program, numalens cannot be run, the results cannot be written. A program that
/// fails is named in the results instead.
pub fn run(root: &Path, options: &Options) -> io::Result<Vec<PathBuf>> {
    let numalens = options.numalens.canonicalize().map_err(|error| {
        let hint = "build it with `cargo build --release -p numalens`, or name one with --numalens";
        io::Error::new(error.kind(), format!("{}: {error}; {hint}", options.numalens.display()))
    })?;
    let own = if options.engine == "exact" { "exact" } else { "suite" };
    let list = format!("bench/{}.toml", options.suite.as_deref().unwrap_or(own));
    let suite_file = root.join(&list);
    let suite = Suite::read(&suite_file)?;
    if let Some(unknown) = options.only.iter().find(|name| suite.program.iter().all(|program| program.name != **name)) {
        return Err(io::Error::other(format!("--only {unknown}: {list} has no such program")));
    }
    let folder = root.join("target/bench");
    prepare::prepare(&suite, &suite_file, &root.join("bench/kernels"), &folder)?;
    let mut results = Results::new(Host::of_this_machine()?, measure::version(&numalens)?, options);
    let is_scale = options.suite.as_deref() == Some("scale");
    let files = report::names(&root.join("bench/runs"), &results);
    let mut scale = scale::Results::new(&results);
    for program in &suite.program {
        if !options.only.is_empty() && !options.only.contains(&program.name) {
            continue;
        }
        match prepare::command(program, &folder) {
            Some(command) => {
                eprintln!("{}: {}", program.name, program.about);
                if is_scale {
                    scale.programs.push(scale::measure(program, &command, &numalens, &folder, options.rounds)?);
                    scale.write(&files)?;
                    continue;
                }
                let result = measure_program(program, &command, &numalens, &folder, options)?;
                eprintln!("    {}", result.in_short());
                results.programs.push(result);
            }
            None => {
                eprintln!("{}: skipped: {}", program.name, program.hint());
                results.skipped.push((program.name.clone(), program.hint()));
            }
        }
        // What has been measured is kept if the rest is not waited for.
        results.load_after = report::load_average();
        report::write(&results, &files)?;
    }
    Ok(files)
}

fn measure_program(
    program: &suite::Program,
    command: &[String],
    numalens: &Path,
    folder: &Path,
    options: &Options,
) -> io::Result<ProgramResult> {
    let recording = folder.join("recording.numalens");
    let mut recorded_command: Vec<String> = vec![numalens.to_string_lossy().into_owned()];
    let engine = ["record", "--engine", &options.engine, "--quiet", "--force", "-o", "recording.numalens"];
    recorded_command.extend(engine.map(str::to_owned));
    recorded_command.extend(options.with.iter().cloned());
    recorded_command.push("--".to_owned());
    recorded_command.extend(command.iter().cloned());
    let mut result = ProgramResult::new(&program.name, &program.about, program.worst_case);
    result.is_start = program.start;
    for _ in 0..options.rounds {
        let native = measure::run(command, folder, &program.environment, Measured::WholeTree)?;
        let recorded = measure::run(&recorded_command, folder, &program.environment, Measured::PeakOfFirstProcess)?;
        match native.failure.as_ref().or(recorded.failure.as_ref()) {
            Some(failure) => {
                result.failure = Some(failure.clone());
                return Ok(result);
            }
            None => result.add(&native, &recorded),
        }
    }
    result.profile_bytes = prepare::bytes_of(&recording)?;
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options() {
        let root = Path::new("/r");
        let parse = |arguments: &[&str]| Options::parse(arguments, root);
        let numalens = PathBuf::from("/r/target/release/numalens");
        let default = Options {
            engine: "sample".to_owned(),
            suite: None,
            with: Vec::new(),
            rounds: 5,
            only: Vec::new(),
            numalens,
        };
        assert_eq!(parse(&[]), Ok(default));
        let only = vec!["a".to_owned(), "b".to_owned()];
        let suite = Some("threads".to_owned());
        let with = vec!["--lines".to_owned()];
        let given = Options { engine: "exact".to_owned(), suite, with, rounds: 2, only, numalens: PathBuf::from("n") };
        let words = "--with --lines --rounds 2 --only a --numalens n --only b --engine exact --suite threads";
        assert_eq!(parse(&words.split(' ').collect::<Vec<_>>()), Ok(given));
        for wrong in [
            &["--rounds"][..],
            &["--rounds", "0"],
            &["--rounds", "x"],
            &["--engine", "x"],
            &["--suite", "../x"],
            &["--what", "x"],
            &["x"],
        ] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
