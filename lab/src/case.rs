//! Cases: a directory each under lab/cases, with `case.toml` and, where it does more than record a target, `guest.sh`,
//! the script that the guest runs. A `probe.c` is built and lies in the guest as $PROBES/NAME.

use miette::{IntoDiagnostic, Result, WrapErr, bail};
use numalens_lab::machine::Machine;
use serde::Deserialize;
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    about: String,
    machines: Vec<String>,
    /// Seconds that it may take in the guest.
    limit: u64,
    check: String,
    /// Run with the exact engine as well.
    #[serde(default)]
    exact: bool,
    /// Run with the sample engine.
    #[serde(default = "yes")]
    sample: bool,
    /// The case whose `probe.c` it runs; its own without.
    #[serde(default)]
    probe: Option<String>,
    #[serde(default)]
    recording: Option<Recording>,
}

fn yes() -> bool {
    true
}

/// A program to record.
#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields)]
pub struct Recording {
    /// The target; without it, the case's own probe.
    pub target: Option<String>,
    #[serde(default)]
    pub arguments: Vec<String>,
    /// `NAME=VALUE`, for the program.
    #[serde(default)]
    pub environment: Vec<String>,
    /// Options of `record`.
    #[serde(default)]
    pub options: Vec<String>,
    /// What stands before the program: `numactl --interleave=all`.
    #[serde(default)]
    pub under: Vec<String>,
    /// Tags of the lines whose class shares are compared.
    #[serde(default)]
    pub compare: Vec<String>,
    /// Tags of the lines that make the first touches. With the exact engine the accesses of such a line are spread over
    /// homes and classes as the pages are that it has touched, to the last one.
    #[serde(default)]
    pub placing: Vec<String>,
}

pub struct Case {
    pub name: String,
    pub about: String,
    pub machines: Vec<&'static Machine>,
    pub limit: u64,
    /// Name of the comparison, in checks::CHECKS.
    pub check: String,
    pub exact: bool,
    pub sample: bool,
    pub recording: Option<Recording>,
    /// The source of the program in the guest that is $PROBES/NAME, if there is one.
    pub probe: PathBuf,
    /// What the guest runs.
    pub script: String,
}

/// All cases, by name, with recordings made by `engine`.
pub fn all(cases: &Path, engine: &str) -> Result<Vec<Case>> {
    let mut directories: Vec<_> = fs::read_dir(cases).into_diagnostic()?.flatten().map(|entry| entry.path()).collect();
    directories.retain(|path| path.join("case.toml").exists());
    directories.sort();
    directories.into_iter().map(|directory| read(directory, engine)).collect()
}

fn read(directory: PathBuf, engine: &str) -> Result<Case> {
    let path = directory.join("case.toml");
    let text = fs::read_to_string(&path).into_diagnostic().wrap_err_with(|| path.display().to_string())?;
    let description: Description =
        toml::from_str(&text).into_diagnostic().wrap_err_with(|| path.display().to_string())?;
    let machines = description.machines.iter().map(|name| {
        Machine::find(name).ok_or_else(|| miette::miette!("{}: no machine is called {name}", path.display()))
    });
    let script = match (&description.recording, fs::read_to_string(directory.join("guest.sh"))) {
        (_, Ok(script)) => script,
        (Some(recording), Err(_)) => recording_script(recording, &directory),
        (None, Err(_)) => bail!("{}: needs [recording] or a guest.sh beside it", path.display()),
    };
    let script = script.replace("--engine sample", &format!("--engine {engine}"));
    let of = description.probe.as_ref().map(|case| directory.with_file_name(case));
    Ok(Case {
        probe: of.as_ref().unwrap_or(&directory).join("probe.c"),
        name: directory.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
        about: description.about,
        machines: machines.collect::<Result<_>>()?,
        limit: description.limit,
        check: description.check,
        exact: description.exact,
        sample: description.sample,
        recording: description.recording,
        script,
    })
}

/// Records one program, with its truth; reports are made from the profile on the host.
fn recording_script(recording: &Recording, case: &Path) -> String {
    let program = match &recording.target {
        Some(target) => format!("$TARGETS/{target}"),
        None => format!("$PROBES/{}", case.file_name().unwrap_or_default().to_string_lossy()),
    };
    format!(
        "exec env {} \"$NUMALENS\" record --engine sample -q -o profile.numalens {} -- {} \"{program}\" {} --truth truth.json\n",
        recording.environment.join(" "),
        recording.options.join(" "),
        recording.under.join(" "),
        recording.arguments.join(" ")
    )
}
