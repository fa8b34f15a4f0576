//! A recording against the truth that the recorded program left, page by page, thread by thread and share by share, and
//! the planted fault in the report. The profile was made in the guest; it is read and reported here.

use super::Context;
use miette::{IntoDiagnostic, Result, WrapErr, bail};
use numalens_lab::expectation::{self, compare_shares};
use numalens_lab::truth::{Truth, line_of};
use numalens_profile::Profile;
use numalens_profile::ids::{ProcessId, SiteId, ThreadId};
use numalens_profile::tables;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compares `profile.numalens` with `truth.json*`, all that the case left.
pub fn check(context: &Context) -> Result<Vec<String>> {
    let Some(recording) = &context.case.recording else { bail!("case.toml has no [recording]") };
    let path = context.directory.join("profile.numalens");
    let (report, mut wrong) = report(context, &path)?;
    if report["meta"]["virtual"] != false {
        wrong.push(format!("meta.virtual is {}", report["meta"]["virtual"]));
    }
    let source = source_of(context)?;
    let truths = Truth::read_all(context.directory, "truth.json")?;
    let seen = Seen::read(&path, &source)?;
    for truth in &truths {
        wrong.extend(seen.threads(truth));
        wrong.extend(seen.pages(truth, &source)?);
    }
    // Counts of the exact engine: the truth about shares is one of time.
    let counted = report["meta"]["engine"] == "exact";
    let tags: BTreeSet<&str> = recording.compare.iter().map(String::as_str).collect();
    for tag in tags.into_iter().filter(|_| !counted) {
        let counted = seen.classes.get(&line_of(&source, tag)?).cloned().unwrap_or_default();
        let seconds = Truth::seconds(&truths, tag, context.machine);
        wrong.extend(compare_shares(&seconds, &counted).into_iter().map(|doubt| format!("{tag}: {doubt}")));
    }
    for tag in recording.placing.iter().filter(|_| counted) {
        wrong.extend(seen.placing_accesses(&truths, tag, line_of(&source, tag)?));
    }
    if let Some(name) = &recording.target {
        let targets = context.places.root.join("targets");
        // Under another policy the target's own fault is not there.
        if recording.under.is_empty() {
            let expectation = expectation::of(&targets, name)?;
            wrong.extend(expectation.doubts(&report, &targets)?);
            if counted {
                wrong.extend(expectation.counted_shares(&report));
                wrong.extend(expectation.advice_doubts(&advice(context, &path)?, &targets)?);
            }
        }
        wrong.extend(same_output(context, name, &recording.arguments)?);
    }
    Ok(wrong)
}

/// On a host of one node: the machine is virtual, and the fault shows as the target's expectation has it.
pub fn check_virtual(context: &Context) -> Result<Vec<String>> {
    let Some((recording, name)) = context.case.recording.as_ref().and_then(|it| Some((it, it.target.as_ref()?))) else {
        bail!("case.toml has no [recording] of a target")
    };
    let (report, mut wrong) = report(context, &context.directory.join("profile.numalens"))?;
    if report["meta"]["virtual"] != true {
        wrong.push(format!("meta.virtual is {}", report["meta"]["virtual"]));
    }
    let targets = context.places.root.join("targets");
    let expectation = expectation::of(&targets, name)?;
    wrong.extend(expectation.doubts(&report, &targets)?);
    wrong.extend(expectation.virtual_shares(&report, context.directory, true)?);
    wrong.extend(same_output(context, name, &recording.arguments)?);
    Ok(wrong)
}

/// Sixty short processes and the shell that starts them are all in the profile, and it keeps its invariants.
pub fn check_short_processes(context: &Context) -> Result<Vec<String>> {
    let path = context.directory.join("profile.numalens");
    let (_, mut wrong) = report(context, &path)?;
    let profile = Profile::open(&path).into_diagnostic()?;
    let processes = profile.rows::<tables::Process>().into_diagnostic()?;
    if processes.len() < 61 {
        wrong.push(format!("the profile has {} processes of 61", processes.len()));
    }
    let running = processes.iter().filter(|process| process.end == "running").count();
    if running > 0 {
        wrong.push(format!("{running} processes are said to run still"));
    }
    let output = std::fs::read_to_string(context.directory.join("stdout")).into_diagnostic()?;
    if output != "done\n" {
        wrong.push(format!("the program's output is `{}`", output.trim()));
    }
    Ok(wrong)
}

/// The profile's report as JSON, and what `check` and `report` complain about.
fn report(context: &Context, path: &Path) -> Result<(serde_json::Value, Vec<String>)> {
    let mut wrong = Vec::new();
    wrong.extend(numalens(context, &["check".as_ref(), path.as_os_str()])?.1);
    let (report, errors) =
        numalens(context, &["report".as_ref(), path.as_os_str(), "--format".as_ref(), "json".as_ref()])?;
    wrong.extend(errors);
    if !wrong.is_empty() {
        bail!("{}", wrong.join("; "));
    }
    Ok((serde_json::from_str(&report).into_diagnostic().wrap_err("report --format json")?, wrong))
}

/// What `advise` says of the profile, as JSON.
fn advice(context: &Context, path: &Path) -> Result<serde_json::Value> {
    let (advice, complaint) =
        numalens(context, &["advise".as_ref(), path.as_os_str(), "--format".as_ref(), "json".as_ref()])?;
    if let Some(complaint) = complaint {
        bail!(complaint);
    }
    serde_json::from_str(&advice).into_diagnostic().wrap_err("advise --format json")
}

/// The source that tags are looked up in: the target's, or the probe's.
fn source_of(context: &Context) -> Result<PathBuf> {
    let target = context.case.recording.as_ref().and_then(|recording| recording.target.as_ref());
    Ok(match target {
        Some(name) => {
            let targets = context.places.root.join("targets");
            targets.join(expectation::of(&targets, name)?.source)
        }
        None => context.case.probe.clone(),
    })
}

/// Runs the host's numalens: its output, and what it complains about when it fails.
fn numalens(context: &Context, arguments: &[&std::ffi::OsStr]) -> Result<(String, Option<String>)> {
    let output = Command::new(&context.places.numalens).args(arguments).output().into_diagnostic()?;
    let complaint = (!output.status.success()).then(|| {
        let words: Vec<_> = arguments.iter().map(|word| word.to_string_lossy()).collect();
        format!("numalens {} failed: {}", words.join(" "), String::from_utf8_lossy(&output.stderr).trim())
    });
    Ok((String::from_utf8_lossy(&output.stdout).into_owned(), complaint))
}

/// A recorded target prints what it prints on the host, unrecorded.
fn same_output(context: &Context, target: &str, arguments: &[String]) -> Result<Option<String>> {
    let program = context.places.root.join("targets/build").join(target);
    let arguments = arguments.iter().filter(|argument| *argument != "--pin");
    let native = Command::new(&program).args(arguments).output().into_diagnostic()?;
    let recorded = std::fs::read(context.directory.join("stdout")).into_diagnostic()?;
    Ok((native.stdout != recorded).then(|| {
        format!(
            "printed `{}`, unrecorded `{}`",
            String::from_utf8_lossy(&recorded).trim(),
            String::from_utf8_lossy(&native.stdout).trim()
        )
    }))
}

/// What the profile holds, looked up by what the truth knows.
struct Seen {
    /// Where each page lay last, by process and page: at the end, or when the program gave it back.
    pages: BTreeMap<(ProcessId, u64), tables::PlacedPages>,
    processes: BTreeMap<u32, ProcessId>,
    /// By kernel's tid.
    threads: BTreeMap<u32, ThreadId>,
    placements: BTreeMap<ThreadId, Vec<tables::Placement>>,
    /// Lines of the source at which each site is, inlined frames included.
    lines: BTreeMap<SiteId, Vec<u32>>,
    /// Samples, or accesses where they were counted, by class at each line of the source.
    classes: BTreeMap<u32, BTreeMap<String, u64>>,
    /// The same by home.
    homes: BTreeMap<u32, BTreeMap<Option<u16>, u64>>,
}

impl Seen {
    fn read(path: &Path, source: &Path) -> Result<Seen> {
        let profile = Profile::open(path).into_diagnostic()?;
        let mut lines: BTreeMap<SiteId, Vec<u32>> = BTreeMap::new();
        for frame in profile.rows::<tables::Frame>().into_diagnostic()? {
            let here = frame.file.as_deref().is_some_and(|file| Path::new(file).file_name() == source.file_name());
            if let (true, Some(line)) = (here, frame.line) {
                lines.entry(frame.site).or_default().push(line);
            }
        }
        let mut runs = profile.rows::<tables::PlacedPages>().into_diagnostic()?;
        runs.sort_by_key(|run| (run.bin_to.is_none(), run.bin_to, run.bin_from));
        let mut pages = BTreeMap::new();
        for run in runs {
            pages.extend((0..run.count).map(|page| ((run.process, run.page.0 + page), run.clone())));
        }
        let mut classes: BTreeMap<u32, BTreeMap<String, u64>> = BTreeMap::new();
        let mut homes: BTreeMap<u32, BTreeMap<Option<u16>, u64>> = BTreeMap::new();
        for access in profile.rows::<tables::SiteAccess>().into_diagnostic()? {
            for line in lines.get(&access.site).into_iter().flatten().collect::<BTreeSet<_>>() {
                let count = if access.samples > 0 { u64::from(access.samples) } else { access.reads + access.writes };
                *classes.entry(*line).or_default().entry(access.class.word().to_owned()).or_default() += count;
                *homes.entry(*line).or_default().entry(access.home.map(|home| home.0)).or_default() += count;
            }
        }
        let mut placements: BTreeMap<ThreadId, Vec<tables::Placement>> = BTreeMap::new();
        for placement in profile.rows::<tables::Placement>().into_diagnostic()? {
            placements.entry(placement.thread).or_default().push(placement);
        }
        Ok(Seen {
            pages,
            processes: profile
                .rows::<tables::Process>()
                .into_diagnostic()?
                .into_iter()
                .map(|row| (row.pid, row.process))
                .collect(),
            threads: profile
                .rows::<tables::Thread>()
                .into_diagnostic()?
                .into_iter()
                .map(|row| (row.tid, row.thread))
                .collect(),
            placements,
            lines,
            classes,
            homes,
        })
    }

    /// The accesses that touch pages first, of which there are as many to each page, by the homes of the pages. A page
    /// that the line shares with others counts as much as it holds of the array.
    fn placing_accesses(&self, truths: &[Truth], tag: &str, line: u32) -> Vec<String> {
        let mut bytes: BTreeMap<Option<u16>, u64> = BTreeMap::new();
        for truth in truths {
            for touch in truth.touches.iter().filter(|touch| touch.tag == tag) {
                for array in truth.arrays.iter().filter(|array| array.name == touch.array) {
                    let (from, to) = (array.base + touch.from, array.base + touch.to);
                    for (page, home) in array.pages() {
                        let (start, end) = (page * array.page_size, (page + 1) * array.page_size);
                        *bytes.entry(home).or_default() += end.min(to).saturating_sub(start.max(from));
                    }
                }
            }
        }
        bytes.retain(|_, bytes| *bytes > 0);
        let counted = self.homes.get(&line).cloned().unwrap_or_default();
        let (all_bytes, all) = (bytes.values().sum::<u64>(), counted.values().sum::<u64>());
        let wanted: BTreeMap<Option<u16>, u64> = bytes
            .iter()
            .map(|(&home, &bytes)| (home, (u128::from(bytes) * u128::from(all) / u128::from(all_bytes)) as u64))
            .collect();
        // The line reads a few variables of its own besides.
        const MORE: u64 = 16;
        let agree = |home: &Option<u16>| {
            let of = |counts: &BTreeMap<Option<u16>, u64>| counts.get(home).copied().unwrap_or(0);
            of(&counted).abs_diff(of(&wanted)) <= MORE
        };
        let mut wrong = Vec::new();
        if all == 0 || !wanted.keys().chain(counted.keys()).all(agree) {
            wrong.push(format!("{tag}: accesses by home are {counted:?}, the pages make them {wanted:?}"));
        }
        wrong
    }

    /// Every placement that a thread saw itself in is in its pinning log.
    fn threads(&self, truth: &Truth) -> Vec<String> {
        let mut wrong = Vec::new();
        for thread in &truth.threads {
            let log = self.threads.get(&thread.tid).and_then(|id| self.placements.get(id));
            let logged: Vec<_> =
                log.into_iter().flatten().map(|row| (row.cpus.as_str(), row.node.map(|node| node.0))).collect();
            if !logged.contains(&(thread.cpus.as_str(), thread.node)) {
                wrong.push(format!(
                    "thread {}: CPUs {}, node {:?}; placements have {logged:?}",
                    thread.tid, thread.cpus, thread.node
                ));
            }
        }
        wrong
    }

    /// Home, first toucher and line of every page of the arrays.
    fn pages(&self, truth: &Truth, source: &Path) -> Result<Vec<String>> {
        let Some(process) = self.processes.get(&truth.pid) else {
            return Ok(vec![format!("process {} is not in the profile", truth.pid)]);
        };
        let mut wrong = Vec::new();
        for array in &truth.arrays {
            let (mut homes, mut touchers, mut lines, mut pages) = (0u64, 0u64, 0u64, 0u64);
            let mut example = String::new();
            let touches: Vec<_> = truth.touches.iter().filter(|touch| touch.array == array.name).collect();
            let lines_of = touches.iter().map(|touch| line_of(source, &touch.tag)).collect::<Result<Vec<_>>>()?;
            for (page, home) in array.pages().filter(|(page, _)| array.whole(*page)) {
                pages += 1;
                let found = self.pages.get(&(*process, page));
                let at = page * array.page_size - array.base;
                // Who comes first to a page that two threads share is not known.
                let touch = touches.iter().position(|touch| touch.from <= at && at + array.page_size <= touch.to);
                let tid = touch
                    .and_then(|touch| truth.threads.iter().find(|thread| thread.thread == touches[touch].thread))
                    .map(|thread| thread.tid);
                let home_differs = found.and_then(|row| row.home).map(|home| home.0) != home;
                let toucher_differs = tid.is_some()
                    && found.and_then(|row| row.thread) != tid.and_then(|tid| self.threads.get(&tid).copied());
                let line = touch.map(|touch| lines_of[touch]);
                let sites = found.and_then(|row| row.site).and_then(|site| self.lines.get(&site));
                let line_differs = line.is_some_and(|line| !sites.is_some_and(|lines| lines.contains(&line)));
                homes += u64::from(home_differs);
                touchers += u64::from(toucher_differs);
                lines += u64::from(line_differs);
                if (home_differs || toucher_differs || line_differs) && example.is_empty() {
                    example = format!(
                        "page {page:#x}: home {home:?}, thread {tid:?}, line {line:?}, but {found:?} at lines {sites:?}"
                    );
                }
            }
            if homes + touchers + lines > 0 {
                wrong.push(format!(
                    "{}: of {pages} pages {homes} differ in home, {touchers} in first toucher, {lines} in first-touch line; {example}",
                    array.name
                ));
            }
        }
        Ok(wrong)
    }
}
