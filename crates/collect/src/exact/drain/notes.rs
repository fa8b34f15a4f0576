//! What is said of a recording: what was not seen, and what the agents say.

use super::Findings;
use crate::exact::directory::Directory;
use crate::exact::file::SessionFile;
use numalens_event::exact::{self, FragmentCounts};
use numalens_profile::{LINES_LEFT_OUT, LOOKS, Meta};
use std::sync::atomic::Ordering::Relaxed;

/// What was refused a program that wanted the place of the agent's memory for its own.
const REFUSED: &str = "calls that were refused, as memory of numalens is there";

/// What is said of a recording.
pub struct Notes<'a> {
    pub directory: &'a Directory,
    pub findings: &'a Findings,
    /// When it was polled, since the start.
    pub poll_times: &'a [u64],
}

impl Notes<'_> {
    /// Says in `meta` what was not seen.
    pub fn add_to(&self, file: &SessionFile, meta: &mut Meta) {
        let marks = file.header().marks.load(Relaxed);
        if marks > exact::MOST_MARKS {
            meta.losses.insert("marks of phases".to_owned(), u64::from(marks - exact::MOST_MARKS));
        }
        meta.extra.insert(LOOKS.to_owned(), self.poll_times.to_vec().into());
        let FragmentCounts { translated, persisted } = &file.header().fragments;
        let fragments = [("translated", translated), ("persisted", persisted)];
        let fragments = fragments.map(|(how, count)| (how.to_owned(), count.load(Relaxed).into()));
        meta.extra.insert("fragments".to_owned(), serde_json::Value::Object(fragments.into_iter().collect()));
        meta.unobserved.clone_from(&self.findings.unobserved);
        let processes = || self.directory.processes.values();
        let without_lines = processes().filter(|process| process.header().lines_left_out.load(Relaxed) != 0).count();
        if without_lines > 0 {
            meta.losses.insert(LINES_LEFT_OUT.to_owned(), without_lines as u64);
        }
        let unlogged: u64 =
            processes().map(|process| process.logged_bytes().saturating_sub(exact::process::LOG_BYTES)).sum();
        if unlogged > 0 {
            meta.losses.insert("bytes of events that processes had no room to tell".to_owned(), unlogged);
        }
        if !self.findings.refused.is_empty() {
            meta.losses.insert(REFUSED.to_owned(), self.findings.refused.len() as u64);
        }
        let known = self.findings.unobserved.len() as u64;
        let all = u64::from(file.header().unobserved.load(Relaxed));
        if all > known {
            meta.unobserved.push(format!("{} programs that the agent could not be put into", all - known));
        }
    }

    /// Calls of programs that were refused, as memory of the agent's is there: each with its process.
    pub fn refused(&self) -> &[String] {
        &self.findings.refused
    }

    /// What the agents found worth a note, and what they said when they gave up.
    pub fn failures(&self) -> Vec<String> {
        let failures = self.directory.processes.values().map(|process| process.failure());
        self.findings.notes.iter().cloned().chain(failures.filter(|text| !text.is_empty())).collect()
    }
}
