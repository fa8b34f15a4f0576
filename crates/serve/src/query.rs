//! What a request asks for: a filter, an order, a number of rows, a plan to simulate.

use numalens_analyze::whatif::{self, Plan};
use numalens_analyze::{Filter, Options, phases};
use numalens_profile::ids::{ObjectId, ThreadId};
use numalens_profile::tables::Phase;
use numalens_simulate::{Policy, Threads};
use numalens_topology::{Machine, NodeId, Preset, ThreadPlacement};

/// Names and values, in order; a name may be there several times.
pub type Pairs = Vec<(String, String)>;

/// The most machines' nodes, placements and policies that one request may try.
const MOST_PLANS: usize = 64;
/// The longest list in a filter.
const MOST_VALUES: usize = 1024;

/// What is asked about a report.
#[derive(Debug)]
pub struct Asked {
    pub options: Options,
    pub sort: Option<String>,
    pub top: Option<usize>,
    /// What a reader must know of the phase that was named.
    pub doubt: Option<String>,
}

/// Reads a query; what is not known is an error, so that a misspelt filter does not show everything.
pub fn asked(pairs: &Pairs, base: &Options, phases: &[Phase]) -> Result<Asked, String> {
    let mut asked = Asked { options: base.clone(), sort: None, top: None, doubt: None };
    let mut phase = None;
    for (name, value) in pairs {
        match name.as_str() {
            "sort" => asked.sort = Some(value.clone()),
            "top" => asked.top = Some(number(name, value)?),
            "phase" if phase.is_some() => return Err("phase: one at a time".to_string()),
            "phase" => phase = Some(value),
            _ => filter(&mut asked.options, name, value)?,
        }
    }
    if let Some(name) = phase {
        let ((start, end), doubt) = phases::span(phases, name)?;
        // Of a phase and a span what they have in common.
        let (from, to) = &mut asked.options.filter.time_ns;
        *from = (*from).max(start);
        *to = [*to, end].into_iter().flatten().min();
        asked.doubt = doubt;
    }
    Ok(asked)
}

/// Whether a name says how an answer is given, and not of which part of the recording.
pub fn is_of_form(name: &str) -> bool {
    ["sort", "top"].contains(&name) || is_of_plan(name)
}

/// Adds one part of a filter.
fn filter(options: &mut Options, name: &str, value: &str) -> Result<(), String> {
    let Filter { threads, nodes, homes, time_ns, object, function, place } = &mut options.filter;
    match name {
        "process" => options.pids.push(number(name, value)?),
        "thread" => threads.push(ThreadId(number(name, value)?)),
        "node" => nodes.push(node(name, value, "unpinned")?),
        "home" => homes.push(node(name, value, "unplaced")?),
        "from_s" => time_ns.0 = Some(seconds(name, value)?),
        "to_s" => time_ns.1 = Some(seconds(name, value)?),
        "object" => *object = Some(ObjectId(number(name, value)?)),
        "function" => *function = Some(value.to_string()),
        "place" => *place = Some(self::place(name, value)?),
        _ => return Err(format!("there is no parameter {name}")),
    }
    match [options.pids.len(), threads.len(), nodes.len(), homes.len()].iter().all(|n| *n <= MOST_VALUES) {
        true => Ok(()),
        false => Err(format!("{name} is there more than {MOST_VALUES} times")),
    }
}

fn number<T: std::str::FromStr>(name: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{name}: `{}` is no number that it can be", shortened(value)))
}

/// `FILE:LINE`.
pub fn place(name: &str, value: &str) -> Result<(String, u32), String> {
    let (file, line) =
        value.rsplit_once(':').ok_or_else(|| format!("{name}: `{}` is not FILE:LINE", shortened(value)))?;
    Ok((file.to_string(), number(name, line)?))
}

/// Seconds, as nanoseconds.
fn seconds(name: &str, value: &str) -> Result<u64, String> {
    let seconds: f64 = number(name, value)?;
    match (0.0..1e10).contains(&seconds) {
        true => Ok((seconds * 1e9).round() as u64),
        false => Err(format!("{name}: {seconds} is no time")),
    }
}

fn node(name: &str, value: &str, none: &str) -> Result<Option<NodeId>, String> {
    if value == none { Ok(None) } else { number(name, value).map(|node| Some(NodeId(node))) }
}

/// Enough of a value to recognize it.
fn shortened(value: &str) -> String {
    value.chars().take(40).collect()
}

/// Reads a plan: `machine`, `page_size`, and, several times each, `placement`, `policy` and `object_policy`. Machines
/// come from a list: requests name no files.
pub fn plan(pairs: &Pairs, recorded: &Machine) -> Result<Plan, String> {
    let (mut machine, mut placements, mut policies, mut choices) = (None, Vec::new(), Vec::new(), Vec::new());
    let mut page_size = whatif::RECORDED_PAGE;
    for (name, value) in pairs {
        match name.as_str() {
            "machine" => machine = Some(named_machine(value)?),
            "placement" => placements.push(placement(value)?),
            "policy" => policies.extend(Policy::named(shortened(value).as_str())?),
            "object_policy" => choices.push(whatif::choice(&shortened(value))?),
            "page_size" => page_size = whatif::page_size(&shortened(value))?,
            _ => {}
        }
    }
    let on = machine.as_ref().unwrap_or(recorded);
    for policy in policies.iter().chain(choices.iter().map(|(_, policy)| policy)) {
        policy.check(on).map_err(|reason| format!("policy {policy}: {reason}"))?;
    }
    if placements.is_empty() {
        placements.push(if machine.is_some() { Threads::Placed(ThreadPlacement::Spread) } else { Threads::Recorded });
    }
    if policies.is_empty() {
        policies = Policy::COMMON.to_vec();
    }
    match placements.len() * (policies.len() + choices.len()) <= MOST_PLANS {
        true => Ok(Plan { machine, placements, policies, choices, page_size }),
        false => Err(format!("more than {MOST_PLANS} combinations of placements and policies")),
    }
}

/// Names that a plan has, which are not of a filter.
pub fn is_of_plan(name: &str) -> bool {
    ["machine", "placement", "policy", "object_policy", "page_size"].contains(&name)
}

fn placement(word: &str) -> Result<Threads, String> {
    // What was asked for may be long.
    shortened(word).parse()
}

fn named_machine(spec: &str) -> Result<Machine, String> {
    let is_grid = spec.len() <= 12 && spec.contains('x') && spec.bytes().all(|b| b.is_ascii_digit() || b == b'x');
    if spec != "real" && !is_grid && Machine::preset(spec).is_none() {
        let presets: Vec<&str> = Preset::all().iter().map(|preset| preset.name).collect();
        return Err(format!(
            "`{}` is no machine; there are real, NODESxCPUS such as 4x8, {}",
            shortened(spec),
            presets.join(", ")
        ));
    }
    let host = Machine::host().map_err(|error| error.to_string())?;
    Machine::parse(spec, &host).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use numalens_profile::ids::ProcessId;

    fn pairs(text: &str) -> Pairs {
        let pair = |part: &str| part.split_once('=').map(|(name, value)| (name.to_string(), value.to_string()));
        text.split('&').filter_map(pair).collect()
    }

    #[test]
    fn filters() {
        let asked = asked(
            &pairs("thread=3&thread=4&node=unpinned&home=1&from_s=0.5&object=7&top=9&sort=remote"),
            &Options::default(),
            &[],
        )
        .unwrap();
        let filter = asked.options.filter;
        assert_eq!(filter.threads, [ThreadId(3), ThreadId(4)]);
        assert_eq!((filter.nodes, filter.homes), (vec![None], vec![Some(NodeId(1))]));
        assert_eq!((filter.time_ns, filter.object), ((Some(500_000_000), None), Some(ObjectId(7))));
        assert_eq!((asked.top, asked.sort.as_deref()), (Some(9), Some("remote")));
    }

    #[test]
    fn what_is_not_understood_is_said() {
        for wrong in [
            "thread=x",
            "node=-1",
            "home=unpinned",
            "from_s=NaN",
            "to_s=-3",
            "top=1e9",
            "colour=red",
            "thread=99999999999",
            "place=a.c",
            "place=a.c:x",
            "phase=solve",
            "then=all",
        ] {
            assert!(asked(&pairs(wrong), &Options::default(), &[]).is_err(), "{wrong}");
        }
        let many = "thread=1&".repeat(MOST_VALUES + 1);
        assert!(asked(&pairs(&many), &Options::default(), &[]).unwrap_err().contains("more than"));
    }

    #[test]
    fn a_phase_is_a_span() {
        let phase = |name: &str, start_ns, end_ns| Phase {
            process: ProcessId(0),
            phase: 0,
            name: name.to_string(),
            thread: None,
            start_ns,
            end_ns,
            site: None,
        };
        let phases =
            [phase("a", 10, Some(1_000_000_000)), phase("b", 5, None), phase("a", 2_000_000_000, Some(3_000_000_000))];
        let span = |text: &str| {
            let asked = asked(&pairs(text), &Options::default(), &phases).unwrap();
            (asked.options.filter.time_ns, asked.doubt.is_some())
        };
        assert_eq!(span("phase=a"), ((Some(10), Some(3_000_000_000)), true));
        assert_eq!(span("phase=b"), ((Some(5), None), false));
        // With a span: what both have.
        assert_eq!(span("from_s=0.5&phase=a&to_s=9"), ((Some(500_000_000), Some(3_000_000_000)), true));
        assert_eq!(span("phase=b&to_s=1"), ((Some(5), Some(1_000_000_000)), false));
        assert!(asked(&pairs("phase=c"), &Options::default(), &phases).unwrap_err().contains("a, b"));
        assert!(asked(&pairs("phase=a&phase=b"), &Options::default(), &phases).is_err());
    }

    #[test]
    fn plans_name_no_files() {
        let recorded = Machine::preset("xeon64").unwrap();
        assert!(plan(&pairs("machine=4x2&policy=interleave&placement=compact"), &recorded).is_ok());
        let many = plan(&pairs("policy=common&policy=bind:0&page_size=2M&placement=cluster"), &recorded).unwrap();
        assert_eq!((many.policies.len(), many.page_size), (Policy::COMMON.len() + 1, 2 << 20));
        let choices = |text: &str| {
            let all: Pairs = text.split('&').map(|value| ("object_policy".to_string(), value.to_string())).collect();
            plan(&all, &recorded).map(|plan| plan.choices.len())
        };
        assert_eq!(choices("7=interleave&9=bind:1"), Ok(2));
        assert!(choices("7").is_err() && choices("7=bind:99").is_err());
        for wrong in [
            "machine=/etc/passwd",
            "machine=a.xml",
            "machine=..",
            "policy=bind:99",
            "policy=x",
            "placement=y",
            "machine=999999x999999",
            "page_size=1G",
        ] {
            assert!(plan(&pairs(wrong), &recorded).is_err(), "{wrong}");
        }
    }
}
