//! `numalens import`

use super::tell::tell;
use super::usage::mistake;
use clap::ValueEnum;
use miette::{IntoDiagnostic, miette};
use numalens_collect::launch::keep_files_private;
use numalens_import::{Options, numaprof, perf};
use numalens_topology::Machine;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Make a profile from another tool's.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  numalens import numaprof-app-1234.json --machine togian --run-time 13.91 -o app.numalens\n  perf mem record --phys-data -- ./app; numalens import perf.data -o app.numalens\n  perf record -d -e page-faults -c 1 -o - ./app | numalens import -o app.numalens -\n\nNUMAPROF's files have sums by thread, node and instruction, and no pages: sections that need more say so.\nperf knows neither where threads were bound nor where pages were: both follow from samples."
)]
pub struct Args {
    /// The file, or the folder that perf made; `-` reads standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The tool that wrote it [default: seen from the file]
    #[arg(long, value_enum)]
    from: Option<Tool>,

    /// The machine that was recorded on: a preset, NODESxCPUS, or a file of `lstopo machine.xml` [default: what the
    /// file says of it]
    #[arg(long, value_name = "MACHINE")]
    machine: Option<String>,

    /// Run time of the program without any profiler, in seconds: rates are divided by it
    #[arg(long, value_name = "S", value_parser = seconds, allow_negative_numbers = true)]
    run_time: Option<u64>,

    /// The profile to make
    #[arg(short, long, value_name = "PROFILE")]
    output: PathBuf,

    /// Replace an existing profile
    #[arg(short, long)]
    force: bool,
}

/// Whose file it is.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Tool {
    /// NUMAPROF's JSON
    Numaprof,
    /// perf.data of `perf mem record` or `perf record -d`
    Perf,
}

fn seconds(text: &str) -> Result<u64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds < 1e9 => Ok((seconds * 1e9).round().max(1.0) as u64),
        _ => Err("it is no number of seconds above 0".to_owned()),
    }
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, miette::Report> {
    keep_files_private();
    let machine = match &args.machine {
        Some(spec) => Some(Machine::parse(spec, &Machine::host().into_diagnostic()?).map_err(mistake)?),
        None => None,
    };
    let options = Options { machine, run_time_ns: args.run_time };
    let (file, output, force) = (args.file.as_path(), args.output.as_path(), args.force);
    let made = if file.is_dir() {
        if !perf::is_folder(file) || args.from == Some(Tool::Numaprof) {
            return Err(miette!(
                "{} is a folder, and none of `perf record --threads`, which has a file `data`",
                file.display()
            ));
        }
        perf::import(file, &options, output, force)
    } else {
        // At once: a pipe can be read only once.
        let bytes = contents(file).map_err(|error| miette!("cannot read {}: {error}", file.display()))?;
        match args.from.map_or_else(|| tool(file, &bytes), Ok)? {
            Tool::Numaprof => numaprof::import_bytes(&bytes, file, &options, output, force),
            Tool::Perf => perf::import_bytes(&bytes, file, &options, output, force),
        }
    };
    let made = made.into_diagnostic()?;
    tell!("numalens: {} imported; next: numalens report {}", args.file.display(), made.display());
    Ok(ExitCode::SUCCESS)
}

/// What a file has, or standard input.
fn contents(path: &Path) -> std::io::Result<Vec<u8>> {
    if path != Path::new("-") {
        return std::fs::read(path);
    }
    let mut bytes = Vec::new();
    std::io::stdin().lock().read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The tool that a file's beginning speaks for.
fn tool(path: &Path, bytes: &[u8]) -> Result<Tool, miette::Report> {
    let beginning = &bytes[..bytes.len().min(64)];
    if numaprof::looks_like(beginning) {
        return Ok(Tool::Numaprof);
    }
    if perf::looks_like(beginning) {
        return Ok(Tool::Perf);
    }
    let path = path.display();
    if bytes.is_empty() {
        return Err(miette!(
            "{path} is empty: nothing was written into it, or it was a pipe that has been read before"
        ));
    }
    Err(miette!("{path} begins like no file that can be imported: say with --from whose it is"))
}
