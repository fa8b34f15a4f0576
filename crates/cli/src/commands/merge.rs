//! `numalens merge`: one profile of several.

use miette::{IntoDiagnostic, Report};
use numalens_collect::launch::keep_files_private;
use numalens_profile::Profile;
use std::path::PathBuf;
use std::process::ExitCode;

/// Make one profile of several: the ranks of an MPI program, several runs. Every command that takes one profile to read
/// takes several too; this keeps the result.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  numalens merge rank-*.numalens -o app.numalens")]
pub struct Args {
    /// Profiles of one engine, on one machine or on machines that are alike
    #[arg(value_name = "PROFILE", required = true)]
    profiles: Vec<PathBuf>,
    /// The profile to write
    #[arg(short, long, value_name = "PATH")]
    output: PathBuf,
    /// Replace an existing profile
    #[arg(short, long)]
    force: bool,
}

/// Runs the command.
///
/// # Errors
/// A profile cannot be read, they do not go together, or the result cannot be written.
pub fn run(args: Args) -> Result<ExitCode, Report> {
    keep_files_private();
    let profiles =
        args.profiles.iter().map(|path| Profile::open(path)).collect::<Result<Vec<_>, _>>().into_diagnostic()?;
    super::input::refuse_twice(&profiles)?;
    let merged = numalens_profile::merge(&profiles, &args.output, args.force).into_diagnostic()?;
    super::sums::add_to(&Profile::open(&merged).into_diagnostic()?).into_diagnostic()?;
    Ok(ExitCode::SUCCESS)
}
