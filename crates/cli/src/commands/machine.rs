//! `numalens machine`

use std::process::ExitCode;

/// Show the machine that a recording would use.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the command.
pub fn run(_: Args) -> Result<ExitCode, miette::Report> {
    Ok(ExitCode::SUCCESS)
}
