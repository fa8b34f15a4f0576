//! `numalens unpack`: the directory of a packed profile.

use super::output;
use miette::{IntoDiagnostic, Report};
use numalens_collect::launch::keep_files_private;
use std::path::PathBuf;
use std::process::ExitCode;

/// Unpack a profile into a directory, for tools that read its Parquet tables.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  numalens unpack app.zip -o app.numalens")]
pub struct Args {
    /// The packed profile
    file: PathBuf,
    /// The directory to create [default: the name that the profile had, here]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Replace an existing profile
    #[arg(short, long)]
    force: bool,
}

/// Runs the command; prints the directory.
///
/// # Errors
/// The file is no packed profile or damaged, or the directory exists and not `--force`.
pub fn run(args: Args) -> Result<ExitCode, Report> {
    keep_files_private();
    let directory = numalens_profile::unpack(&args.file, args.output.as_deref(), args.force).into_diagnostic()?;
    output::print_text(&format!("{}\n", directory.display()))?;
    Ok(ExitCode::SUCCESS)
}
