//! `numalens advise`

use super::output::Color;
use super::{input, output};
use clap::ValueEnum;
use miette::IntoDiagnostic;
use numalens_analyze::advice;
use numalens_view::{json, text};
use std::path::PathBuf;
use std::process::ExitCode;

/// Say what to change, where, why, and what it would gain.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  numalens advise app-1234.numalens\n  numalens advise app-1234.numalens --format json\n\nGains are predictions from distances and the controllers' load (docs/advice.md); \"nothing to gain\" is an answer."
)]
pub struct Args {
    #[command(flatten)]
    input: input::Args,

    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,

    /// Write to a file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Colours on the terminal
    #[arg(long, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    color: Color,
}

/// How the advice is written.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Text,
    /// For programs
    Json,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, miette::Report> {
    let loaded = input::load(&args.input)?;
    let reports = advice::run(&loaded.profile, &args.input.options()).into_diagnostic()?;
    let document = match args.format {
        Format::Json => output::json(&json::document(&reports))?,
        Format::Text => text::render(&reports, args.color.look(args.output.is_none())),
    };
    output::write(args.output.as_deref(), document.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
