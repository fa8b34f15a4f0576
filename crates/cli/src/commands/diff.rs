//! `numalens diff`

use super::tell::tell;
use super::{input, output};
use clap::ValueEnum;
use miette::IntoDiagnostic;
use numalens_analyze::Options;
use numalens_analyze::diff::{self, Scalar};
use numalens_view::{html, json, text};
use std::path::PathBuf;
use std::process::ExitCode;

/// Compare two recordings, before and after a change.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  numalens diff before.numalens after.numalens\n  numalens diff before.numalens after.numalens --fail-if 'local_share<80' --fail-if 'imbalance>50'\n\n--fail-if takes any figure of the summary and <, <=, > or >=; it looks at AFTER. Exit status 1 when one holds."
)]
pub struct Args {
    /// The recording before the change
    #[arg(value_name = "BEFORE")]
    before: PathBuf,

    /// The recording after it
    #[arg(value_name = "AFTER")]
    after: PathBuf,

    /// Fail when this holds of AFTER: METRIC<VALUE, also <=, >, >= (may be repeated)
    #[arg(long = "fail-if", value_name = "METRIC<VALUE", value_parser = threshold)]
    fail_if: Vec<Threshold>,

    /// Where binaries and sources went: a path that begins with OLD is looked up under NEW (may be repeated)
    #[arg(long = "source-map", value_name = "OLD=NEW", value_parser = numalens_symbolize::parse_source_map)]
    source_map: Vec<(PathBuf, PathBuf)>,

    /// Rows of each table [default: 15, all with json]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    top: Option<u32>,

    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,

    #[command(flatten)]
    place: output::Place,
}

/// How the comparison is written.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Text,
    /// For programs
    Json,
    /// One page
    Html,
}

/// A bound that a figure must not break.
#[derive(Clone, PartialEq, Debug)]
struct Threshold {
    metric: String,
    relation: &'static str,
    bound: f64,
}

const RELATIONS: [&str; 4] = ["<=", ">=", "<", ">"];
const ROWS: usize = 15;

fn threshold(text: &str) -> Result<Threshold, String> {
    let split = RELATIONS.iter().find_map(|relation| Some((*relation, text.split_once(relation)?)));
    let (relation, (metric, bound)) = split.ok_or("a threshold looks like local_share<80")?;
    let bound = bound.trim().trim_end_matches('%').trim();
    let number: Option<f64> = bound.parse().ok().filter(|number: &f64| number.is_finite());
    // Nothing is below what is no number: a script would never fail.
    let bound = number.ok_or_else(|| format!("`{bound}` is not a number; a threshold looks like local_share<80"))?;
    Ok(Threshold { metric: metric.trim().to_string(), relation, bound })
}

impl Threshold {
    fn holds(&self, value: f64) -> bool {
        match self.relation {
            "<" => value < self.bound,
            "<=" => value <= self.bound,
            ">" => value > self.bound,
            _ => value >= self.bound,
        }
    }
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, miette::Report> {
    let before = input::open(&args.before, &args.source_map)?;
    let after = input::open(&args.after, &args.source_map)?;
    let mut diff = diff::run(&before.profile, &after.profile, &Options::default()).into_diagnostic()?;
    let broken = match broken(&args.fail_if, &diff.scalars) {
        Ok(broken) => broken,
        Err(complaint) => {
            tell!("numalens: {complaint}");
            return Ok(ExitCode::from(2));
        }
    };
    let rows = args.top.map(|rows| rows as usize).or((args.format != Format::Json).then_some(ROWS));
    if args.format != Format::Json {
        diff.leave_out_noise();
    }
    if let Some(rows) = rows {
        diff.reports.iter_mut().filter(|report| report.section != "figures").for_each(|report| report.limit(rows));
    }
    let document = match args.format {
        Format::Json => output::json(&json::document(&diff.reports))?,
        Format::Text => text::render(&diff.reports, args.place.look()),
        Format::Html => html::document(&diff.reports),
    };
    args.place.write(&document)?;
    broken.iter().for_each(|sentence| tell!("numalens: {sentence}"));
    Ok(if broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The thresholds that hold, each a sentence; what cannot be compared is an error.
fn broken(thresholds: &[Threshold], scalars: &[Scalar]) -> Result<Vec<String>, String> {
    let mut broken = Vec::new();
    for threshold in thresholds {
        let scalar = scalars.iter().find(|scalar| scalar.name == threshold.metric).ok_or_else(|| {
            let known: Vec<&str> = scalars.iter().map(|scalar| scalar.name.as_str()).collect();
            format!("no figure `{}` to compare; there are {}", threshold.metric, known.join(", "))
        })?;
        let value = scalar.number().unwrap_or(f64::NAN);
        if threshold.holds(value) {
            let Threshold { metric, relation, bound } = threshold;
            broken.push(format!("{metric} is {value:.4}: {metric} {relation} {bound} holds"));
        }
    }
    Ok(broken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds() {
        let of = |text| threshold(text).unwrap();
        assert_eq!(of("local_share<80"), Threshold { metric: "local_share".into(), relation: "<", bound: 80.0 });
        assert!(of("imbalance >= 50%").holds(50.0) && !of("imbalance>50").holds(50.0) && of("a<=1").holds(1.0));
        for text in ["local_share", "local_share<much", "local_share<nan", "local_share>inf", "local_share<"] {
            assert!(threshold(text).is_err(), "{text}");
        }
        // What is not known breaks no bound.
        assert!(!of("a<1").holds(f64::NAN));
    }
}
