//! Where documents go: a file, whole or not at all, or standard output, which may be full; and how they look there.

use clap::ValueEnum;
use miette::{IntoDiagnostic, WrapErr, miette};
use numalens_analyze::report::Report;
use numalens_profile::place;
use numalens_view::text::{self, Look};
use numalens_view::visible;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

/// Where a command's document goes.
#[derive(clap::Args)]
pub struct Place {
    /// Write to a file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Colours on the terminal
    #[arg(long, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    color: Color,
}

impl Place {
    /// How text looks there.
    pub fn look(&self) -> Look {
        self.color.look(self.output.is_none())
    }

    /// Writes the document, whose names are visible already; see [`numalens_view::visible`].
    pub fn write(&self, document: &str) -> Result<(), miette::Report> {
        write(self.output.as_deref(), visible::styled(document).as_bytes())
    }

    /// Writes reports of which there is no page.
    pub fn write_reports(&self, reports: &[Report], format: Format) -> Result<(), miette::Report> {
        self.write(&match format {
            Format::Json => json(&numalens_view::json::document(reports))?,
            Format::Text => text::render(reports, self.look()),
        })
    }
}

/// How reports are written of which there is no page.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
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

impl Color {
    /// How to draw; `to_stdout`: not into a file.
    fn look(self, to_stdout: bool) -> Look {
        let to_terminal = to_stdout && std::io::stdout().is_terminal();
        let color = match self {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => {
                to_stdout && anstream::AutoStream::choice(&std::io::stdout()) != anstream::ColorChoice::Never
            }
        };
        Look { color, width: if to_terminal { Look::terminal_width() } else { None } }
    }
}

/// To a file, or to standard output.
pub fn write(path: Option<&Path>, bytes: &[u8]) -> Result<(), miette::Report> {
    match path {
        Some(path) => write_aside(path, bytes),
        None => print(bytes),
    }
}

/// A JSON document as text.
pub fn json(document: &serde_json::Value) -> Result<String, miette::Report> {
    Ok(visible::json(&(serde_json::to_string_pretty(document).into_diagnostic()? + "\n")).into_owned())
}

/// Writes beside the file and renames, so that a reader never sees half of it.
fn write_aside(path: &Path, bytes: &[u8]) -> Result<(), miette::Report> {
    let cannot = || format!("cannot write {}", path.display());
    // Not a file of its own: renaming would replace the device by a file, or the system's link to what is open
    // (`/dev/stdout`).
    let is_system = ["/dev", "/proc"].iter().any(|folder| path.starts_with(folder));
    if is_system || std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return std::fs::write(path, bytes).into_diagnostic().wrap_err_with(cannot);
    }
    if path.file_name().is_none() {
        return Err(miette!("{} is not a name of a file", path.display()));
    }
    place::aside(path)
        .and_then(|(mut file, aside)| {
            file.write_all(bytes)?;
            aside.persist(path).map_err(|error| error.error)
        })
        .into_diagnostic()
        .wrap_err_with(cannot)
}

/// Text without colours to standard output. What a terminal would obey in it is written out.
pub fn print_text(text: &str) -> Result<(), miette::Report> {
    print(visible::lines(text).as_bytes())
}

/// To standard output, as it is; a reader that has seen enough is no error.
pub fn print(bytes: &[u8]) -> Result<(), miette::Report> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(error).into_diagnostic().wrap_err("cannot write to standard output")
        }
        _ => Ok(()),
    }
}
