//! `numalens cache`

use super::output;
use clap::{Subcommand, ValueEnum};
use miette::IntoDiagnostic;
use numalens_collect::exact::persisted::store::{self, Entry};
use serde_json::json;
use std::process::ExitCode;
use std::time::UNIX_EPOCH;

/// What the exact engine keeps of translated code, so that programs start sooner the next time: list it, or remove it.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  numalens cache\n  numalens cache list --format json\n  numalens cache clear\n\nIt is in $XDG_CACHE_HOME/numalens/code, else in\n~/.cache/numalens/code. A recording with --no-code-cache neither reads nor writes it."
)]
pub struct Args {
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Subcommand)]
enum What {
    /// Which files of code there are translations of
    List {
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,
    },
    /// Remove all of it
    Clear,
}

/// How the list is written.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Text,
    /// For programs
    Json,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, miette::Report> {
    match args.what.unwrap_or(What::List { format: Format::Text }) {
        What::Clear => {
            let freed = store::clear().into_diagnostic()?;
            output::print_text(&format!("removed {}\n", size(freed)))?;
        }
        What::List { format: Format::Text } => output::print_text(&text())?,
        What::List { format: Format::Json } => output::print_text(&output::json(&list())?)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn size(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// Every file of code of every configuration, those that were used last first.
fn entries() -> (u64, Vec<Entry>) {
    let entries = store::folder().map(|folder| store::entries(&folder)).unwrap_or_default();
    (entries.iter().map(|entry| entry.bytes).sum(), entries)
}

fn text() -> String {
    let Some(folder) = store::folder() else {
        return "There is no place for a cache: neither XDG_CACHE_HOME nor HOME is set.\n".to_owned();
    };
    let (total, entries) = entries();
    let mut lines = vec![format!("{}: {} of {} at most", folder.display(), size(total), size(store::MOST_BYTES))];
    lines.extend(entries.iter().map(|entry| format!("{:>12}  {}", size(entry.bytes), entry.path.display())));
    lines.push(String::new());
    lines.join("\n")
}

fn list() -> serde_json::Value {
    let (total, entries) = entries();
    let seconds = |entry: &Entry| entry.used.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let entry = |entry: &Entry| json!({ "path": entry.path, "bytes": entry.bytes, "used": seconds(entry) });
    let files: Vec<_> = entries.iter().map(entry).collect();
    json!({ "folder": store::folder(), "bytes": total, "most_bytes": store::MOST_BYTES, "files": files })
}
