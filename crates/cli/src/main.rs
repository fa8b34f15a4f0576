//! `numalens`: the commands. Each lives in its own file under `commands/`; this file only lists them.

mod commands;

use clap::{Parser, Subcommand};
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
    Machine(commands::machine::Args),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Machine(args) => commands::machine::run(args),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("numalens: {error:?}");
        ExitCode::FAILURE
    })
}
