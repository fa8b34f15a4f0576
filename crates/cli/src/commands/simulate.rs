//! `numalens simulate`

use super::{input, output};
use miette::{IntoDiagnostic, miette};
use numalens_analyze::whatif::{self, Plan};
use numalens_simulate::{Policy, Threads};
use numalens_topology::Machine;
use std::process::ExitCode;

/// Replay a recording on another machine, with threads and pages placed otherwise.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  numalens simulate app-1234.numalens\n  numalens simulate app-1234.numalens --policy interleave --policy local\n  numalens simulate app-1234.numalens --machine togian --placement spread --placement compact\n\nPolicies: recorded, first-touch, parallel-first-touch, local, interleave, bind:NODE, random[:SEED], round-robin, mixed, balance, replicate.\nFigures are predictions (docs/advice.md has the cost model)."
)]
pub struct Args {
    #[command(flatten)]
    input: input::Args,

    /// real, NODESxCPUS, a preset or an hwloc XML file [default: the recording's]
    #[arg(long, value_name = "MACHINE")]
    machine: Option<String>,

    /// Threads: recorded, spread, compact, none (may be repeated) [default: recorded; with --machine spread]
    #[arg(long = "placement", value_name = "P", value_parser = placement)]
    placements: Vec<Threads>,

    /// Pages (may be repeated) [default: all that need no parameter]
    #[arg(long = "policy", value_name = "P", value_parser = policy)]
    policies: Vec<Policy>,

    #[arg(long, value_enum, default_value_t = output::Format::Text)]
    format: output::Format,

    #[command(flatten)]
    place: output::Place,
}

fn placement(word: &str) -> Result<Threads, String> {
    match word {
        "recorded" => Ok(Threads::Recorded),
        other => other
            .parse()
            .map(Threads::Placed)
            .map_err(|_| format!("`{other}` is no placement; there are recorded, spread, compact, none")),
    }
}

fn policy(word: &str) -> Result<Policy, String> {
    word.parse()
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, miette::Report> {
    let machine = match &args.machine {
        Some(spec) => {
            let host = Machine::host().into_diagnostic()?;
            Some(Machine::parse(spec, &host).into_diagnostic()?)
        }
        None => None,
    };
    let loaded = input::load(&args.input)?;
    let on = match &machine {
        Some(machine) => machine.clone(),
        None => loaded.profile.machine().into_diagnostic()?,
    };
    for policy in &args.policies {
        policy.check(&on).map_err(|reason| miette!("--policy {policy}: {reason}"))?;
    }
    let placements = match (args.placements.is_empty(), &machine) {
        (false, _) => args.placements,
        (true, Some(_)) => vec![Threads::Placed(numalens_topology::ThreadPlacement::Spread)],
        (true, None) => vec![Threads::Recorded],
    };
    let policies = if args.policies.is_empty() { Policy::COMMON.to_vec() } else { args.policies };
    let plan = Plan { machine, placements, policies };
    let reports = whatif::run(&loaded.profile, &args.input.options(), &plan).into_diagnostic()?;
    args.place.write_reports(&reports, args.format)?;
    Ok(ExitCode::SUCCESS)
}
