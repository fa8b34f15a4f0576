//! `numalens record`

mod args;
mod cache;
mod naming;
mod plan;
mod profile_name;
mod progress;

use super::sums;
use super::tell::{self, tell};
pub use args::Args;
use naming::{EarlyNaming, Naming};
use numalens_analyze::{Dataset, LoadError, Need, sections};
use numalens_collect::doctor;
use numalens_collect::launch::{LaunchError, Progress, RecordError, Target, keep_files_private};
use numalens_collect::limits;
use numalens_collect::perf::Scope;
use numalens_profile::Profile;
use numalens_view::text::{self, Look};
use plan::RecordPlan;
use progress::{Seen, Ticker};
use std::io::IsTerminal;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};

/// numalens itself failed; the numbers are those of env, nohup and timeout.
const FAILED: u8 = 125;
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

/// What is read before the names are there.
const COUNTED: &[Need] = &[Need::Sites];

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, miette::Report> {
    keep_files_private();
    limits::make_room_for_descriptors();
    let plan = match RecordPlan::of(args) {
        Ok(plan) => plan,
        Err(message) => {
            tell!("numalens: {message}");
            return Ok(ExitCode::from(2));
        }
    };
    if !plan.quiet {
        tell!("numalens: {}", plan.introduction());
        if let Some(warning) = plan.slow() {
            tell!("numalens: {warning}");
        }
    }
    let (mut early, mut naming) = (None, None);
    let seen = Seen::default();
    let mut progress = |progress: Progress<'_>| match progress {
        Progress::Seen(count) => seen.set(count),
        Progress::Executed(code) => early = Some(EarlyNaming::begin(code)),
        Progress::Ended(code) => naming = Some(Naming::begin(code, early.take())),
        progress => report_progress(plan.quiet, &progress),
    };
    let ticker = Ticker::begin(plan.quiet, &seen, plan.slowdown());
    let RecordPlan { engine, target, options, name, quiet } = plan;
    let recorded = engine.record(&target, options, &|pid| name.path(pid), &mut progress);
    drop(ticker);
    match recorded {
        Ok(outcome) => {
            match Profile::open(&outcome.profile) {
                Ok(profile) => {
                    let counted = if quiet { None } else { counted(&profile) };
                    if let Err(error) = naming.map_or(Ok(()), |naming| naming.write(&profile)) {
                        tell!("numalens: functions and lines could not be found: {error}");
                    }
                    close(&profile, quiet, counted);
                }
                Err(error) => {
                    tell!("numalens: the profile {} cannot be read: {error}", outcome.profile.display());
                }
            }
            Ok(outcome.status.map_or(ExitCode::SUCCESS, end_like))
        }
        Err(error) => Ok(failed(&error, &target)),
    }
}

fn report_progress(quiet: bool, progress: &Progress<'_>) {
    match progress {
        Progress::WriteFailed(error) => {
            tell!(
                "numalens: the profile could not be brought up to date ({error}); recording goes on, and it will be tried again"
            );
        }
        Progress::Grown(bytes) if !quiet => tell!("numalens: the profile has grown to {} MiB", bytes >> 20),
        Progress::Limited(what) if !quiet => tell!("numalens: {what}"),
        _ => {}
    }
}

/// What is counted by site, which takes longest to read: it can be while names are still looked for.
fn counted(profile: &Profile) -> Option<Dataset> {
    Dataset::load(profile, &Default::default(), COUNTED).ok()
}

/// What the lines at the end tell of, all but what is `counted` already.
fn load(profile: &Profile, counted: Option<Dataset>) -> Result<Dataset, LoadError> {
    let mut needs = text::closing_needs();
    let Some(counted) = counted else { return Dataset::load(profile, &Default::default(), &needs) };
    needs.retain(|need| !COUNTED.contains(need));
    let mut dataset = Dataset::load(profile, &Default::default(), &needs)?;
    dataset.take(counted, COUNTED);
    Ok(dataset)
}

/// Says what comes first in the profile, unless the user wants no words, and adds sums to a large one.
fn close(profile: &Profile, quiet: bool, counted: Option<Dataset>) {
    let is_large = sums::are_due(profile).unwrap_or(false);
    if quiet && !is_large {
        return;
    }
    match load(profile, counted) {
        Ok(dataset) => {
            if !quiet {
                summarise(profile, &dataset);
            }
            if is_large && let Err(error) = sums::add(profile, &dataset) {
                tell!("numalens: the profile {} has no sums, so it opens slowly: {error}", profile.path().display());
            }
            // This process ends: taking a hundred thousand things apart one by one would only take time.
            std::mem::forget(dataset);
        }
        Err(error) => {
            tell!("numalens: the profile {} cannot be summarised: {error}", profile.path().display());
        }
    }
}

/// The lines at the end: the verdict, and what comes first in each section.
fn summarise(profile: &Profile, dataset: &Dataset) {
    let wanted: Vec<_> =
        sections::ALL.iter().filter(|section| text::CLOSING_SECTIONS.contains(&section.name)).collect();
    let reports = sections::first_of(dataset, &wanted, 1);
    let color = std::io::stderr().is_terminal()
        && anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never;
    let summary = text::closing_summary(&reports, profile.path(), Look { color, width: tell::width() });
    tell::styled(&summary);
    std::mem::forget(reports);
}

/// Ends as the program ended: its exit status, or its fatal signal.
fn end_like(status: ExitStatus) -> ExitCode {
    if let Some(signal) = status.signal() {
        // SAFETY: plain calls with valid arguments; the process is about to end. No core dump: it would be numalens'.
        unsafe {
            let no_core = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            libc::setrlimit(libc::RLIMIT_CORE, &no_core);
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
        return ExitCode::from(128u8.saturating_add(u8::try_from(signal).unwrap_or(0)));
    }
    ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(FAILED))
}

fn failed(error: &RecordError, target: &Target) -> ExitCode {
    tell!("numalens: {error}");
    match error {
        RecordError::Launch(LaunchError::NotFound(_)) => ExitCode::from(NOT_FOUND),
        RecordError::Launch(LaunchError::NotExecutable(..)) => ExitCode::from(NOT_EXECUTABLE),
        RecordError::Open(open) => {
            let scope = match target {
                Target::All => Scope::Everything,
                Target::Pid(pid) => Scope::Running(*pid),
                Target::Launch(_) => Scope::FromExec(0),
            };
            let paranoid = doctor::perf_event_paranoid();
            tell!("numalens: {}", doctor::explain_perf_open_failure(open, paranoid, scope));
            ExitCode::from(FAILED)
        }
        _ => ExitCode::from(FAILED),
    }
}
