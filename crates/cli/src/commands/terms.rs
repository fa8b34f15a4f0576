//! `numalens terms`, and `numalens help terms`

use super::output;
use numalens_analyze::terms;
use std::process::ExitCode;

/// Say what the words of reports mean.
#[derive(clap::Args)]
#[command(after_help = terms::text(80), help_template = "{about}{after-help}")]
pub struct Args {}

/// Runs the command.
pub fn run(_: Args) -> Result<ExitCode, miette::Report> {
    output::print_text(&terms::text(80))?;
    Ok(ExitCode::SUCCESS)
}
