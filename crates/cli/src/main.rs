//! `numalens`: the commands. Each lives in its own file under `commands/`; this file only lists them.

mod commands;

use clap::{CommandFactory, Parser, Subcommand};
use commands::tell::{self, tell};
use commands::usage::Usage;
use numalens_view::visible;
use std::ffi::OsString;
use std::process::ExitCode;

/// Shows where a program's remote memory traffic comes from, why, and what to do about it.
#[derive(Parser)]
#[command(name = "numalens", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Record(commands::record::Args),
    Ctl(commands::ctl::Args),
    Report(commands::report::Args),
    Advise(commands::advise::Args),
    Simulate(commands::simulate::Args),
    Diff(commands::diff::Args),
    View(commands::view::Args),
    Import(commands::import::Args),
    Export(commands::export::Args),
    Merge(commands::merge::Args),
    Check(commands::check::Args),
    Pack(commands::pack::Args),
    Unpack(commands::unpack::Args),
    Doctor(commands::doctor::Args),
    Machine(commands::machine::Args),
    Cache(commands::cache::Args),
    Header(commands::header::Args),
    Terms(commands::terms::Args),
    Completions(commands::completions::Args),
    Man(commands::completions::ManArgs),
}

/// Commands need a stack of so many bytes at least; in a thread they get more.
const LEAST_STACK: u64 = 1 << 20;
const OWN_STACK: usize = 8 << 20;

fn main() -> ExitCode {
    if numalens_collect::limits::stack() >= LEAST_STACK {
        return run();
    }
    // `ulimit -s` leaves too little, and is meant for the program that is recorded: that keeps it.
    match std::thread::Builder::new().stack_size(OWN_STACK).spawn(run).map(std::thread::JoinHandle::join) {
        Ok(Ok(code)) => code,
        Ok(Err(_)) => ExitCode::FAILURE,
        Err(error) => {
            tell!(
                "numalens: the stack is limited to less than {} KiB (`ulimit -s`), and no thread with one of its own can be started \
                 (clone: {error}): raise the limit",
                LEAST_STACK >> 10
            );
            ExitCode::FAILURE
        }
    }
}

fn run() -> ExitCode {
    let outcome = match parse().command {
        Command::Record(args) => commands::record::run(args),
        Command::Ctl(args) => commands::ctl::run(args),
        Command::Report(args) => commands::report::run(args),
        Command::Advise(args) => commands::advise::run(args),
        Command::Simulate(args) => commands::simulate::run(args),
        Command::Diff(args) => commands::diff::run(args),
        Command::View(args) => commands::view::run(args),
        Command::Import(args) => commands::import::run(args),
        Command::Export(args) => commands::export::run(args),
        Command::Merge(args) => commands::merge::run(args),
        Command::Check(args) => commands::check::run(args),
        Command::Pack(args) => commands::pack::run(args),
        Command::Unpack(args) => commands::unpack::run(args),
        Command::Doctor(args) => commands::doctor::run(args),
        Command::Machine(args) => commands::machine::run(args),
        Command::Cache(args) => commands::cache::run(args),
        Command::Header(args) => commands::header::run(args),
        Command::Terms(args) => commands::terms::run(args),
        Command::Completions(args) => commands::completions::run(args, Cli::command()),
        Command::Man(args) => commands::completions::run_man(args, Cli::command()),
    };
    outcome.unwrap_or_else(|error| match error.downcast_ref::<Usage>() {
        Some(mistake) => {
            tell!("numalens: {mistake}");
            ExitCode::from(2)
        }
        None => {
            tell::styled(&format!("numalens: {:?}\n", visible(&error)));
            ExitCode::FAILURE
        }
    })
}

/// What was typed. The parser repeats it in its complaints, and a shell puts names of files there.
fn parse() -> Cli {
    Cli::try_parse().unwrap_or_else(|error| {
        // Asked of the arguments, as the text without colours is also without what looks like them.
        let acts = |word: OsString| visible::line(&word.to_string_lossy()) != word.to_string_lossy();
        if !std::env::args_os().any(acts) {
            error.exit();
        }
        tell::styled(&visible::lines(&error.render().to_string()));
        std::process::exit(error.exit_code())
    })
}

/// An error and its causes as a terminal may see them; lines and colours are made of it afterwards.
fn visible(error: &miette::Report) -> miette::Report {
    let mut causes: Vec<String> = error.chain().map(|cause| visible::line(&cause.to_string()).into_owned()).collect();
    let first = causes.pop().unwrap_or_default();
    causes.into_iter().rev().fold(miette::miette!("{first}"), miette::Report::wrap_err)
}
