//! `numalens header`

use super::output;
use std::process::ExitCode;

/// Print numalens.h, by which a C or C++ program starts and stops the counting, names phases and tells of its own
/// allocator.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  numalens header > numalens.h\n\nThere is nothing to link, and the program runs without numalens as before; the file says how."
)]
pub struct Args {}

/// The file.
const HEADER: &str = include_str!("../../../../include/numalens.h");

/// Runs the command.
pub fn run(_: Args) -> Result<ExitCode, miette::Report> {
    output::print(HEADER.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
