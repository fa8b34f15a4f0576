//! `view` as a user leaves it open: hundreds of filters later it has the memory that it had.

use super::*;
use numalens_profile::testing::large;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

/// Facts of the profile: enough that what is kept of each answer would show.
const FACTS: u64 = 200_000;
const FILTERS: u64 = 100;

struct Server {
    process: Child,
    host: String,
    token: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Server {
    fn of(profile: &std::path::Path) -> Server {
        let process = numalens(&["view"])
            .arg(profile)
            .arg("--no-open")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Server::started(process)
    }

    /// One that is about to print its address.
    fn started(mut process: Child) -> Server {
        let mut url = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut url).unwrap();
        let (host, token) = url.trim().strip_prefix("http://").unwrap().split_once("/#token=").unwrap();
        Server { host: host.to_string(), token: token.to_string(), process }
    }

    /// Bytes of the answer.
    fn ask(&self, path: &str) -> usize {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        let (host, token) = (&self.host, &self.token);
        let request = format!(
            "GET /api/{path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert!(
            answer.starts_with(b"HTTP/1.1 200"),
            "{path}: {}",
            String::from_utf8_lossy(&answer[..answer.len().min(300)])
        );
        answer.len()
    }

    /// Resident memory in MiB.
    fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() >> 10
    }
}

/// Arguments are for everybody to see: the browser's have no token, but lead to a file that has it, for its owner
/// alone.
#[test]
fn the_token_is_not_among_the_browser_s_arguments() {
    let scratch = tempfile::tempdir().unwrap();
    let profile = large::write(&scratch.path().join("small.numalens"), 100).unwrap();
    let told = scratch.path().join("told");
    let starter = scratch.path().join("xdg-open");
    // Read below as it is written: nobody waits for a time.
    assert!(Command::new("mkfifo").arg(&told).status().unwrap().success());
    std::fs::write(&starter, "#!/bin/sh\n{ echo \"$*\"; stat -c %a \"$1\"; cat \"$1\"; } > \"$TOLD\"\n").unwrap();
    std::fs::set_permissions(&starter, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", scratch.path().display(), std::env::var("PATH").unwrap());
    let started = numalens(&["view"])
        .arg(&profile)
        .env("PATH", path)
        .env("TOLD", &told)
        .env("XDG_RUNTIME_DIR", scratch.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let server = Server::started(started);
    let told = std::fs::read_to_string(&told).unwrap();
    let [arguments, mode, page] = told.splitn(3, '\n').collect::<Vec<_>>()[..] else { panic!("{told}") };
    assert!(!arguments.contains(&server.token) && arguments.ends_with(".html"), "{arguments}");
    assert_eq!(mode, "600");
    assert!(page.contains(&format!("url=http://{}/#token={}", server.host, server.token)), "{page}");
}

#[test]
fn memory_does_not_grow_with_use() {
    let scratch = tempfile::tempdir().unwrap();
    let profile = large::write(&scratch.path().join("large.numalens"), FACTS).unwrap();
    let server = Server::of(&profile);
    // A filter by time lets most lines and pages through; each is another.
    let look = |number: u64| -> usize {
        let filter = format!("from_s=0.{:03}&to_s=1.{number:03}", number % 7 * 10);
        let sections = ["report/lines?form=columns&", "report/summary,matrix,machine?", "report/threads,placements?"];
        sections.iter().map(|section| server.ask(&format!("{section}{filter}"))).sum()
    };
    let first_lines = "report/lines?top=500&form=columns";
    for path in ["advise", "simulate", first_lines, "report/pages", "report/timeline,node-timeline"] {
        server.ask(path);
    }
    // Until what is kept is full: then something goes for everything that comes.
    let mut told = 0;
    let mut number = 0;
    while told < 128 << 20 {
        told += look(number);
        number += 1;
    }
    let (before, first) = (server.resident(), number);
    let mut more = 0;
    while number < first + FILTERS {
        more += look(number);
        number += 1;
    }
    let after = server.resident();
    // What was told is many times what may stay; what an allocator keeps for later is not much.
    assert!(more >> 20 > 256, "too little was asked to show anything: {} MiB", more >> 20);
    assert!(
        after < before + 128,
        "{before} MiB after {first} filters, {after} MiB after {number}, which told {} MiB",
        more >> 20
    );
}
