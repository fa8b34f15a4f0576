//! `numalens pack`: one file of a profile.

use miette::{IntoDiagnostic, Report};
use numalens_collect::launch::keep_files_private;
use std::path::PathBuf;
use std::process::ExitCode;

/// Pack a profile into one file, to copy it to another machine. Every command reads it as it is; names that
/// this machine has for its code go with it.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  numalens pack app.numalens -o app.zip")]
pub struct Args {
    /// The profile's directory
    profile: PathBuf,
    /// The file to write
    #[arg(short, long, value_name = "FILE.zip")]
    output: PathBuf,
    /// Replace an existing packed profile
    #[arg(short, long)]
    force: bool,
}

/// Runs the command.
///
/// # Errors
/// The profile cannot be read, or the file cannot be written.
pub fn run(args: Args) -> Result<ExitCode, Report> {
    keep_files_private();
    // The other machine has other binaries.
    let loaded = super::input::open(&args.profile, &[])?;
    numalens_profile::pack_opened(&loaded.profile, &args.output, args.force).into_diagnostic()?;
    Ok(ExitCode::SUCCESS)
}
