//! The log of a process: what its agent logs in order, as it happens.

use super::directory::Directory;
use super::drain::Findings;
use super::file::{SessionFile, Shared, ThreadPlace};
use super::map_changes::MapChange;
use super::persisted::CodeNews;
use super::process::Process;
use crate::session::{CollectionPart, Session, command_line, name_of};
use numalens_event::exact::{self, Extent, LogHeader, log};
use numalens_event::request::Request;
use numalens_profile::ids::ProcessId;
use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// Whether a record of so many bytes can be what stands at a place of a log.
fn is_record(at: usize, length: usize, bytes: usize) -> bool {
    length >= size_of::<LogHeader>() && length.is_multiple_of(8) && at + length <= bytes
}

/// Sites that had been given before the first change of the memory map that the log tells from a place on: those behind
/// it lie in another map than that which is known. `unknown`, where a record is still being written that may be such a
/// change.
fn sites_ahead(log: &Shared, mut at: usize, bytes: usize, unknown: u32) -> u32 {
    while at + size_of::<LogHeader>() <= bytes {
        let header = &log.words::<LogHeader>(at, 1)[0];
        let (what, length) = (header.kind.load(Acquire), header.bytes.load(Relaxed) as usize);
        if what == 0 {
            return unknown;
        }
        if !is_record(at, length, log.len()) {
            break;
        }
        let words = log.words::<AtomicU64>(at + size_of::<LogHeader>(), (length - size_of::<LogHeader>()) / 8);
        if let Some(sites) = MapChange::sites_in(what, words) {
            return sites;
        }
        at += length;
    }
    u32::MAX
}

/// Reads the log of a process.
pub struct LogReader<'a> {
    pub directory: &'a Directory,
    pub file: &'a SessionFile,
    pub session: &'a mut Session,
    pub findings: &'a mut Findings,
    /// Entries of the directory that have been taken in.
    pub seen: u32,
}

impl LogReader<'_> {
    /// Reads what is new in it, until a time on the clock of the records.
    ///
    /// # Errors
    /// The session file cannot be mapped.
    pub fn read(&mut self, extent: Extent, process: &mut Process, until: u64) -> io::Result<()> {
        let bytes = process.logged_bytes().min(exact::process::LOG_BYTES);
        if bytes <= process.log.read {
            return Ok(());
        }
        let log = self.file.extent(extent, exact::process::LOG, bytes as usize)?;
        while process.log.read + (size_of::<LogHeader>() as u64) <= bytes {
            let at = process.log.read as usize;
            let header = &log.words::<LogHeader>(at, 1)[0];
            let what = header.kind.load(Acquire);
            let (length, time) = (header.bytes.load(Relaxed) as usize, header.time_ns.load(Relaxed));
            if what == 0 || time > until || !is_record(at, length, log.len()) {
                break;
            }
            let payload = at + size_of::<LogHeader>();
            if what == log::PLACED && !process.life.last && !self.is_seen(&log, payload) {
                break;
            }
            let words = log.words::<AtomicU64>(payload, (at + length - payload) / 8).iter();
            let words: Vec<u64> = words.map(|word| word.load(Relaxed)).collect();
            self.take_in(process, what, time, &words);
            process.log.read += length as u64;
        }
        // Whoever has ended completes nothing any more.
        let unknown = if process.life.is_over { u32::MAX } else { process.sites.end() };
        process.sites.give_below(sites_ahead(&log, process.log.read as usize, bytes as usize, unknown));
        Ok(())
    }

    /// Whether a record begins with an extent that has been taken in. Threads that have begun a moment ago are the next
    /// time.
    fn is_seen(&self, log: &Shared, payload: usize) -> bool {
        log.words::<AtomicU64>(payload, 1)[0].load(Relaxed) < u64::from(self.seen)
    }

    fn take_in(&mut self, process: &mut Process, what: u32, time: u64, words: &[u64]) {
        let text = |from: usize| {
            let bytes: Vec<u8> = words.get(from..).unwrap_or(&[]).iter().flat_map(|word| word.to_le_bytes()).collect();
            let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
            String::from_utf8_lossy(&bytes[..end]).into_owned()
        };
        process.logged.add(what, time, words, text);
        self.findings.code.extend(CodeNews::read(what, words, text));
        match (what, words) {
            (log::EARLY, &[number, site, thread, ..]) => {
                process.pending_homes.early(number as u32, site as u32, Extent(thread as u32));
            }
            (log::MARK, &[request, thread, ..]) => {
                let request = u32::try_from(request).ok().and_then(Request::from_number);
                let time_ns = self.session.advance(time);
                let thread = self.directory.thread(Extent(thread as u32)).map(|thread| thread.id);
                if let Some(request @ (Request::Begin | Request::End | Request::Mark)) = request {
                    self.session.requested(process.id, thread, time_ns, request, &name_of(text(2).as_bytes()));
                }
            }
            (log::PLACED, _) => self.placed(time, words),
            (log::COLLECTED, _) => self.collected(process.id, time, words),
            (log::LEFT_OUT, &[pid, ..]) => {
                self.session.left_out(pid as i32, command_line(pid as i32).unwrap_or_default());
            }
            (log::NOTE, _) => self.findings.notes.push(text(0)),
            (log::UNOBSERVED, &[pid, ..]) => {
                let command = command_line(pid as i32).unwrap_or_default();
                let space = if command.is_empty() { "" } else { " " };
                self.findings.unobserved.push(format!("process {pid}{space}{command}: {}", text(1)));
            }
            (log::REFUSED, &[pid, ..]) => self.findings.refused.push(format!("process {pid}: {}", text(1))),
            _ => {}
        }
    }

    /// A thread has done its part in a collection of garbage.
    fn collected(&mut self, process: ProcessId, ended_ns: u64, words: &[u64]) {
        let &[thread, node, generation, begun_ns, leads, ref objects @ ..] = words else { return };
        let thread = self.directory.thread(Extent(thread as u32)).map(|thread| thread.id);
        // Indices plus 1.
        let index = |node: u64| u16::try_from(node).ok()?.checked_sub(1);
        let part = CollectionPart { node: index(node), generation, begun_ns, ended_ns, leads: leads != 0 };
        let objects = objects.as_chunks::<2>().0.iter().map(|&[of, count]| {
            let home = index(of & ((1 << log::COLLECTED_AREA) - 1));
            (home, ((of >> log::COLLECTED_AREA) as u32).checked_sub(1), count)
        });
        self.session.collected(process, thread, &part, objects);
    }

    /// A thread may run elsewhere.
    fn placed(&mut self, time: u64, words: &[u64]) {
        let &[extent, node, ref place @ ..] = words else { return };
        let Some(thread) = self.directory.thread(Extent(extent as u32)) else { return };
        let Some(place) = ThreadPlace::read(place.iter().copied()) else { return };
        let place = (place.cpus(), place.policy());
        let time_ns = self.session.advance(time);
        self.session.thread_placed((thread.tid, thread.id), u16::try_from(node as i64).ok(), &place, time_ns);
    }
}
