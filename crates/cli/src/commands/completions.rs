//! `numalens completions` and `numalens man`

use super::output;
use miette::{IntoDiagnostic, WrapErr};
use std::path::PathBuf;
use std::process::ExitCode;

/// Print a script that completes commands in a shell.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  numalens completions bash > ~/.local/share/bash-completion/completions/numalens")]
pub struct Args {
    shell: clap_complete::Shell,
}

/// Print the manual page, or write those of all commands.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  numalens man | man -l -\n  numalens man -o ~/.local/share/man/man1")]
pub struct ManArgs {
    /// Write numalens.1, numalens-record.1, ... into this directory
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// Runs `completions`; `command` is the whole command line.
pub fn run(args: Args, mut command: clap::Command) -> Result<ExitCode, miette::Report> {
    let name = command.get_name().to_string();
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    output::print(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// Runs `man`; `command` is the whole command line.
pub fn run_man(args: ManArgs, command: clap::Command) -> Result<ExitCode, miette::Report> {
    match args.output {
        Some(directory) => {
            std::fs::create_dir_all(&directory)
                .and_then(|()| clap_mangen::generate_to(command, &directory))
                .into_diagnostic()
                .wrap_err_with(|| format!("cannot write manual pages into {}", directory.display()))?;
            Ok(ExitCode::SUCCESS)
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(command).render(&mut page).into_diagnostic()?;
            output::print(&page)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}
