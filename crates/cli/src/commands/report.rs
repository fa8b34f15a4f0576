//! `numalens report`

use super::tell::tell;
use super::{input, output};
use clap::ValueEnum;
use miette::IntoDiagnostic;
use numalens_analyze::report::Report;
use numalens_analyze::sections::{self, Section};
use numalens_analyze::{Dataset, advice, phases, verdict};
use numalens_profile::tables::Phase;
use numalens_view::text::{self, Look};
use std::process::ExitCode;

/// Show what a recording found.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  numalens report app-1234.numalens\n  numalens report app-1234.numalens --section lines --sort writes --top 20\n  numalens report app-1234.numalens --phase solve --section objects\n  numalens report app-1234.numalens --format json -o report.json\n  numalens report app-1234.numalens --format html -o report.html\n  numalens report rank-0.numalens rank-1.numalens\n\nDocuments: docs/reference/metrics.md says what each figure is, docs/reference/json.md what each name in the JSON is."
)]
pub struct Args {
    #[command(flatten)]
    input: input::Args,

    /// Sections to show, `all` for every one [default: a first screen; with json and html all]
    #[arg(long = "section", value_name = "SECTION", value_delimiter = ',', value_parser = section_names())]
    sections: Vec<String>,

    /// Only the time of the phase of this name, in whole time bins: from where it first begins to where it last ends
    #[arg(long, value_name = "NAME")]
    phase: Option<String>,

    /// Sort tables by a metric, largest first: remote, accesses, writes, first_touch, ...
    #[arg(long, value_name = "METRIC")]
    sort: Option<String>,

    /// Rows of each table [default: a few on the first screen, 25 of a named section and with html, all with json]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    top: Option<u32>,

    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,

    #[command(flatten)]
    place: output::Place,
}

/// How the report is written.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Text,
    /// For programs
    Json,
    /// For keeping and mailing: one page without scripts, with the advice
    Html,
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
    let mut options = args.input.options();
    let mut doubts = Vec::new();
    if let Some(name) = &args.phase {
        let known = loaded.profile.rows::<Phase>().into_diagnostic()?;
        match phases::span(&known, name) {
            Ok((span, doubt)) => (options.filter.time_ns, doubts) = (span, doubt.into_iter().collect()),
            Err(message) => {
                tell!("numalens: {message}");
                return Ok(ExitCode::from(2));
            }
        }
    }
    let dataset = sections::load(&loaded.profile, &options, &wanted).into_diagnostic()?;
    let mut reports = made(&args, &dataset, &wanted);
    input::add_doubts(&mut reports, &loaded.doubts);
    reports.iter_mut().for_each(|report| report.doubts.extend(doubts.iter().cloned()));
    if let Some(metric) = &args.sort {
        let sorted = reports.iter_mut().fold(false, |sorted, report| report.sort(metric) | sorted);
        if !sorted {
            let keys = sections::sort_keys(&reports);
            let known = if keys.is_empty() {
                "these sections have no tables of metrics".to_string()
            } else {
                format!("these sections can be sorted by: {}", keys.join(", "))
            };
            tell!("numalens: no metric `{metric}` to sort by; {known}");
            return Ok(ExitCode::from(2));
        }
    }
    let first_screen = args.format == Format::Text && args.sections.is_empty();
    let named = args.input.shell_words();
    verdict::name_profile(&mut reports, &named);
    let rows = args.top.map(|rows| rows as usize).or(match args.format {
        Format::Json => None,
        Format::Html if args.sections.is_empty() => Some(NAMED_ROWS),
        Format::Html => None,
        Format::Text if first_screen => Some(FIRST_ROWS),
        Format::Text => Some(NAMED_ROWS),
    });
    if let Some(rows) = rows {
        reports.iter_mut().for_each(|report| report.limit(rows));
    }
    let document = match args.format {
        Format::Json => output::json(&numalens_view::json::document(&reports))?,
        Format::Html => {
            if args.sections.is_empty() {
                // All but its meta, which the report has.
                reports.extend(advice::of(&dataset).into_iter().skip(1));
            }
            numalens_view::html::document(&reports)
        }
        Format::Text => {
            let mut document = text::render(&reports, args.place.look());
            if first_screen {
                document += &hints(&named, &reports, args.place.look());
            }
            document
        }
    };
    args.place.write(&document)?;
    Ok(ExitCode::SUCCESS)
}

fn wanted(args: &Args) -> Vec<&'static Section> {
    let everything =
        args.sections.iter().any(|name| name == ALL) || (args.sections.is_empty() && args.format != Format::Text);
    if args.sections.is_empty() && !everything {
        return sections::ALL.iter().filter(|section| section.first_screen).collect();
    }
    sections::ALL.iter().filter(|section| everything || args.sections.iter().any(|name| name == section.name)).collect()
}

/// The sections; where nobody has asked for some, or for so many rows, in short.
fn made(args: &Args, dataset: &Dataset, wanted: &[&Section]) -> Vec<Report> {
    let is_chosen = args.format == Format::Json || args.top.is_some() || !args.sections.is_empty();
    if is_chosen { sections::of(dataset, wanted) } else { sections::first_screen_of(dataset, wanted) }
}

/// Which sections say more.
fn hints(profiles: &str, reports: &[Report], look: Look) -> String {
    let shown: Vec<&str> = reports.iter().map(|report| report.section).collect();
    let more: Vec<&str> =
        sections::ALL.iter().map(|section| section.name).filter(|name| !shown.contains(name)).collect();
    let words = format!("More: numalens report {profiles} --section NAME; other sections: {}", more.join(", "));
    format!("\n{}\n", look.lines(&words))
}
