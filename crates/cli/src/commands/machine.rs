//! `numalens machine`: the machine that a recording would use, the machines that can be named, and how fast this one's
//! memory is.

use super::output;
use super::tell::tell;
use super::usage::mistake;
use miette::{IntoDiagnostic, Report};
use numalens_collect::measure::{self, Measured};
use numalens_topology::{Machine, Node, Preset, hwloc};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;

/// Show the machine that a recording would use, or the machines that can be named; measure this one.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  numalens machine show                        this host
  numalens machine show --machine 4x8          4 nodes of 8 CPUs
  numalens machine show --machine togian --format json
  numalens machine list
  numalens machine measure -o measured.xml     latencies and bandwidths, also for --machine")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    Show(ShowArgs),
    List(ListArgs),
    Measure(MeasureArgs),
}

/// Show nodes, CPUs, memory and distances.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  numalens machine show --machine cxl2")]
struct ShowArgs {
    /// real (this host), default (what record uses), NODESxCPUS such as 4x8, a preset's name, or a file of `lstopo
    /// machine.xml`
    #[arg(long, default_value = "real", value_name = "MACHINE")]
    machine: String,
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// List the presets and the other forms that --machine takes.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  numalens machine list --format json")]
struct ListArgs {
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Measure latency and bandwidth from every node's CPUs to every node's memory.
#[derive(clap::Args)]
#[command(after_help = "Takes seconds for each pair of nodes; on a busy host it measures what is left.

Examples:
  numalens machine measure
  numalens machine measure -o measured.xml
  numalens simulate app-1234.numalens --machine measured.xml      predictions by measured latency")]
struct MeasureArgs {
    /// Also write the machine with its measured distances (10 is a node's own memory), as a file for --machine and
    /// hwloc
    #[arg(short, long, value_name = "FILE.xml")]
    output: Option<PathBuf>,
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    Text,
    Json,
}

/// What `--machine` takes besides presets, for people.
const FORMS: [(&str, &str); 4] = [
    ("real", "this host as it is"),
    ("default", "what `record` uses here: this host, or 4 nodes when it has only one"),
    ("NxC", "N nodes of C CPUs each at equal distances: 4x8"),
    ("FILE.xml", "any machine, written there by `lstopo FILE.xml` (hwloc 2)"),
];

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Report> {
    match args.action {
        Action::Show(args) => show(&args)?,
        Action::List(args) => list(args.format)?,
        Action::Measure(args) => measure(&args)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn show(args: &ShowArgs) -> Result<(), Report> {
    let host = Machine::host().into_diagnostic()?;
    let machine = Machine::parse(&args.machine, &host).map_err(mistake)?;
    match args.format {
        Format::Json => print_json(&json!({ "schema": 1, "machine": machine_json(&machine) })),
        Format::Text => {
            let mut document = text(&machine);
            if !machine.is_virtual && Machine::default_for(&host).is_virtual {
                document += "\nNothing is remote on one node, so `record` uses a virtual machine here; see it with\n";
                document += "`numalens machine show --machine default`, others with `numalens machine list`.\n";
            }
            output::print_text(&document)
        }
    }
}

fn list(format: Format) -> Result<(), Report> {
    match format {
        Format::Json => {
            let presets: Vec<Value> =
                Preset::all().iter().map(|p| json!({ "name": p.name, "description": p.description })).collect();
            print_json(&json!({ "schema": 1, "presets": presets }))
        }
        Format::Text => {
            let presets = Preset::all().iter().map(|preset| (preset.name, preset.description));
            let lines = FORMS.into_iter().chain(presets).map(|(name, what)| format!("  {name:<15}{what}\n"));
            output::print(format!("--machine takes\n{}", lines.collect::<String>()).as_bytes())
        }
    }
}

fn measure(args: &MeasureArgs) -> Result<(), Report> {
    let host = Machine::host().into_diagnostic()?;
    let mut begins = |from, to| tell!("numalens: from node {from} to memory on node {to}");
    let measured = measure::measure(&host, &mut begins).into_diagnostic()?;
    match args.format {
        Format::Json => print_json(&measured_json(&measured))?,
        Format::Text => output::print_text(&measured_text(&measured))?,
    }
    if let Some(path) = &args.output {
        output::write(Some(path), hwloc::write(&measured.machine(&host)).as_bytes())?;
        tell!("numalens: {} written; next: numalens simulate PROFILE --machine {}", path.display(), path.display());
    }
    Ok(())
}

fn measured_json(measured: &Measured) -> Value {
    json!({
        "schema": 1,
        "nodes": measured.nodes.iter().map(|node| node.0).collect::<Vec<_>>(),
        "latency_ns": measured.latency_ns,
        "bandwidth_bytes_per_s": measured.bandwidth,
        "buffer_bytes": measured.bytes,
        "notes": measured.notes,
    })
}

/// Matrices: from the node of a row to the node of a column.
fn measured_text(measured: &Measured) -> String {
    let matrix = |figures: &dyn Fn(usize, usize) -> Option<f64>, digits: usize| {
        let ids: Vec<String> = measured.nodes.iter().map(ToString::to_string).collect();
        let header = [vec!["from \\ to".to_owned()], ids.clone()].concat();
        let cell = |from, to| figures(from, to).map_or("-".to_owned(), |figure| format!("{figure:.digits$}"));
        let row = |from: usize| [vec![ids[from].clone()], (0..ids.len()).map(|to| cell(from, to)).collect()].concat();
        table(&header, &(0..ids.len()).map(row).collect::<Vec<_>>())
    };
    let latency = |from: usize, to: usize| measured.latency_ns[from][to];
    let mut out: String = measured.notes.iter().map(|note| format!("! {note}\n")).collect();
    out += "latency in ns: a load that needs the one before, median\n";
    out += &matrix(&latency, 1);
    if measured.nodes.len() > 1 {
        out += "\nthe same over that of the node's own memory\n";
        out += &matrix(&|from, to| Some(latency(from, to)? / latency(from, from)?), 2);
    }
    out += "\nbandwidth in GB/s: all CPUs of the node read, most\n";
    out += &matrix(&|from, to| measured.bandwidth[from][to].map(|rate| rate / 1e9), 1);
    out + &format!("\nbuffers of {} on each node\n", bytes(measured.bytes as u64))
}

fn print_json(value: &Value) -> Result<(), Report> {
    output::print(output::json(value)?.as_bytes())
}

fn machine_json(machine: &Machine) -> Value {
    let nodes: Vec<Value> = machine.nodes.iter().map(node_json).collect();
    json!({ "name": machine.name, "virtual": machine.is_virtual, "nodes": nodes })
}

fn node_json(node: &Node) -> Value {
    json!({
        "node": node.id.0,
        "cpus": node.cpus.to_string(),
        "only_unusable_cpus": node.only_unusable_cpus,
        "memory_bytes": node.memory_bytes,
        "distances": node.distances,
        "tier": node.tier,
        "huge_page_sizes": node.huge_page_sizes,
        "latency_ns": node.latency_ns,
        "bandwidth_bytes_per_s": node.bandwidth,
    })
}

/// The machine as a table of nodes and a table of distances.
fn text(machine: &Machine) -> String {
    let cpus = machine.cpus().len();
    let kind = if machine.is_virtual { "virtual machine" } else { "this host" };
    let counts = format!("{}, {}", plural(machine.nodes.len(), "node"), plural(cpus, "CPU"));
    let mut out = format!("{} ({kind}): {counts}\n\n", machine.name);
    let header = ["node", "cpus", "count", "memory", "tier", "huge pages", "latency", "bandwidth"];
    let rows: Vec<Vec<String>> = machine.nodes.iter().map(node_cells).collect();
    // Firmware figures are rare: the columns appear when a node has them.
    let shown = |column: usize| column < 6 || rows.iter().any(|row| !row[column].is_empty());
    let columns: Vec<usize> = (0..header.len()).filter(|&column| shown(column)).collect();
    let pick = |cells: &[String]| columns.iter().map(|&column| cells[column].clone()).collect();
    let header: Vec<String> = pick(&header.map(str::to_owned));
    out += &table(&header, &rows.iter().map(|row| pick(row)).collect::<Vec<_>>());
    let ids: Vec<String> = machine.nodes.iter().map(|node| node.id.to_string()).collect();
    let header = [vec!["from \\ to".to_owned()], ids.clone()].concat();
    let distances = |node: &Node| node.distances.iter().map(u32::to_string).collect();
    let rows: Vec<Vec<String>> =
        machine.nodes.iter().map(|node| [vec![node.id.to_string()], distances(node)].concat()).collect();
    out + "\ndistances (10 is local)\n" + &table(&header, &rows)
}

fn node_cells(node: &Node) -> Vec<String> {
    let huge: Vec<String> = node.huge_page_sizes.iter().map(|&size| bytes(size)).collect();
    vec![
        node.id.to_string(),
        match (node.cpus.is_empty(), node.only_unusable_cpus) {
            (true, true) => "none usable".to_owned(),
            (true, false) => "none".to_owned(),
            (false, _) => node.cpus.to_string(),
        },
        node.cpus.len().to_string(),
        if node.memory_bytes == 0 { "none".to_owned() } else { bytes(node.memory_bytes) },
        node.tier.to_string(),
        huge.join(", "),
        node.latency_ns.map(|ns| format!("{ns:.0} ns")).unwrap_or_default(),
        node.bandwidth.map(|rate| format!("{:.1} GB/s", rate / 1e9)).unwrap_or_default(),
    ]
}

/// Columns as wide as their widest cell, right-aligned, two blanks between.
fn table(header: &[String], rows: &[Vec<String>]) -> String {
    let all = || std::iter::once(header).chain(rows.iter().map(Vec::as_slice));
    let widths: Vec<usize> =
        (0..header.len()).map(|column| all().map(|row| row[column].chars().count()).max().unwrap_or(0)).collect();
    let line = |row: &[String]| -> String {
        let cells = row.iter().zip(&widths).map(|(cell, &width)| format!("  {cell:>width$}"));
        cells.collect::<String>() + "\n"
    };
    all().map(line).collect()
}

/// A size in the largest unit that shows it with at most one decimal: `7.3 GiB`, `2 MiB`.
fn bytes(size: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut value = size as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    let number = format!("{value:.1}");
    format!("{} {}", number.strip_suffix(".0").unwrap_or(&number), units[unit])
}

fn plural(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_shows_nodes_and_distances() {
        let m = Machine::preset("cxl2").unwrap();
        let expected = "\
cxl2 (virtual machine): 3 nodes, 32 CPUs

  node   cpus  count   memory  tier    huge pages
     0   0-15     16   64 GiB     0  2 MiB, 1 GiB
     1  16-31     16   64 GiB     0  2 MiB, 1 GiB
     2   none      0  128 GiB     1  2 MiB, 1 GiB

distances (10 is local)
  from \\ to   0   1   2
          0  10  21  14
          1  21  10  24
          2  14  24  10
";
        assert_eq!(text(&m), expected);
    }

    #[test]
    fn measured_figures_are_shown_with_what_is_missing() {
        let measured = Measured {
            nodes: vec![numalens_topology::NodeId(0), numalens_topology::NodeId(2)],
            latency_ns: vec![vec![Some(80.0), Some(120.0)], vec![Some(121.0), None]],
            bandwidth: vec![vec![Some(2.05e10), None], vec![None, None]],
            bytes: 64 << 20,
            notes: vec!["node 2 is small".to_owned()],
        };
        let expected = "\
! node 2 is small
latency in ns: a load that needs the one before, median
  from \\ to      0      2
          0   80.0  120.0
          2  121.0      -

the same over that of the node's own memory
  from \\ to     0     2
          0  1.00  1.50
          2     -     -

bandwidth in GB/s: all CPUs of the node read, most
  from \\ to     0  2
          0  20.5  -
          2     -  -

buffers of 64 MiB on each node
";
        assert_eq!(measured_text(&measured), expected);
        assert_eq!(measured_json(&measured)["latency_ns"], json!([[80.0, 120.0], [121.0, null]]));
    }

    #[test]
    fn figures_of_the_firmware_appear_when_there_are_any() {
        let mut m = Machine::preset("cxl2").unwrap();
        m.nodes[2].latency_ns = Some(212.4);
        m.nodes[2].bandwidth = Some(25.6e9);
        assert!(text(&m).contains("212 ns  25.6 GB/s"));
    }

    #[test]
    fn json_has_the_documented_fields() {
        let m = Machine::preset("cxl2").unwrap();
        let json = machine_json(&m);
        assert_eq!(json["name"], "cxl2");
        assert_eq!(json["virtual"], true);
        assert_eq!(
            json["nodes"][2],
            json!({ "node": 2, "cpus": "", "only_unusable_cpus": false, "memory_bytes": 137_438_953_472u64, "distances": [14, 24, 10], "tier": 1,
                    "huge_page_sizes": [2_097_152, 1_073_741_824], "latency_ns": null, "bandwidth_bytes_per_s": null })
        );
    }

    #[test]
    fn sizes_are_short() {
        for (size, text) in [
            (0, "0 B"),
            (4096, "4 KiB"),
            (7_879_217_152, "7.3 GiB"),
            (2 << 20, "2 MiB"),
            (18_213_978_112, "17 GiB"),
            (150 << 30, "150 GiB"),
        ] {
            assert_eq!(bytes(size), text);
        }
    }
}
