//! `numalens check`: every invariant of a profile.

use super::output;
use super::tell::tell;
use miette::{IntoDiagnostic, Report};
use numalens_profile::{CHECKS, Profile, check};
use std::path::PathBuf;
use std::process::ExitCode;

/// Check that a profile is undamaged and that its tables agree with each other.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  numalens check app.numalens\n\nExit status 1 names the first invariant that fails, and by how much."
)]
pub struct Args {
    /// Directory or packed file; an unfinished recording is checked too
    profile: PathBuf,
}

/// Runs the command.
///
/// # Errors
/// The profile is damaged or cannot be read.
pub fn run(args: Args) -> Result<ExitCode, Report> {
    let profile = Profile::open(&args.profile).into_diagnostic()?;
    let violations = check(&profile).into_diagnostic()?;
    let Some(first) = violations.first() else {
        let state = if profile.is_partial() { " of a recording that has not finished" } else { "" };
        output::print(format!("ok: {CHECKS} invariants, {} rows{state}\n", profile.total_rows()).as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    };
    tell!("numalens: {}: {first}", profile.path().display());
    if violations.len() > 1 {
        tell!("and {} more:", violations.len() - 1);
        violations[1..].iter().for_each(|violation| tell!("  {violation}"));
    }
    Ok(ExitCode::FAILURE)
}
