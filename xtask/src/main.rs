//! `cargo xtask tidy`: the rules of this repository that a program can check. `cargo xtask bench`: what recording
//! costs. `cargo xtask ui`: the web pages. `cargo xtask deny`: licences and sources of crates. `cargo xtask docs`: the
//! pages of docs/. `cargo xtask recipes`: what CONTRIBUTING.md says about adding something.

mod bench;
mod deny;
mod docs;
mod recipes;
mod tidy;
mod truth;
mod ui;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask tidy     check the rules of docs/internals/architecture.md
           --write            lower the list of offenders, xtask/offenders.toml, to what there is
           --arrows CRATE     the files in circles of a crate (crates/agent), and which of them each needs
       cargo xtask bench    measure what `numalens record` costs, on the programs of bench/suite.toml
           --engine ENGINE    sample (default), or exact, on those of bench/exact.toml
           --suite NAME       those of bench/NAME.toml: threads, scale
           --rounds N         pairs of runs of each program (default 5)
           --only NAME        only this program (may be repeated)
           --numalens PATH    the binary to measure (default target/release/numalens)
       cargo xtask truth    record programs whose fault is known, and compare the first finding (targets/truth.toml)
           --runs N           runs of each (default 10)
           --engine ENGINE    only this engine
           --only NAME        only this program (may be repeated)
           --sources DIR      others' programs, each in a folder of its name (default $TRUTH_SOURCES)
           --numalens PATH    the binary (default target/release/numalens)
       cargo xtask deny     check licences and sources of all crates that are built in, by deny.toml
       cargo xtask docs     check links of pages, and those that are made from sources
           --write            write the latter
       cargo xtask recipes  try on a copy what CONTRIBUTING.md says about adding something (xtask/recipes)
       cargo xtask ui       build the web pages into ui/dist
           --check            build them aside, and fail when ui/dist differs
           --script NAME      run a script of ui/package.json: check, test, e2e";

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => tidy(&root, false),
        ["tidy", "--write"] => tidy(&root, true),
        ["tidy", "--arrows", folder] => arrows(&root, folder),
        ["deny"] => deny(&root),
        ["bench", ref options @ ..] => {
            with("bench", bench::Options::parse(options, &root), |options| bench(&root, options))
        }
        ["truth", ref options @ ..] => {
            with("truth", truth::Options::parse(options, &root), |options| truth::run(&root, options))
        }
        ["docs"] => docs(&root, false),
        ["docs", "--write"] => docs(&root, true),
        ["recipes"] => complained("recipes", recipes::check(&root)),
        ["ui"] => said(ui::build(&root)),
        ["ui", "--check"] => said(ui::check(&root)),
        ["ui", "--script", name] => said(ui::script(&root, name)),
        _ => usage(),
    }
}

fn said(outcome: Result<(), String>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ui: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs with options; whether all is well.
fn with<O>(what: &str, options: Result<O, String>, run: impl FnOnce(&O) -> Result<bool, String>) -> ExitCode {
    let options = match options {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{what}: {error}");
            return usage();
        }
    };
    match run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{what}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn deny(root: &Path) -> ExitCode {
    complained("deny", deny::check(root))
}

fn docs(root: &Path, write: bool) -> ExitCode {
    complained("docs", docs::check(root, write))
}

/// Shows complaints; whether there are none.
fn complained(what: &str, found: Result<Vec<String>, String>) -> ExitCode {
    match found {
        Ok(complaints) if complaints.is_empty() => ExitCode::SUCCESS,
        Ok(complaints) => {
            complaints.iter().for_each(|complaint| println!("{complaint}"));
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{what}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}

fn bench(root: &Path, options: &bench::Options) -> Result<bool, String> {
    let files = bench::run(root, options).map_err(|error| error.to_string())?;
    files.iter().for_each(|file| println!("{}", file.display()));
    Ok(true)
}

fn arrows(root: &Path, folder: &str) -> ExitCode {
    match tidy::Tree::read(root) {
        Ok(tree) => {
            tidy::arrows(&tree, folder).iter().for_each(|line| println!("{line}"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("tidy: {error}");
            ExitCode::FAILURE
        }
    }
}

fn tidy(root: &Path, write: bool) -> ExitCode {
    let read = || {
        if write {
            tidy::lower(root, &tidy::Tree::read(root)?)?;
        }
        tidy::Tree::read(root)
    };
    let tree = match read() {
        Ok(tree) => tree,
        Err(error) => {
            eprintln!("tidy: {error}");
            return ExitCode::FAILURE;
        }
    };
    let complaints = tidy::check(&tree);
    for complaint in &complaints {
        eprintln!("{complaint}");
    }
    match complaints.len() {
        0 => println!("tidy: {} files, {} rules, nothing to complain about", tree.files.len(), tidy::RULES.len()),
        1 => eprintln!("tidy: 1 complaint"),
        several => eprintln!("tidy: {several} complaints"),
    }
    if complaints.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
