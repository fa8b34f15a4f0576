//! The NUMA lab: boots Linux on emulated machines of several nodes, runs numalens and the targets there, and compares
//! what numalens says with what the kernel and the programs themselves say. Placement, affinity, policies and homes are
//! the kernel's own; times mean nothing under emulation and are never compared.

mod boot;
mod case;
mod checks;
mod initramfs;
mod kernel;
mod places;

use case::Case;
use clap::{Parser, Subcommand};
use miette::{IntoDiagnostic, Result, WrapErr, bail};
use numalens_lab::machine::{MACHINES, Machine};
use places::Places;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

/// Linux on machines of several NUMA nodes, under emulation.
#[derive(Parser)]
#[command(
    name = "numalens-lab",
    after_help = "Example: cargo run --release -p numalens-lab -- run topology --machine dist4"
)]
struct Cli {
    #[command(subcommand)]
    command: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Boots the machines and runs the cases.
    Run(RunArgs),
    /// Lists machines and cases.
    List,
}

#[derive(clap::Args)]
struct RunArgs {
    /// Cases to run; all when none is named.
    cases: Vec<String>,
    /// Only this machine.
    #[arg(long)]
    machine: Option<String>,
    /// The numalens to put to the test; built when not given.
    #[arg(long)]
    numalens: Option<PathBuf>,
    /// The engine that records; without it all cases are run with `sample`, and some with `exact` as well.
    #[arg(long, value_name = "ENGINE", value_parser = ["sample", "exact"])]
    engine: Option<String>,
    /// A kernel image, instead of Debian's; needs NUMA, perf events, NVMe and the serial console built in.
    #[arg(long)]
    kernel: Option<PathBuf>,
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Action::Run(args) => run(args),
        Action::List => list(),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("numalens-lab: {error:?}");
        ExitCode::FAILURE
    })
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_owned).unwrap_or_default()
}

fn list() -> Result<ExitCode> {
    for machine in MACHINES {
        println!("machine {:24} {}", machine.name, machine.about);
    }
    for case in case::all(&root().join("lab/cases"), "sample")? {
        let machines: Vec<_> = case.machines.iter().map(|machine| machine.name).collect();
        let engines = if case.exact { "; both engines" } else { "" };
        println!("case    {:24} {} ({}{engines})", case.name, case.about, machines.join(", "));
    }
    Ok(ExitCode::SUCCESS)
}

fn run(args: RunArgs) -> Result<ExitCode> {
    let root = root();
    let build = root.join("lab/build");
    fs::create_dir_all(&build).into_diagnostic()?;
    // Another run would take this one's files away: wait until it is over. The lock goes with the process.
    let lock = fs::File::create(build.join("lock")).into_diagnostic()?;
    if lock.try_lock().is_err() {
        eprintln!("lab: waiting for another run to end");
        lock.lock().into_diagnostic()?;
    }
    let engines: &[&str] = match args.engine.as_deref() {
        Some("exact") => &["exact"],
        Some(_) => &["sample"],
        None => &["sample", "exact"],
    };
    let mut by_engine = Vec::new();
    for engine in engines {
        let mut cases = case::all(&root.join("lab/cases"), engine)?;
        if let Some(unknown) = args.cases.iter().find(|name| !cases.iter().any(|case| case.name == **name)) {
            bail!("no case is called {unknown}; `list` shows them");
        }
        let asked_for = *engine == "sample" || args.engine.is_some();
        cases.retain(|case| args.cases.is_empty() || args.cases.contains(&case.name));
        cases.retain(|case| asked_for || case.exact);
        cases.retain(|case| *engine == "exact" || case.sample);
        by_engine.push((*engine, cases));
    }
    if let Some(name) = &args.machine
        && Machine::find(name).is_none()
    {
        bail!("no machine is called {name}; `list` shows them");
    }
    let numalens = match args.numalens {
        Some(path) => fs::canonicalize(&path).into_diagnostic().wrap_err_with(|| path.display().to_string())?,
        None => build_numalens(&root)?,
    };
    let kernel = args.kernel.map_or_else(|| kernel::image(&build), Ok)?;
    let places = Places { root, build, numalens };
    command("make", &["-s", "-C", "targets"], &places.root)?;
    build_probes(&places, by_engine.iter().flat_map(|(_, cases)| cases))?;

    let (mut passed, mut failed) = (0, 0);
    for (engine, cases) in &by_engine {
        for machine in MACHINES.iter().filter(|machine| args.machine.as_ref().is_none_or(|name| name == machine.name)) {
            let cases: Vec<&Case> =
                cases.iter().filter(|case| case.machines.iter().any(|on| on.name == machine.name)).collect();
            if cases.is_empty() {
                continue;
            }
            for doubts in run_machine(machine, engine, &cases, &kernel, &places)? {
                *(if doubts.is_empty() { &mut passed } else { &mut failed }) += 1;
            }
        }
    }
    println!("{passed} passed, {failed} failed");
    if passed + failed == 0 {
        bail!("no case runs on that machine");
    }
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Boots one machine for all its cases with one engine; what is wrong with each, empty when it passed.
fn run_machine(
    machine: &Machine,
    engine: &str,
    cases: &[&Case],
    kernel: &Path,
    places: &Places,
) -> Result<Vec<Vec<String>>> {
    let name = if engine == "exact" { format!("{}-exact", machine.name) } else { machine.name.to_owned() };
    let directory = boot::directory(&places.build, &name)?;
    let processor = boot::processor(engine);
    let image = directory.join("initramfs.cpio");
    guest_files(machine, cases, places)?.write(&image).wrap_err("the guest's file system")?;
    let limits: Vec<_> = cases.iter().map(|case| (case.name.clone(), case.limit)).collect();
    let started = Instant::now();
    let mut guest = boot::run(machine, processor, kernel, &image, &limits, &directory)?;
    if guest.up.is_none() {
        // An emulated machine on a crowded host may miss its own timer interrupts while it calibrates clocks. No case
        // has run, so nothing that is tested is hidden by another try; what it did is told.
        println!("{name}: {}; booting it again", guest.failure.as_deref().unwrap_or("did not boot"));
        guest = boot::run(machine, processor, kernel, &image, &limits, &directory)?;
    }
    fs::remove_file(&image).into_diagnostic()?;
    match guest.up {
        Some(seconds) => println!("{name}: up after {seconds:.1} s"),
        None => println!("{name}: did not boot"),
    }
    let mut outcomes = Vec::new();
    for case in cases {
        let (doubts, seconds) = match guest.cases.get(&case.name) {
            None => (vec![guest.failure.clone().unwrap_or_else(|| "did not run".into())], 0.0),
            Some(ran) => (checks::check(case, machine, &directory.join(&case.name), ran, places), ran.seconds),
        };
        let verdict = if doubts.is_empty() { "passed" } else { "FAILED" };
        println!("{verdict} {name}/{} ({seconds:.1} s)", case.name);
        for doubt in doubts.iter().take(20) {
            println!("    {doubt}");
        }
        outcomes.push(doubts);
    }
    println!("{name}: {:.1} s in all; files in {}", started.elapsed().as_secs_f64(), directory.display());
    Ok(outcomes)
}

/// Everything that lies in the guest.
fn guest_files(machine: &Machine, cases: &[&Case], places: &Places) -> Result<initramfs::Initramfs> {
    let mut image = initramfs::Initramfs::new();
    image.program(Path::new("/usr/bin/busybox")).wrap_err("Debian package busybox-static")?;
    image.host_file(Path::new("/etc/ld.so.cache"))?;
    for tool in ["/usr/bin/numactl", "/usr/bin/numastat"] {
        image.program(Path::new(tool)).wrap_err("Debian package numactl")?;
    }
    image.program(&places.numalens)?;
    image.file(&places.numalens, without_debug_information(places)?, 0o755);
    for directory in [places.root.join("targets/build"), places.build.join("probes")] {
        let files = fs::read_dir(&directory).into_diagnostic().wrap_err_with(|| directory.display().to_string())?;
        for path in
            files.flatten().map(|entry| entry.path()).filter(|path| path.is_file() && path.extension().is_none())
        {
            image.program(&path)?;
        }
    }
    image.file("/init", fs::read(places.root.join("lab/guest/init")).into_diagnostic()?, 0o755);
    let environment = format!(
        "export MACHINE={} NUMALENS={} TARGETS={} PROBES={}\n",
        machine.name,
        places.numalens.display(),
        places.root.join("targets/build").display(),
        places.build.join("probes").display()
    );
    let mut list = String::new();
    for case in cases {
        image.file(Path::new("/lab").join(&case.name).join("guest.sh"), format!("{environment}{}", case.script), 0o755);
        list.push_str(&format!("{} {}\n", case.name, case.limit));
    }
    image.file("/lab/cases", list, 0o644);
    Ok(image)
}

/// numalens without what only a debugger wants of it, which is most of its size and time to boot.
fn without_debug_information(places: &Places) -> Result<Vec<u8>> {
    let stripped = places.build.join("numalens-stripped");
    let (from, to) = (places.numalens.display().to_string(), stripped.display().to_string());
    command("strip", &["--strip-debug", "-o", &to, &from], &places.root)?;
    let content = fs::read(&stripped).into_diagnostic()?;
    fs::remove_file(&stripped).into_diagnostic()?;
    Ok(content)
}

fn build_numalens(root: &Path) -> Result<PathBuf> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    command(&cargo, &["build", "--release", "-q", "-p", "numalens"], root)?;
    let beside = std::env::current_exe().into_diagnostic()?;
    let path = beside.with_file_name("numalens");
    if !path.exists() {
        bail!("{} is not there after building it; name one with --numalens", path.display());
    }
    Ok(path)
}

/// The probes of all cases, which include the targets' header.
fn build_probes<'a>(places: &Places, cases: impl Iterator<Item = &'a Case>) -> Result<()> {
    let directory = places.build.join("probes");
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).into_diagnostic()?;
    for case in cases {
        if case.probe.exists() {
            let (source, output) = (case.probe.display().to_string(), directory.join(&case.name).display().to_string());
            let headers = places.root.join("targets").display().to_string();
            command(
                "cc",
                &["-O2", "-g", "-Wall", "-Wextra", "-pthread", "-I", &headers, "-o", &output, &source],
                &places.root,
            )?;
        }
    }
    Ok(())
}

fn command(program: &str, arguments: &[&str], directory: &Path) -> Result<()> {
    let status = Command::new(program)
        .args(arguments)
        .current_dir(directory)
        .status()
        .into_diagnostic()
        .wrap_err(program.to_owned())?;
    if status.success() { Ok(()) } else { bail!("{program} {} failed: {status}", arguments.join(" ")) }
}
