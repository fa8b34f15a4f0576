//! `numalens simulate`

use super::usage::mistake;
use super::{input, output};
use miette::IntoDiagnostic;
use numalens_analyze::whatif::{self, Plan};
use numalens_profile::ids::ObjectId;
use numalens_profile::tables::Object;
use numalens_simulate::{Policy, Threads};
use numalens_topology::Machine;
use std::process::ExitCode;

/// Replay a recording on another machine, with threads and pages placed otherwise.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  numalens simulate app-1234.numalens\n  numalens simulate app-1234.numalens --policy interleave --policy local\n  numalens simulate app-1234.numalens --machine togian --placement spread --placement compact\n\nPolicies: recorded, first-touch, parallel-first-touch, local, interleave, bind:NODE, random[:SEED], round-robin, mixed, balance, replicate, numa-balancing, kmaf, tier:PERCENT (of the pages in fast memory).\nFigures are predictions (docs/guide/advice.md has the cost model)."
)]
pub struct Args {
    #[command(flatten)]
    input: input::Args,

    /// real, NODESxCPUS, a preset or an hwloc XML file [default: the recording's]
    #[arg(long, value_name = "MACHINE")]
    machine: Option<String>,

    /// Threads: recorded, spread, compact, cluster, none (may be repeated) [default: recorded; with --machine spread]
    #[arg(long = "placement", value_name = "P")]
    placements: Vec<Threads>,

    /// Pages (may be repeated); common: all that need no parameter [default: common]
    #[arg(long = "policy", value_name = "P", value_parser = policies)]
    policies: Vec<Policies>,

    /// One object's pages, whatever the others have: its number, `object` in JSON (may be repeated)
    #[arg(long = "object-policy", value_name = "N=P", value_parser = whatif::choice)]
    choices: Vec<(ObjectId, Policy)>,

    /// Size of a page: 4K, 64K, 2M
    #[arg(long, value_name = "SIZE", default_value = "4K", value_parser = whatif::page_size, allow_negative_numbers = true)]
    page_size: u64,

    #[arg(long, value_enum, default_value_t = output::Format::Text)]
    format: output::Format,

    #[command(flatten)]
    place: output::Place,
}

/// Those of one option: a list in itself for the parser of the command line.
type Policies = Vec<Policy>;

fn policies(word: &str) -> Result<Policies, String> {
    Policy::named(word)
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, miette::Report> {
    let machine = match &args.machine {
        Some(spec) => {
            let host = Machine::host().into_diagnostic()?;
            Some(Machine::parse(spec, &host).map_err(mistake)?)
        }
        None => None,
    };
    let loaded = input::load(&args.input)?;
    let on = match &machine {
        Some(machine) => machine.clone(),
        None => loaded.profile.machine().into_diagnostic()?,
    };
    let policies = if args.policies.is_empty() { Policy::COMMON.to_vec() } else { args.policies.concat() };
    for policy in policies.iter().chain(args.choices.iter().map(|(_, policy)| policy)) {
        policy.check(&on).map_err(|reason| mistake(format_args!("--policy {policy}: {reason}")))?;
    }
    let placements = match (args.placements.is_empty(), &machine) {
        (false, _) => args.placements,
        (true, Some(_)) => vec![Threads::Placed(numalens_topology::ThreadPlacement::Spread)],
        (true, None) => vec![Threads::Recorded],
    };
    let known = loaded.profile.rows::<Object>().into_diagnostic()?;
    if let Some((object, _)) = args.choices.iter().find(|(id, _)| !known.iter().any(|object| object.object == *id)) {
        return Err(mistake(format_args!(
            "--object-policy: there is no object {object}; `report --section objects --format json` has their numbers"
        )));
    }
    let plan = Plan { machine, placements, policies, choices: args.choices, page_size: args.page_size };
    let reports = whatif::run(&loaded.profile, &args.input.options(), &plan).into_diagnostic()?;
    args.place.write_reports(&reports, args.format)?;
    Ok(ExitCode::SUCCESS)
}
