//! `numalens advise`

use super::{input, output};
use miette::IntoDiagnostic;
use numalens_analyze::advice;
use std::process::ExitCode;

/// Say what to change, where, why, and what it would gain.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  numalens advise app-1234.numalens\n  numalens advise app-1234.numalens --format json\n\nGains are predictions from distances and the controllers' load (docs/guide/advice.md); \"nothing to gain\" is an answer."
)]
pub struct Args {
    #[command(flatten)]
    input: input::Args,

    #[arg(long, value_enum, default_value_t = output::Format::Text)]
    format: output::Format,

    #[command(flatten)]
    place: output::Place,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, miette::Report> {
    let loaded = input::load(&args.input)?;
    let reports = advice::run(&loaded.profile, &args.input.options()).into_diagnostic()?;
    args.place.write_reports(&reports, args.format)?;
    Ok(ExitCode::SUCCESS)
}
