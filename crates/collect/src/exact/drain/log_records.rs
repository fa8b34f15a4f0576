//! The log of a process: what its agent tells in order, as it happens.

use super::*;
use crate::exact::file::ThreadPlace;

/// Bytes of a log that are worth being given back.
const MUCH: u64 = 256 << 10;

impl Process {
    /// Gives back the memory of what was read. Only call stacks are looked at later, by the records of pages that have
    /// them: those pages had their numbers when the stacks were logged, and a stack that was looked at once is known.
    pub(super) fn give_back_log(&mut self, file: &SessionFile, extent: Extent) {
        let known = self.inherited_pages.max(1) + self.pages.given();
        if let Some((heard, _)) = self.log_heard.take_if(|&mut (_, pages)| known >= pages) {
            let log = exact::process::LOG;
            file.discard(extent, log + self.log_given_back..log + heard);
            self.log_given_back = heard;
        }
        // Whole pages.
        let heard = self.log_read & !4095;
        if self.log_heard.is_none() && heard > self.log_given_back + MUCH {
            let pages = self.header.words::<ProcessHeader>(0, 1)[0].pages.load(Acquire);
            self.log_heard = Some((heard, pages));
        }
    }
}

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

impl Drain {
    /// Reads what is new in it.
    pub fn read_log(
        &mut self,
        file: &SessionFile,
        session: &mut Session,
        extent: Extent,
        process: &mut Process,
        until: u64,
    ) -> io::Result<()> {
        let bytes = process.said().min(exact::process::LOG_BYTES);
        if bytes <= process.log_read {
            return Ok(());
        }
        let log = file.extent(extent, exact::process::LOG, bytes as usize)?;
        while process.log_read + (size_of::<LogHeader>() as u64) <= bytes {
            let at = process.log_read as usize;
            let header = &log.words::<LogHeader>(at, 1)[0];
            let what = header.kind.load(Acquire);
            let (length, time) = (header.bytes.load(Relaxed) as usize, header.time_ns.load(Relaxed));
            if what == 0 || time > until || !is_record(at, length, log.len()) {
                break;
            }
            let payload = at + size_of::<LogHeader>();
            if what == log::PLACED && !process.last && !self.is_seen(&log, payload) {
                break;
            }
            let words: Vec<u64> = log
                .words::<AtomicU64>(payload, (at + length - payload) / 8)
                .iter()
                .map(|word| word.load(Relaxed))
                .collect();
            if what == log::ACCESS
                && let &[site, thread, address, count, page] = words.as_slice()
            {
                process.logged_accesses.push(LoggedAccess { time, words: [site, thread, address, count, page] });
            }
            if what == log::SHARE
                && let &[thread, address, reads, writes, page] = words.as_slice()
            {
                let thread = Extent(thread as u32);
                let counts = [reads, writes];
                process.logged_word_counts.push(LoggedWordCounts { time, thread, address, counts, page: page as u32 });
            }
            self.understand(session, process, what, time, &words);
            process.log_read += length as u64;
        }
        let known = process.inherited_sites + process.sites.len() as u32;
        // Whoever has ended completes nothing any more.
        let unknown = if process.is_over { u32::MAX } else { known };
        let ahead = sites_ahead(&log, process.log_read as usize, bytes as usize, unknown);
        process.sites_given = process.sites_given.min(ahead);
        Ok(())
    }

    /// Whether a record begins with an extent that has been looked at. Threads that have begun a moment ago are
    /// looked at the next time.
    fn is_seen(&self, log: &Shared, payload: usize) -> bool {
        log.words::<AtomicU64>(payload, 1)[0].load(Relaxed) < u64::from(self.seen)
    }

    /// A thread may run elsewhere.
    fn placed(&self, session: &mut Session, time: u64, words: &[u64]) {
        let &[extent, node, ref place @ ..] = words else { return };
        let Some(thread) = self.thread(Extent(extent as u32)) else { return };
        let Some(place) = ThreadPlace::read(place.iter().copied()) else { return };
        let place = (place.cpus(), place.policy());
        let time_ns = session.advance(time);
        session.thread_placed((thread.tid, thread.id), u16::try_from(node as i64).ok(), &place, time_ns);
    }

    fn understand(&mut self, session: &mut Session, process: &mut Process, what: u32, time: u64, words: &[u64]) {
        let text = |from: usize| {
            let bytes: Vec<u8> = words.get(from..).unwrap_or(&[]).iter().flat_map(|word| word.to_le_bytes()).collect();
            let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
            String::from_utf8_lossy(&bytes[..end]).into_owned()
        };
        process.map_changes.extend(MapChange::read(what, time, words, text));
        match (what, words) {
            // Parts of huge pages have no records of their own.
            (log::UNMAPPED | log::GONE, &[start, end, ..]) => {
                process.gone.push((time, Page(start >> 12)..Page(end.div_ceil(4096))));
            }
            (log::NEXT_GENERATION, &[start, end, ..]) => process.rests.push((time, Page(start >> 12)..Page(end >> 12))),
            (log::EARLY, &[number, site, thread, ..]) => {
                process.pending_homes.early(number as u32, site as u32, Extent(thread as u32));
            }
            (log::MARK, &[request, thread, ..]) => {
                let request = u32::try_from(request).ok().and_then(Request::from_number);
                let time_ns = session.advance(time);
                let thread = self.thread(Extent(thread as u32)).map(|thread| thread.id);
                if let Some(request @ (Request::Begin | Request::End | Request::Mark)) = request {
                    session.requested(process.id, thread, time_ns, request, &name_of(text(2).as_bytes()));
                }
            }
            (log::PLACED, _) => self.placed(session, time, words),
            (log::LEFT_OUT, &[pid, ..]) => session.left_out(pid as i32, command_line(pid as i32).unwrap_or_default()),
            (log::NOTE, _) => self.notes.push(text(0)),
            (log::UNOBSERVED, &[pid, ..]) => {
                let command = command_line(pid as i32).unwrap_or_default();
                let space = if command.is_empty() { "" } else { " " };
                self.unobserved.push(format!("process {pid}{space}{command}: {}", text(1)));
            }
            (log::REFUSED, &[pid, ..]) => self.refused.push(format!("process {pid}: {}", text(1))),
            _ => {}
        }
    }
}
