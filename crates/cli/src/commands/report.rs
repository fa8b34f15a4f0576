//! `numalens report`

use super::input;
use clap::ValueEnum;
use miette::{IntoDiagnostic, WrapErr, miette};
use numalens_analyze::report::Report;
use numalens_analyze::sections::{self, Section};
use numalens_view::text::{self, Look};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Show what a recording found.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  numalens report app-1234.numalens\n  numalens report app-1234.numalens --section lines --sort writes --top 20\n  numalens report app-1234.numalens --format json -o report.json\n\nDocuments: docs/metrics.md says what each figure is, docs/json.md what each name in the JSON is."
)]
pub struct Args {
    #[command(flatten)]
    input: input::Args,

    /// Sections to show, `all` for every one [default: a first screen; with json all]
    #[arg(long = "section", value_name = "SECTION", value_delimiter = ',', value_parser = section_names())]
    sections: Vec<String>,

    /// Sort tables by a metric, largest first: remote, accesses, writes, first_touch, ...
    #[arg(long, value_name = "METRIC")]
    sort: Option<String>,

    /// Rows of each table [default: a few on the first screen, 25 of a named section, all with json]
    #[arg(long, value_name = "N")]
    top: Option<usize>,

    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,

    /// Write to a file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Colours on the terminal
    #[arg(long, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    color: Color,
}

/// How the report is written.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Text,
    /// For programs
    Json,
}

/// When to use colours.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Color {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    Always,
    Never,
}

/// Rows of a table on the first screen, and of a section that was asked for.
const FIRST_ROWS: usize = 5;
const NAMED_ROWS: usize = 25;

/// The value that stands for every section.
const ALL: &str = "all";

fn section_names() -> clap::builder::PossibleValuesParser {
    let names = sections::ALL.iter().map(|section| clap::builder::PossibleValue::new(section.name).help(section.help));
    clap::builder::PossibleValuesParser::new(names.chain([clap::builder::PossibleValue::new(ALL).help("all of them")]))
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, miette::Report> {
    let wanted = wanted(&args);
    let loaded = input::load(&args.input)?;
    let mut reports = sections::run(&loaded.profile, &args.input.options(), &wanted).into_diagnostic()?;
    input::add_doubts(&mut reports, &loaded.doubts);
    if let Some(metric) = &args.sort {
        let sorted = reports.iter_mut().fold(false, |sorted, report| report.sort(metric) | sorted);
        if !sorted {
            let keys = sections::sort_keys(&reports);
            let known = if keys.is_empty() {
                "these sections have no tables of metrics".to_string()
            } else {
                format!("these sections can be sorted by: {}", keys.join(", "))
            };
            eprintln!("numalens: no metric `{metric}` to sort by; {known}");
            return Ok(ExitCode::from(2));
        }
    }
    let first_screen = args.format == Format::Text && args.sections.is_empty();
    let rows = args.top.or(match args.format {
        Format::Json => None,
        Format::Text if first_screen => Some(FIRST_ROWS),
        Format::Text => Some(NAMED_ROWS),
    });
    if let Some(rows) = rows {
        reports.iter_mut().for_each(|report| report.limit(rows));
    }
    let document = match args.format {
        Format::Json => {
            let mut document =
                serde_json::to_string_pretty(&numalens_view::json::document(&reports)).into_diagnostic()?;
            document.push('\n');
            document
        }
        Format::Text => {
            let mut document = text::render(&reports, look(&args));
            if first_screen {
                document += &hints(&args.input.profile, &reports);
            }
            document
        }
    };
    match &args.output {
        Some(path) => write_aside(path, document.as_bytes())?,
        None => print(document.as_bytes())?,
    }
    Ok(ExitCode::SUCCESS)
}

fn wanted(args: &Args) -> Vec<&'static Section> {
    let everything =
        args.sections.iter().any(|name| name == ALL) || (args.sections.is_empty() && args.format == Format::Json);
    if args.sections.is_empty() && !everything {
        return sections::ALL.iter().filter(|section| section.first_screen).collect();
    }
    sections::ALL.iter().filter(|section| everything || args.sections.iter().any(|name| name == section.name)).collect()
}

fn look(args: &Args) -> Look {
    let to_terminal = args.output.is_none() && std::io::stdout().is_terminal();
    let color = match args.color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => {
            args.output.is_none() && anstream::AutoStream::choice(&std::io::stdout()) != anstream::ColorChoice::Never
        }
    };
    Look { color, width: if to_terminal { Look::terminal_width() } else { None } }
}

/// Which sections say more.
fn hints(profile: &Path, reports: &[Report]) -> String {
    let shown: Vec<&str> = reports.iter().map(|report| report.section).collect();
    let more: Vec<&str> =
        sections::ALL.iter().map(|section| section.name).filter(|name| !shown.contains(name)).collect();
    format!(
        "\nMore: numalens report {} --section NAME; other sections: {}\n",
        text::shell_word(&profile.to_string_lossy()),
        more.join(", ")
    )
}

/// Writes beside the file and renames, so that a reader never sees half of it.
fn write_aside(path: &Path, bytes: &[u8]) -> Result<(), miette::Report> {
    let cannot = || format!("cannot write {}", path.display());
    // Not a file of its own: renaming would replace the device by a file.
    if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return std::fs::write(path, bytes).into_diagnostic().wrap_err_with(cannot);
    }
    let name = path.file_name().ok_or_else(|| miette!("{} is not a name of a file", path.display()))?;
    let mut aside = std::ffi::OsString::from(".");
    aside.push(name);
    aside.push(format!(".{}", std::process::id()));
    let aside = path.with_file_name(aside);
    std::fs::write(&aside, bytes)
        .and_then(|()| std::fs::rename(&aside, path))
        .inspect_err(|_| {
            // Best effort: the error that matters is the one before.
            let _ = std::fs::remove_file(&aside);
        })
        .into_diagnostic()
        .wrap_err_with(cannot)
}

/// To standard output; a reader that has seen enough is no error.
fn print(bytes: &[u8]) -> Result<(), miette::Report> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(error).into_diagnostic().wrap_err("cannot write to standard output")
        }
        _ => Ok(()),
    }
}
