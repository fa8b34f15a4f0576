//! Runs a guest: starts qemu, follows its console, and unpacks what the cases left on its disk.
//!
//! The guest speaks in lines that start with `@LAB` (guest/init). Whatever happens to it (a panic, a hang, a case that
//! takes the machine down) ends in a message for the cases concerned, with the last lines of the console.

use miette::{IntoDiagnostic, Result, WrapErr, miette};
use numalens_lab::machine::Machine;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Four seconds on an idle host; a busy one may take many times that.
const BOOT: Duration = Duration::from_secs(180);
/// What a case may take beyond its own limit, which the guest enforces: packing its results.
const GRACE: Duration = Duration::from_secs(60);
const DISK_BYTES: u64 = 2 << 30;
/// The processor for an engine. An x86-64 with SSE4 and no AVX, what it lacks, emulation would do slowly; but the exact
/// engine needs BMI2, which comes with all that emulation can do. (Without five levels of page tables.)
pub fn processor(engine: &str) -> &'static str {
    if engine == "exact" { "max,-la57" } else { "Nehalem" }
}

/// How one case ended in the guest.
pub struct Ran {
    /// Exit status of its script; 137 when the time limit struck.
    pub code: i32,
    pub seconds: f64,
}

/// How the guest ended.
pub struct Boot {
    /// Seconds until the first case could start.
    pub up: Option<f64>,
    pub cases: BTreeMap<String, Ran>,
    /// Why not all cases ran.
    pub failure: Option<String>,
}

/// Boots `machine` and runs the cases, each with its time limit in the guest. Results are unpacked to `directory/CASE`;
/// the console goes to `directory/console.log`.
pub fn run(
    machine: &Machine,
    processor: &str,
    kernel: &Path,
    initramfs: &Path,
    cases: &[(String, u64)],
    directory: &Path,
) -> Result<Boot> {
    let disk = directory.join("disk.raw");
    fs::File::create(&disk).and_then(|file| file.set_len(DISK_BYTES)).into_diagnostic().wrap_err("the guest's disk")?;
    let mut qemu = start(machine, processor, kernel, initramfs, &disk)?;
    let lines = follow(&mut qemu.0)?;
    let mut log = fs::File::create(directory.join("console.log")).into_diagnostic()?;
    let limits: BTreeMap<&str, u64> = cases.iter().map(|(name, limit)| (name.as_str(), *limit)).collect();
    let mut guest = Boot { up: None, cases: BTreeMap::new(), failure: None };
    let mut tail: Vec<String> = Vec::new();
    let started = Instant::now();
    let mut deadline = started + BOOT;
    let mut current: Option<(String, Instant)> = None;
    let mut done = false;
    loop {
        let line = match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                guest.failure = Some(match &current {
                    Some((name, _)) => format!("the guest hung in case {name}"),
                    None if guest.up.is_none() => format!("the guest did not boot within {} s", BOOT.as_secs()),
                    None => "the guest hung between cases".into(),
                });
                break;
            }
        };
        let _ = writeln!(log, "[{:8.3}] {line}", started.elapsed().as_secs_f64());
        let mut words = line.split_ascii_whitespace();
        if words.next() != Some("@LAB") {
            if line.contains("Kernel panic") {
                guest.failure = Some(line.clone());
            }
            tail.push(line);
            continue;
        }
        match (words.next(), words.next()) {
            (Some("up"), _) => guest.up = Some(started.elapsed().as_secs_f64()),
            (Some("begin"), Some(name)) => {
                current = Some((name.to_owned(), Instant::now()));
                deadline = Instant::now() + Duration::from_secs(limits.get(name).copied().unwrap_or(60)) + GRACE;
            }
            (Some("end"), Some(name)) => {
                let mut numbers = words.map(|word| word.parse::<u64>().unwrap_or(u64::MAX));
                let (Some(code), Some(offset), Some(bytes)) = (numbers.next(), numbers.next(), numbers.next()) else {
                    return Err(miette!("the guest's line is not understood: {line}"));
                };
                unpack(&disk, offset, bytes, directory).wrap_err_with(|| format!("results of case {name}"))?;
                let seconds = current.take().map_or(0.0, |(_, since)| since.elapsed().as_secs_f64());
                guest.cases.insert(name.to_owned(), Ran { code: code as i32, seconds });
                deadline = Instant::now() + GRACE;
            }
            (Some("done"), _) => done = true,
            _ => {}
        }
    }
    qemu.stop();
    fs::remove_file(&disk).into_diagnostic()?;
    if !done && guest.failure.is_none() {
        guest.failure = Some("the guest ended before its cases did".into());
    }
    guest.add_console(&tail);
    Ok(guest)
}

impl Boot {
    /// Adds what the console ends with to the failure, if there is one.
    fn add_console(&mut self, lines: &[String]) {
        if let Some(failure) = &mut self.failure {
            let last = &lines[lines.len().saturating_sub(25)..];
            failure.push_str(&format!("; the console ends with\n    {}", last.join("\n    ")));
        }
    }
}

/// Starts the machine.
fn start(machine: &Machine, processor: &str, kernel: &Path, initramfs: &Path, disk: &Path) -> Result<Qemu> {
    let qemu = Command::new("qemu-system-x86_64")
        .args([
            "-nodefaults",
            "-no-user-config",
            "-no-reboot",
            "-display",
            "none",
            "-accel",
            "tcg,thread=multi",
            "-cpu",
            processor,
        ])
        .args(machine.qemu_options())
        .arg("-kernel")
        .arg(kernel)
        .arg("-initrd")
        .arg(initramfs)
        .args([
            "-append",
            "console=ttyS0 earlyprintk=serial panic=-1 loglevel=4 no_timer_check nokaslr cryptomgr.notests mitigations=off audit=0 rdinit=/init",
        ])
        .args(["-serial", "stdio", "-device", "nvme,drive=out,serial=lab"])
        .arg("-drive")
        .arg(format!("file={},if=none,id=out,format=raw,cache=unsafe", disk.display()))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .into_diagnostic()
        .wrap_err("qemu-system-x86_64 (Debian package qemu-system-x86)")?;
    Ok(Qemu(qemu))
}

/// qemu, stopped whatever happens.
struct Qemu(Child);

impl Qemu {
    fn stop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The lines of both its outputs, as they come; the channel closes when both have ended.
fn follow(qemu: &mut Child) -> Result<Receiver<String>> {
    let (send, receive) = channel();
    let outputs: [Box<dyn Read + Send>; 2] = [
        Box::new(qemu.stdout.take().ok_or_else(|| miette!("qemu has no output"))?),
        Box::new(qemu.stderr.take().ok_or_else(|| miette!("qemu has no error output"))?),
    ];
    for output in outputs {
        let send = send.clone();
        std::thread::spawn(move || {
            let mut input = BufReader::new(output);
            let mut line = Vec::new();
            while matches!(input.read_until(b'\n', &mut line), Ok(n) if n > 0) {
                if send.send(String::from_utf8_lossy(&line).trim_end().to_owned()).is_err() {
                    break;
                }
                line.clear();
            }
        });
    }
    Ok(receive)
}

fn unpack(disk: &Path, offset: u64, bytes: u64, directory: &Path) -> Result<()> {
    let mut file = fs::File::open(disk).into_diagnostic()?;
    file.seek(SeekFrom::Start(offset)).into_diagnostic()?;
    tar::Archive::new(file.take(bytes)).unpack(directory).into_diagnostic()
}

/// Where the results of the last run that has this name lie.
pub fn directory(build: &Path, name: &str) -> Result<PathBuf> {
    let directory = build.join("runs").join(name);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).into_diagnostic()?;
    Ok(directory)
}
