//! The results of a run, as a page and as JSON.

use super::Options;
use super::measure::Run;
use super::statistics::{
    geometric_mean, mean_and_interval, median, range_of_ratios, ratio_of_medians, ratio_of_minima,
};
use serde::Serialize;
use serde_json::{Value, json};
use std::fmt::{self, Write};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What of the machine belongs to its figures; nothing that names it.
#[derive(Clone, Serialize, Debug)]
pub struct Host {
    pub cpu: String,
    pub cpus: usize,
    pub memory_gib: u64,
    pub kernel: String,
    /// In a virtual machine, where time may be taken away unseen.
    pub is_virtual: bool,
}

impl Host {
    /// Reads /proc.
    ///
    /// # Errors
    /// /proc cannot be read.
    pub fn of_this_machine() -> io::Result<Self> {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo")?;
        let field = |text: &str, name: &str| -> Option<String> {
            let line = text.lines().find(|line| line.starts_with(name))?;
            line.split_once(':').map(|(_, value)| value.trim().to_owned())
        };
        let memory = field(&fs::read_to_string("/proc/meminfo")?, "MemTotal");
        let memory_kib: u64 = memory.and_then(|text| text.split(' ').next()?.parse().ok()).unwrap_or(0);
        let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
        Ok(Host {
            cpu: field(&cpuinfo, "model name").unwrap_or_else(|| "unknown processor".to_owned()),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            memory_gib: memory_kib.div_ceil(1 << 20),
            // The numbers only: what a distribution or a builder appends may name somebody.
            kernel: release.trim().split(['-', '+']).next().unwrap_or_default().to_owned(),
            is_virtual: field(&cpuinfo, "flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
        })
    }

    /// For file names: the processor's name in letters, digits and dashes.
    fn slug(&self) -> String {
        let words = self.cpu.replace("(R)", " ").replace("(TM)", " ").to_lowercase();
        format!("{}-{}cpu", slug(&words), self.cpus)
    }
}

/// Letters, digits and dashes.
fn slug(text: &str) -> String {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-")
}

/// The load averages of 1, 5 and 15 minutes, as the kernel writes them.
pub fn load_average() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

/// One program: its runs, in pairs.
#[derive(Clone, Debug, Default)]
pub struct ProgramResult {
    pub name: String,
    pub about: String,
    pub worst_case: bool,
    pub native_elapsed: Vec<f64>,
    pub native_processor: Vec<f64>,
    pub recorded_elapsed: Vec<f64>,
    pub recorded_processor: Vec<f64>,
    pub native_peak_kib: u64,
    pub collector_peak_kib: Option<u64>,
    pub profile_bytes: u64,
    pub failure: Option<String>,
    /// Its ratios are not part of the means.
    pub is_start: bool,
}

impl ProgramResult {
    pub fn new(name: &str, about: &str, worst_case: bool) -> Self {
        ProgramResult { name: name.to_owned(), about: about.to_owned(), worst_case, ..ProgramResult::default() }
    }

    /// Adds a pair of runs.
    pub fn add(&mut self, native: &Run, recorded: &Run) {
        self.native_elapsed.push(native.elapsed_s);
        self.native_processor.push(native.processor_s);
        self.recorded_elapsed.push(recorded.elapsed_s);
        self.recorded_processor.push(recorded.processor_s);
        self.native_peak_kib = self.native_peak_kib.max(native.peak_kib.unwrap_or(0));
        self.collector_peak_kib = self.collector_peak_kib.max(recorded.peak_kib);
    }

    fn elapsed_ratio(&self) -> Option<f64> {
        ratio_of_medians(&self.recorded_elapsed, &self.native_elapsed).filter(|_| self.failure.is_none())
    }

    /// Of the least disturbed runs.
    fn least_ratio(&self) -> Option<f64> {
        ratio_of_minima(&self.recorded_elapsed, &self.native_elapsed).filter(|_| self.failure.is_none())
    }

    fn processor_ratio(&self) -> Option<f64> {
        ratio_of_medians(&self.recorded_processor, &self.native_processor).filter(|_| self.failure.is_none())
    }

    /// One line for the terminal.
    pub fn in_short(&self) -> String {
        match &self.failure {
            Some(failure) => format!("failed: {failure}"),
            None => format!(
                "elapsed {} (least {}), processor time {}, collector's peak {}",
                times(self.elapsed_ratio()),
                times(self.least_ratio()),
                times(self.processor_ratio()),
                mib(self.collector_peak_kib)
            ),
        }
    }
}

/// A run of the suite.
#[derive(Clone, Debug)]
pub struct Results {
    pub date: String,
    pub host: Host,
    pub version: String,
    pub engine: String,
    /// The list of programs, where it is not the engine's own.
    pub list: Option<String>,
    /// Options of `record`, besides.
    pub with: Vec<String>,
    pub rounds: usize,
    pub load_before: String,
    pub load_after: String,
    pub programs: Vec<ProgramResult>,
    /// Programs that were left out, and what is to be installed.
    pub skipped: Vec<(String, String)>,
}

impl Results {
    pub fn new(host: Host, version: String, options: &Options) -> Self {
        let date = Command::new("date").args(["-u", "+%F"]).output();
        let date = date
            .map_or_else(|_| "undated".to_owned(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
        let load = load_average();
        Results {
            date,
            host,
            version,
            engine: options.engine.clone(),
            list: options.suite.clone(),
            with: options.with.clone(),
            rounds: options.rounds,
            load_before: load.clone(),
            load_after: load,
            programs: Vec::new(),
            skipped: Vec::new(),
        }
    }

    /// Of all programs but the worst cases.
    fn geometric_mean(&self, ratio: impl Fn(&ProgramResult) -> Option<f64>) -> Option<f64> {
        let programs = self.programs.iter().filter(|program| !program.worst_case && !program.is_start);
        geometric_mean(&programs.filter_map(ratio).collect::<Vec<_>>())
    }

    /// Over the pairs of runs of all programs but the worst cases: mean and 95 % interval.
    fn mean_of_pairs(&self) -> Option<(f64, f64, f64)> {
        let programs = self
            .programs
            .iter()
            .filter(|program| !program.worst_case && !program.is_start && program.failure.is_none());
        let pairs = programs.flat_map(|program| program.recorded_elapsed.iter().zip(&program.native_elapsed));
        mean_and_interval(&pairs.map(|(recorded, native)| recorded / native).collect::<Vec<_>>())
    }

    fn geometric_mean_of_all(&self, ratio: impl Fn(&ProgramResult) -> Option<f64>) -> Option<f64> {
        let programs = self.programs.iter().filter(|program| !program.is_start);
        geometric_mean(&programs.filter_map(ratio).collect::<Vec<_>>())
    }

    fn collector_peak_kib(&self) -> Option<u64> {
        self.programs.iter().filter_map(|program| program.collector_peak_kib).max()
    }
}

/// The page and the JSON of a run; numbered when there is one of the same day.
pub fn names(folder: &Path, results: &Results) -> Vec<PathBuf> {
    let engine = if results.engine == "sample" { "" } else { "-exact" };
    let list = results.list.as_ref().map(|list| format!("-{list}")).unwrap_or_default();
    let with: String = results.with.iter().map(|option| format!("-{}", slug(option))).collect();
    let stem = format!("{}-{}{engine}{list}{with}", results.date, results.host.slug());
    let numbered = std::iter::once(stem.clone()).chain((2..).map(|number| format!("{stem}-{number}")));
    let mut free = numbered.filter(|stem| !folder.join(format!("{stem}.md")).exists());
    let stem = free.next().unwrap_or(stem);
    [".md", ".json"].map(|end| folder.join(format!("{stem}{end}"))).to_vec()
}

/// Writes the results, the whole of them each time.
///
/// # Errors
/// A file cannot be written.
pub fn write(results: &Results, files: &[PathBuf]) -> io::Result<()> {
    for file in files {
        file.parent().map_or(Ok(()), fs::create_dir_all)?;
        let is_json = file.extension().is_some_and(|end| end == "json");
        fs::write(file, if is_json { format!("{:#}\n", as_json(results)) } else { as_page(results) })?;
    }
    Ok(())
}

fn times(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}x"))
}

fn mib(kib: Option<u64>) -> String {
    kib.map_or_else(|| "-".to_owned(), |kib| format!("{} MiB", kib.div_ceil(1024)))
}

fn as_page(results: &Results) -> String {
    let mut page = String::new();
    // Writing into memory does not fail.
    let _ = write_head(&mut page, results);
    let _ = write_table(&mut page, results);
    let _ = write_beside_the_table(&mut page, results);
    page
}

/// What was run, where, and what the columns mean.
fn write_head(page: &mut String, results: &Results) -> fmt::Result {
    let Host { cpu, cpus, memory_gib, kernel, is_virtual } = &results.host;
    let virtual_note = if *is_virtual { ", a virtual machine" } else { "" };
    let with: String = results.with.iter().map(|option| format!(" {option}")).collect();
    writeln!(page, "# What `numalens record --engine {}{with}` costs, {}\n", results.engine, results.date)?;
    writeln!(page, "{}; {cpu}, {cpus} CPUs, {memory_gib} GiB, Linux {kernel}{virtual_note}.", results.version)?;
    writeln!(
        page,
        "Rounds: {}, native and recorded in turn. Load average before {}, after {}.",
        results.rounds, results.load_before, results.load_after
    )?;
    page.push_str(
        "Ratios are of medians, recorded by native; in brackets the range over the pairs. *Least* is the ratio of the least\n\
         elapsed times: on a machine that does other things as well, the better figure. Processor time is that of program\n\
         and collector together. The collector's peak is its own, without the program's.\n\n",
    );
    Ok(())
}

/// A row for each program that ran, and the means.
fn write_table(page: &mut String, results: &Results) -> fmt::Result {
    page.push_str(
        "| program | elapsed, native | elapsed | least | processor, native | processor time | program's peak | collector's peak | profile |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for program in results.programs.iter().filter(|program| program.failure.is_none()) {
        write_row(page, program)?;
    }
    writeln!(
        page,
        "| geometric mean without worst cases | | {} | {} | | {} | | {} at most | |",
        times(results.geometric_mean(ProgramResult::elapsed_ratio)),
        times(results.geometric_mean(ProgramResult::least_ratio)),
        times(results.geometric_mean(ProgramResult::processor_ratio)),
        mib(results.collector_peak_kib())
    )?;
    writeln!(
        page,
        "| geometric mean of all | | {} | {} | | {} | | | |",
        times(results.geometric_mean_of_all(ProgramResult::elapsed_ratio)),
        times(results.geometric_mean_of_all(ProgramResult::least_ratio)),
        times(results.geometric_mean_of_all(ProgramResult::processor_ratio)),
    )
}

fn write_row(page: &mut String, program: &ProgramResult) -> fmt::Result {
    let of = |ratio, of: &[f64], by: &[f64]| {
        let range = range_of_ratios(of, by).map(|(low, high)| format!(" ({low:.2} to {high:.2})"));
        times(ratio) + &range.unwrap_or_default()
    };
    let native = |values: &[f64]| median(values).map_or_else(String::new, |seconds| format!("{seconds:.2} s"));
    writeln!(
        page,
        "| {}{} | {} | {} | {} | {} | {} | {} | {} | {} |",
        program.name,
        if program.worst_case { " (worst case)" } else { "" },
        native(&program.native_elapsed),
        of(program.elapsed_ratio(), &program.recorded_elapsed, &program.native_elapsed),
        times(program.least_ratio()),
        native(&program.native_processor),
        of(program.processor_ratio(), &program.recorded_processor, &program.native_processor),
        mib(Some(program.native_peak_kib)),
        mib(program.collector_peak_kib),
        mib(Some(program.profile_bytes.div_ceil(1024))),
    )
}

/// The interval of the mean, the start of programs, and what was not counted.
fn write_beside_the_table(page: &mut String, results: &Results) -> fmt::Result {
    if let Some((mean, low, high)) = results.mean_of_pairs() {
        writeln!(
            page,
            "\nOver all pairs of runs but those of worst cases, elapsed: {mean:.3}x, 95 % interval {low:.3} to {high:.3}."
        )?;
    }
    for program in results.programs.iter().filter(|program| program.is_start && program.failure.is_none()) {
        let [native, recorded] = [&program.native_elapsed, &program.recorded_elapsed].map(|times| median(times));
        if let (Some(native), Some(recorded)) = (native, recorded) {
            let (native, recorded) = (native * 1e3, recorded * 1e3);
            let name = &program.name;
            writeln!(
                page,
                "\nThe start of {name}, not in the mean: {native:.0} ms natively, {recorded:.0} ms recorded."
            )?;
        }
    }
    for program in &results.programs {
        if let Some(failure) = &program.failure {
            writeln!(page, "\n{} failed and is not counted: {failure}", program.name)?;
        }
    }
    for (program, command) in &results.skipped {
        writeln!(page, "\n{program} was skipped: {command}.")?;
    }
    Ok(())
}

fn as_json(results: &Results) -> Value {
    let programs: Vec<Value> = results
        .programs
        .iter()
        .map(|program| {
            json!({
                "name": program.name,
                "about": program.about,
                "failure": program.failure,
                "worst_case": program.worst_case,
                "is_start": program.is_start,
                "elapsed_ratio": program.elapsed_ratio(),
                "least_elapsed_ratio": program.least_ratio(),
                "processor_ratio": program.processor_ratio(),
                "native_elapsed_s": program.native_elapsed,
                "recorded_elapsed_s": program.recorded_elapsed,
                "native_processor_s": program.native_processor,
                "recorded_processor_s": program.recorded_processor,
                "program_peak_kib": program.native_peak_kib,
                "collector_peak_kib": program.collector_peak_kib,
                "profile_bytes": program.profile_bytes,
            })
        })
        .collect();
    let skipped = results.skipped.iter().map(|(name, command)| json!({ "name": name, "missing": command }));
    json!({
        "schema": 1,
        "date": results.date,
        "version": results.version,
        "engine": results.engine,
        "host": {
            "cpu": results.host.cpu,
            "cpus": results.host.cpus,
            "memory_gib": results.host.memory_gib,
            "kernel": results.host.kernel,
            "is_virtual": results.host.is_virtual,
        },
        "rounds": results.rounds,
        "load_average": { "before": results.load_before, "after": results.load_after },
        "mean_of_pairs": results.mean_of_pairs().map(|(mean, low, high)| json!({ "mean": mean, "low": low, "high": high })),
        "geometric_mean": {
            "elapsed": results.geometric_mean(ProgramResult::elapsed_ratio),
            "least_elapsed": results.geometric_mean(ProgramResult::least_ratio),
            "processor": results.geometric_mean(ProgramResult::processor_ratio),
            "elapsed_of_all": results.geometric_mean_of_all(ProgramResult::elapsed_ratio),
        },
        "collector_peak_kib": results.collector_peak_kib(),
        "programs": programs,
        "skipped": skipped.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results() -> Results {
        let host = Host {
            cpu: "Maker(R) Chip(TM) 12 @ 2.5GHz".to_owned(),
            cpus: 8,
            memory_gib: 4,
            kernel: "6.1.0".to_owned(),
            is_virtual: true,
        };
        let mut results =
            Results::new(host, "numalens 1".to_owned(), &Options::parse(&["--rounds", "2"], Path::new("/")).unwrap());
        let run =
            |elapsed_s, peak| Run { elapsed_s, processor_s: elapsed_s / 2.0, peak_kib: Some(peak), failure: None };
        for (name, factor, worst_case) in [("a", 4.0, false), ("b", 1.0, false), ("w", 0.5, true)] {
            let mut program = ProgramResult::new(name, "what it is", worst_case);
            program.add(&run(1.0, 10_240), &run(factor, 2048));
            program.add(&run(3.0, 5_120), &run(3.0 * factor, 1024));
            results.programs.push(program);
        }
        results
            .programs
            .push(ProgramResult { failure: Some("exit status: 1".to_owned()), ..ProgramResult::new("c", "", false) });
        results.skipped.push(("d".to_owned(), "dd is not installed: apt-get install dd".to_owned()));
        results
    }

    #[test]
    fn a_page_has_every_program_and_the_mean_of_those_that_ran() {
        let page = as_page(&results());
        assert!(
            page.contains(
                "| a | 2.00 s | 4.00x (4.00 to 4.00) | 4.00x | 1.00 s | 4.00x (4.00 to 4.00) | 10 MiB | 2 MiB | 0 MiB |\n"
            ),
            "{page}"
        );
        assert!(page.contains("| w (worst case) | 2.00 s | 0.50x"), "{page}");
        let mean = "| geometric mean without worst cases | | 2.00x | 2.00x | | 2.00x | | 2 MiB at most | |\n";
        assert!(page.contains(mean), "{page}");
        assert!(page.contains("\nOver all pairs of runs but those of worst cases, elapsed: 2.000x, 95 %"), "{page}");
        assert!(page.contains("| geometric mean of all | | 1.26x | 1.26x | | 1.26x | | | |\n"), "{page}");
        assert!(
            page.ends_with("\nd was skipped: dd is not installed: apt-get install dd.\n")
                && page.contains("\nc failed and is not counted: exit status: 1\n"),
            "{page}"
        );
    }

    #[test]
    fn json_has_the_runs() {
        let json = as_json(&results());
        assert_eq!(json["schema"], 1);
        assert_eq!(json["programs"][0]["recorded_elapsed_s"], json!([4.0, 12.0]));
        assert_eq!(json["programs"][3]["elapsed_ratio"], Value::Null);
        assert_eq!(json["geometric_mean"]["elapsed"], 2.0);
    }

    #[test]
    fn files_are_named_by_date_and_processor() {
        let folder = tempfile::tempdir().unwrap();
        let mut results = results();
        results.date = "2020-02-03".to_owned();
        let files = names(folder.path(), &results);
        assert_eq!(files[0].file_name().unwrap(), "2020-02-03-maker-chip-12-2-5ghz-8cpu.md");
        write(&results, &files).unwrap();
        assert_eq!(
            names(folder.path(), &results)[1].file_name().unwrap(),
            "2020-02-03-maker-chip-12-2-5ghz-8cpu-2.json"
        );
    }
}
