//! `numalens export`

use super::tell::tell;
use super::{input, output};
use clap::ValueEnum;
use miette::{IntoDiagnostic, WrapErr, miette};
use numalens_analyze::paths::{self, Grain};
use numalens_analyze::sections::{self, Section};
use numalens_profile::place;
use numalens_view::{callgrind, firefox, pprof, visible};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Write a recording in the form of another program.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  numalens export app-1234.numalens --to csv -o app-csv\n  numalens export app-1234.numalens --to callgrind -o callgrind.out.app     (kcachegrind, callgrind_annotate)\n  numalens export app-1234.numalens --to pprof -o app.pb                     (go tool pprof -http : app.pb)\n  numalens export app-1234.numalens --to firefox -o app.json                 (profiler.firefox.com)\n\nThe directory of csv gets one file per table of the report: lines.csv, objects.csv, matrix-access.csv, ...\nCall stacks belong to samples and to first touches; exact counts of accesses have none.\nThe profile itself is a directory of Parquet tables, which DuckDB, Polars and pandas read as it is."
)]
pub struct Args {
    #[command(flatten)]
    input: input::Args,

    #[arg(long, value_enum)]
    to: Form,

    /// The file to make; with csv the directory
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// Replace an existing output
    #[arg(short, long)]
    force: bool,
}

/// The form to write.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// A directory with a CSV file for each table of the report
    Csv,
    /// Costs by function and line, with calls, for kcachegrind and callgrind_annotate
    Callgrind,
    /// Call stacks for `go tool pprof` and what else reads its profiles
    Pprof,
    /// Threads over time for profiler.firefox.com
    Firefox,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, miette::Report> {
    let grain = match args.to {
        Form::Csv => return tables(&args),
        Form::Firefox => Grain::InTime,
        Form::Callgrind | Form::Pprof => Grain::Sum,
    };
    if !args.force && std::fs::symlink_metadata(&args.output).is_ok() {
        return Err(exists(&args.output));
    }
    let loaded = input::load(&args.input)?;
    let paths = paths::load(&loaded.profile, &args.input.options(), grain).into_diagnostic()?;
    let document = match args.to {
        Form::Callgrind => visible::lines(&callgrind::document(&paths)).into_owned().into_bytes(),
        Form::Pprof => pprof::document(&paths),
        Form::Csv | Form::Firefox => firefox::document(&paths).into_diagnostic()?,
    };
    output::write(Some(&args.output), &document)?;
    tell!("numalens: {} paths in {}", paths.paths.len(), args.output.display());
    Ok(ExitCode::SUCCESS)
}

fn exists(output: &Path) -> miette::Report {
    miette!("{} exists already: choose another output or replace it with --force", output.display())
}

/// A directory of CSV files.
fn tables(args: &Args) -> Result<ExitCode, miette::Report> {
    let replaceable = check_output(&args.output, args.force)?;
    let loaded = input::load(&args.input)?;
    let wanted: Vec<&Section> = sections::ALL.iter().collect();
    let reports = sections::run(&loaded.profile, &args.input.options(), &wanted).into_diagnostic()?;
    let cannot = || format!("cannot make {}", args.output.display());
    // Beside the output, so that the rename stays within one file system.
    let output: PathBuf = args.output.components().collect();
    let aside = place::folder_aside(&output).into_diagnostic().wrap_err_with(cannot)?;
    let files = numalens_view::csv::write_all(&reports, aside.path()).into_diagnostic()?;
    if replaceable {
        std::fs::remove_dir_all(&output)
            .into_diagnostic()
            .wrap_err_with(|| format!("cannot replace {}", args.output.display()))?;
    }
    std::fs::rename(aside.path(), &output).into_diagnostic().wrap_err_with(cannot)?;
    tell!("numalens: {} files in {}", files.len(), args.output.display());
    Ok(ExitCode::SUCCESS)
}

/// Whether there is an output to replace: an empty directory, or with `force` one that holds nothing but CSV files.
fn check_output(output: &Path, force: bool) -> Result<bool, miette::Report> {
    let entries = match std::fs::read_dir(output) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(error) => {
            return Err(error)
                .into_diagnostic()
                .wrap_err_with(|| format!("cannot use {} as output directory", output.display()));
        }
    };
    for entry in entries {
        let name = PathBuf::from(entry.into_diagnostic()?.file_name());
        if !force {
            return Err(exists(output));
        }
        if name.extension().is_none_or(|ending| ending != "csv") {
            return Err(miette!(
                "{} holds {}, which is not an export's: choose another output",
                output.display(),
                name.display()
            ));
        }
    }
    Ok(true)
}
