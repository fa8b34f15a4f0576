//! Checks beside `perf_event_open`: nodes, homes of pages, the preload library, symbols.

use super::settings::Settings;
use super::{Check, advice};
use crate::heap_channel::{HeapChannel, HeapOptions};
use crate::homes::{PageHome, page_map, query_homes, read_maps, read_numa_maps};
use nix::errno::Errno;
use numalens_profile::ids::Page;
use numalens_topology::Machine;
use object::{Object, ObjectSection};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// All checks that are not about `perf_event_open`.
pub(super) fn checks(settings: &Settings) -> Vec<Check> {
    vec![nodes(), homes(settings), numa_maps(), present_pages(), preload(), symbols()]
}

fn errno_of(error: &std::io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(0))
}

fn nodes() -> Check {
    let check = Check::new("nodes", "the machine: nodes, CPUs, distances", "");
    match Machine::host() {
        Err(error) => check.limited(format!("{error}; recordings use a virtual machine")),
        Ok(machine) => {
            let (all, memory) = (machine.nodes.len(), machine.nodes_with_memory().count());
            let cpus = machine.cpus().len();
            if memory > 1 {
                let cpu_nodes = machine.nodes_with_cpus().count();
                Check {
                    finding: format!("{all} nodes, {memory} with memory, {cpu_nodes} with CPUs, {cpus} CPUs"),
                    ..check
                }
            } else {
                check.limited(format!(
                    "one node with memory and {cpus} CPUs: recordings use a virtual machine of 4 nodes (--machine), on which placement is simulated"
                ))
            }
        }
    }
}

fn homes(settings: &Settings) -> Check {
    let check = Check::new("page-homes", "on which node each page lies (move_pages as a query)", "");
    let word = Box::new(1u64);
    let page = Page::of(&raw const *word as u64);
    let mut homes = Vec::new();
    if let Err(error) = query_homes(0, &[page], &mut homes) {
        let errno = errno_of(&error);
        return check.advised(errno, advice::move_pages(errno, settings));
    }
    drop(word);
    match homes.first() {
        Some(PageHome::Node(node)) => Check { finding: format!("a page of this process lies on node {node}"), ..check },
        Some(other) => check.fails(format!("a page of this process that is in use has no home: {other:?}")),
        None => check.fails("no answer"),
    }
}

fn numa_maps() -> Check {
    let check = Check::new("numa-maps", "pages that the kernel placed by itself (/proc/PID/numa_maps)", "");
    match read_numa_maps(std::process::id() as i32) {
        Ok(rows) => Check { finding: format!("{} mappings of this process with their nodes", rows.len()), ..check },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => check
            .limited(
                "this kernel has no numa_maps (CONFIG_NUMA is off): pages placed by the kernel are not accounted for",
            )
            .errno(errno_of(&error)),
        Err(error) => check.limited(format!("/proc/self/numa_maps: {error}")).errno(errno_of(&error)),
    }
}

fn present_pages() -> Check {
    let check = Check::new(
        "pagemap",
        "which pages are present, huge or shared (/proc/PID/pagemap)",
        "pages of this process are described",
    );
    let word = Box::new(1u64);
    let address = &raw const *word as u64;
    match page_map(std::process::id() as i32, address, address + 1) {
        Ok(runs) if runs.iter().any(|run| run.present) => check,
        Ok(_) => check.limited("a page of this process that is in use is not listed as present"),
        Err(error) => check.limited(format!("/proc/self/pagemap: {error}")).errno(errno_of(&error)),
    }
}

fn preload() -> Check {
    let check = Check::new(
        "preload",
        "heap objects and where they are allocated (LD_PRELOAD)",
        "the library was loaded into a program and reported",
    );
    let mut channel = match HeapChannel::create(&HeapOptions::default()) {
        Ok(channel) => channel,
        Err(error) => return check.limited(format!("no channel to programs: {error}")).errno(errno_of(&error)),
    };
    let status = Command::new("cat")
        .envs(channel.environment(None))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match status {
        Err(error) => return check.limited(format!("not tried: `cat` cannot be started: {error}")),
        Ok(status) if !status.success() => {
            return check
                .fails(format!("`cat` fails when started with the library ({status}): record without heap objects"));
        }
        Ok(_) => {}
    }
    match channel.drain(&mut |_| {}).events {
        0 => check.limited("`cat` did not report: it is linked statically, or its loader ignores LD_PRELOAD; heap objects are not seen there"),
        _ => check,
    }
}

/// Names inside of the C library: without debug information only what it exports has one.
fn symbols() -> Check {
    let check = Check::new("symbols", "names and lines of system libraries (programs bring their own with -g)", "");
    let is_libc = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libc.so"));
    let maps = read_maps(std::process::id() as i32).unwrap_or_default();
    let library = maps.into_iter().map(|mapping| mapping.path).find(is_libc);
    let Some(library) = library else { return check.limited("this program has no C library to look at") };
    match debug_information(&library) {
        Some(found) => {
            Check { finding: format!("{} has debug information: {}", library.display(), found.display()), ..check }
        }
        None => check
            .limited(format!(
                "{} has no debug information: time in it is given to the nearest exported function",
                library.display()
            ))
            .fix(debug_package()),
    }
}

/// The file with the debug information of `library`: itself, or one filed under its build id.
fn debug_information(library: &Path) -> Option<PathBuf> {
    let bytes = fs::read(library).ok()?;
    let file = object::File::parse(&*bytes).ok()?;
    if file.section_by_name(".debug_info").is_some_and(|section| section.size() > 0) {
        return Some(library.to_owned());
    }
    let id: String = file.build_id().ok()??.iter().map(|byte| format!("{byte:02x}")).collect();
    let (first, rest) = id.split_at_checked(2)?;
    let separate = Path::new("/usr/lib/debug/.build-id").join(first).join(format!("{rest}.debug"));
    separate.exists().then_some(separate)
}

fn debug_package() -> &'static str {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let is_like = |names: &[&str]| {
        let lines = release.lines().filter(|line| line.starts_with("ID=") || line.starts_with("ID_LIKE="));
        lines.into_iter().any(|line| names.iter().any(|name| line.contains(name)))
    };
    if is_like(&["fedora", "rhel", "centos"]) {
        "sudo dnf debuginfo-install glibc"
    } else if is_like(&["suse"]) {
        "sudo zypper install glibc-debuginfo"
    } else if is_like(&["arch"]) {
        "export DEBUGINFOD_URLS=https://debuginfod.archlinux.org"
    } else {
        "sudo apt-get install libc6-dbg"
    }
}
