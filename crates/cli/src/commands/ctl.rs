//! `numalens ctl`

use super::output;
use super::tell::tell;
use clap::Subcommand;
use numalens_collect::control::{self, Command};
use std::process::ExitCode;

/// Tell a recording that runs when to count, name a moment of it, or end it.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  numalens record --start-paused -- ./server &\n  numalens ctl start --pid $(pidof server)\n  numalens ctl mark 'load begins' --pid $(pidof server)\n  numalens ctl stop --pid $(pidof server)\n\nThe program itself can do all this too: `numalens header` prints numalens.h."
)]
pub struct Args {
    #[command(subcommand)]
    what: What,

    /// The recorded program, one of its children, or `numalens record` itself
    #[arg(long, value_name = "PID", global = true, allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(1..))]
    pid: Option<i32>,
}

#[derive(Subcommand)]
enum What {
    /// Count accesses from now on
    Start,
    /// Count no more, until the next start
    Stop,
    /// Name this moment: a row of `report --section phases`
    Mark {
        /// What happens now
        #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new())]
        name: String,
    },
    /// Record no more, and write the profile: what was recorded goes on running. Under the exact engine, once the
    /// command itself has ended (`record --wait-all`)
    End,
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, miette::Report> {
    let Some(pid) = args.pid else {
        tell!("numalens: which recording? Name the recorded program, or its recorder: `--pid PID`");
        return Ok(ExitCode::from(2));
    };
    let command = match args.what {
        What::Start => Command::Start,
        What::Stop => Command::Stop,
        What::Mark { name } => Command::Mark(name),
        What::End => Command::End,
    };
    let answer = control::send(pid, &command).map_err(|error| miette::miette!("{error}"))?;
    output::print_text(&format!("{answer}\n"))?;
    Ok(ExitCode::SUCCESS)
}
