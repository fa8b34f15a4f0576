//! `cargo xtask bench --suite scale`: what grows with threads and pages.
//!
//! A program says that it is done by its first line on standard output. From there to the end of `numalens record` is
//! what a user waits for. What the recorder takes meanwhile is looked at all the time: its own memory, without what it
//! maps of files, and the session file, which is memory too.

use super::measure::{self, Measured};
use super::report::{Host, load_average};
use super::statistics::median;
use super::{prepare, suite::Program};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How often the recorder is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// What one program took, in seconds and MiB.
#[derive(Serialize, Default, Debug)]
pub struct Row {
    name: String,
    about: String,
    native_s: Vec<f64>,
    /// Until it was done, under the recorder.
    program_s: Vec<f64>,
    /// Until the recording had ended.
    ended_s: Vec<f64>,
    collector_mib: f64,
    session_file_mib: f64,
    profile_mib: f64,
    report_s: Vec<f64>,
    report_mib: f64,
    advise_s: Vec<f64>,
    advise_mib: f64,
    failure: Option<String>,
}

/// Measures a program in so many rounds.
///
/// # Errors
/// Something cannot be started or read.
pub fn measure(
    program: &Program,
    command: &[String],
    numalens: &Path,
    folder: &Path,
    rounds: usize,
) -> io::Result<Row> {
    let mut row = Row { name: program.name.clone(), about: program.about.clone(), ..Row::default() };
    let recording = folder.join("recording.numalens");
    for _ in 0..rounds {
        let native = measure::run(command, folder, &BTreeMap::new(), Measured::WholeTree)?;
        let recorded = Recorded::run(numalens, command, folder)?;
        row.failure = native.failure.or(recorded.failure);
        if row.failure.is_some() {
            return Ok(row);
        }
        row.native_s.push(native.elapsed_s);
        row.program_s.push(recorded.program_s);
        row.ended_s.push(recorded.ended_s);
        row.collector_mib = row.collector_mib.max(recorded.collector_mib);
        row.session_file_mib = row.session_file_mib.max(recorded.session_file_mib);
        row.profile_mib = prepare::bytes_of(&recording)? as f64 / f64::from(1 << 20);
        for (command, times, peak) in
            [("report", &mut row.report_s, &mut row.report_mib), ("advise", &mut row.advise_s, &mut row.advise_mib)]
        {
            let words = [&*numalens.to_string_lossy(), command, "recording.numalens"].map(str::to_owned);
            let run = measure::run(&words, folder, &BTreeMap::new(), Measured::WholeTree)?;
            times.push(run.elapsed_s);
            *peak = run.peak_kib.map_or(*peak, |kib| peak.max(kib as f64 / 1024.0));
            row.failure = row.failure.or(run.failure);
        }
    }
    Ok(row)
}

/// A recording.
#[derive(Default)]
struct Recorded {
    program_s: f64,
    ended_s: f64,
    collector_mib: f64,
    session_file_mib: f64,
    failure: Option<String>,
}

impl Recorded {
    fn run(numalens: &Path, command: &[String], folder: &Path) -> io::Result<Self> {
        let begin = Instant::now();
        let mut child = Command::new(numalens)
            .args(["record", "--quiet", "--force", "-o", "recording.numalens", "--"])
            .args(command)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let output = child.stdout.take().ok_or_else(|| io::Error::other("no standard output"))?;
        let reader = std::thread::spawn(move || {
            let mut line = String::new();
            let read = BufReader::new(output).read_line(&mut line);
            read.map(|_| begin.elapsed().as_secs_f64())
        });
        let mut recorded = Recorded::default();
        let status = loop {
            match child.try_wait()? {
                Some(status) => break status,
                None => recorded.look(child.id()),
            }
            std::thread::sleep(LOOK);
        };
        recorded.ended_s = begin.elapsed().as_secs_f64();
        recorded.program_s = reader.join().map_err(|_| io::Error::other("the reader has failed"))??;
        recorded.failure = (!status.success()).then(|| format!("numalens record: {status}"));
        Ok(recorded)
    }

    /// Looks at what the recorder takes.
    fn look(&mut self, pid: u32) {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let own = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let own: Option<f64> = own.and_then(|kib| kib.trim().strip_suffix(" kB")?.trim().parse().ok());
        self.collector_mib = self.collector_mib.max(own.unwrap_or(0.0) / 1024.0);
        for file in fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten() {
            let is_session = |path: std::path::PathBuf| path.to_string_lossy().contains("memfd:numalens-session");
            if fs::read_link(file.path()).is_ok_and(is_session)
                && let Ok(metadata) = fs::metadata(file.path())
            {
                let mib = metadata.blocks() as f64 * 512.0 / f64::from(1 << 20);
                self.session_file_mib = self.session_file_mib.max(mib);
            }
        }
    }
}

/// A run of the suite.
#[derive(Serialize)]
pub struct Results {
    schema: u32,
    date: String,
    version: String,
    host: Host,
    rounds: usize,
    load_before: String,
    load_after: String,
    pub programs: Vec<Row>,
}

impl Results {
    /// Of which nothing was measured yet.
    pub fn new(of: &super::report::Results) -> Self {
        Results {
            schema: 1,
            date: of.date.clone(),
            version: of.version.clone(),
            host: of.host.clone(),
            rounds: of.rounds,
            load_before: of.load_before.clone(),
            load_after: of.load_before.clone(),
            programs: Vec::new(),
        }
    }

    /// Writes the page and the JSON, the whole of them.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(&mut self, files: &[std::path::PathBuf]) -> io::Result<()> {
        self.load_after = load_average();
        for file in files {
            let is_json = file.extension().is_some_and(|end| end == "json");
            let json = || serde_json::to_string_pretty(self).map(|text| text + "\n").map_err(io::Error::other);
            fs::write(file, if is_json { json()? } else { self.page() })?;
        }
        Ok(())
    }

    fn page(&self) -> String {
        let mut page = String::new();
        // Writing into memory does not fail.
        let _ = self.write_table(&mut page);
        let _ = self.draw(&mut page);
        page
    }

    fn write_table(&self, page: &mut String) -> fmt::Result {
        let Host { cpu, cpus, memory_gib, kernel, .. } = &self.host;
        writeln!(page, "# What grows with threads and pages, {}\n", self.date)?;
        writeln!(page, "{}; {cpu}, {cpus} CPUs, {memory_gib} GiB, Linux {kernel}. Exact engine.", self.version)?;
        writeln!(
            page,
            "Medians of {} rounds. Load average before {}, after {}.\n",
            self.rounds, self.load_before, self.load_after
        )?;
        page.push_str(
            "The program is done at *program*, its recording at *ended*. Collector: its own memory, without the session\n\
             file, which is beside it. Both are looked at every 20 ms.\n\n\
             | program | natively | program | ended | collector | session file | profile | `report` | `advise` |\n\
             |---|---:|---:|---:|---:|---:|---:|---:|---:|\n",
        );
        for row in &self.programs {
            if let Some(failure) = &row.failure {
                writeln!(page, "| {} | failed: {failure} | | | | | | | |", row.name)?;
                continue;
            }
            let seconds = |times: &[f64]| median(times).unwrap_or(0.0);
            let [native, program, ended] = [&row.native_s, &row.program_s, &row.ended_s].map(|times| seconds(times));
            let [report, advise] = [&row.report_s, &row.advise_s].map(|times| seconds(times));
            writeln!(
                page,
                "| {} | {native:.2} s | {program:.2} s | {ended:.2} s | {:.0} MiB | {:.0} MiB | {:.1} MiB | \
                 {report:.2} s, {:.0} MiB | {advise:.2} s, {:.0} MiB |",
                row.name, row.collector_mib, row.session_file_mib, row.profile_mib, row.report_mib, row.advise_mib
            )?;
        }
        Ok(())
    }

    /// The growth: a bar for each program, as long as what collector and session file take.
    fn draw(&self, page: &mut String) -> fmt::Result {
        const MIB_OF_A_SIGN: f64 = 10.0;
        page.push_str("\nCollector `#` and session file `=`, 10 MiB each:\n\n```text\n");
        for row in self.programs.iter().filter(|row| row.failure.is_none()) {
            let signs = |mib: f64, sign: &str| sign.repeat((mib / MIB_OF_A_SIGN).round() as usize);
            let (collector, file) = (signs(row.collector_mib, "#"), signs(row.session_file_mib, "="));
            writeln!(page, "{:>10}  {collector}{file}", row.name)?;
        }
        page.push_str("```\n");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_a_row_and_a_bar_for_each_program() {
        let host =
            Host { cpu: "Chip".to_owned(), cpus: 2, memory_gib: 4, kernel: "6.1.0".to_owned(), is_virtual: false };
        let row = Row {
            name: "1GiB-8".to_owned(),
            native_s: vec![1.0, 3.0],
            program_s: vec![4.0],
            ended_s: vec![5.0],
            collector_mib: 31.0,
            session_file_mib: 20.0,
            report_s: vec![0.1],
            ..Row::default()
        };
        let failed = Row { name: "x".to_owned(), failure: Some("signal: 9".to_owned()), ..Row::default() };
        let results = Results {
            schema: 1,
            date: "2020-02-03".to_owned(),
            version: "numalens 1".to_owned(),
            host,
            rounds: 2,
            load_before: String::new(),
            load_after: String::new(),
            programs: vec![row, failed],
        };
        let page = results.page();
        let expected =
            "| 1GiB-8 | 2.00 s | 4.00 s | 5.00 s | 31 MiB | 20 MiB | 0.0 MiB | 0.10 s, 0 MiB | 0.00 s, 0 MiB |";
        assert!(page.contains(expected), "{page}");
        assert!(page.contains("| x | failed: signal: 9 |") && page.contains("    1GiB-8  ###==\n```"), "{page}");
    }

    #[test]
    fn a_recorder_is_looked_at() {
        let mut recorded = Recorded::default();
        recorded.look(std::process::id());
        assert!(recorded.collector_mib > 0.1 && recorded.session_file_mib == 0.0);
    }
}
