//! Phases: spans and moments that the program names (`include/numalens.h`), or the user (`numalens ctl mark`), and
//! OpenMP's parallel regions.

use numalens_event::request::MOST_NAME_BYTES;
use numalens_profile::Meta;
use numalens_profile::ids::*;
use numalens_profile::tables;
use rustc_hash::FxHashMap;

/// Phases kept.
const MOST_PHASES: usize = 100_000;

/// What a parallel region is called until its place has a name.
const REGION: &str = "omp parallel";

/// What was named so far.
#[derive(Default)]
pub struct Marks {
    rows: Vec<tables::Phase>,
    /// Phases that have begun, by process, the latest last.
    open: FxHashMap<ProcessId, Vec<usize>>,
    /// The latest row of each parallel region of a thread, by the call that begins it.
    regions: FxHashMap<(ProcessId, Option<ThreadId>, SiteId), usize>,
    /// Left out: there were too many.
    dropped: u64,
    /// Ends without a beginning.
    unmatched: u64,
}

impl Marks {
    /// A phase has begun, or has been.
    pub fn add(
        &mut self,
        process: ProcessId,
        thread: Option<ThreadId>,
        name: &str,
        start_ns: u64,
        end_ns: Option<u64>,
    ) {
        if self.rows.len() >= MOST_PHASES {
            self.dropped += 1;
            return;
        }
        if end_ns.is_none() {
            self.open.entry(process).or_default().push(self.rows.len());
        }
        let phase = self.rows.len() as u32;
        self.rows.push(tables::Phase { process, phase, name: name.to_owned(), thread, start_ns, end_ns, site: None });
    }

    /// A region has lasted from `start_ns` to `end_ns`. One that begins within `apart_ns` of the end of the one before
    /// goes on with that: regions that a program begins all the time have a row for each time bin at most.
    pub fn region(&mut self, key: (ProcessId, Option<ThreadId>, SiteId), start_ns: u64, end_ns: u64, apart_ns: u64) {
        if let Some(row) = self.regions.get(&key).map(|&row| &mut self.rows[row])
            && let Some(end) = &mut row.end_ns
            && start_ns <= end.saturating_add(apart_ns)
            && start_ns >= row.start_ns
        {
            *end = end_ns.max(*end);
            return;
        }
        let (process, thread, site) = key;
        self.add(process, thread, REGION, start_ns, Some(end_ns));
        if let Some(row) = self.rows.last_mut().filter(|_| self.dropped == 0) {
            row.site = Some(site);
            self.regions.insert(key, self.rows.len() - 1);
        }
    }

    /// The innermost open phase of a name, of this thread if it has one, ends. Returns how long it was.
    pub fn end(&mut self, process: ProcessId, thread: Option<ThreadId>, name: &str, time_ns: u64) -> Option<u64> {
        let open = self.open.entry(process).or_default();
        let rows = &mut self.rows;
        let place =
            |own: bool| open.iter().rposition(|&row| rows[row].name == name && (!own || rows[row].thread == thread));
        let Some(at) = place(true).or_else(|| place(false)) else {
            self.unmatched += u64::from(self.dropped == 0);
            return None;
        };
        let row = &mut rows[open.remove(at)];
        row.end_ns = Some(time_ns.max(row.start_ns));
        Some(time_ns.saturating_sub(row.start_ns))
    }

    /// The program of a process is over: so are its phases.
    pub fn close(&mut self, process: ProcessId, time_ns: u64) {
        for row in self.open.remove(&process).unwrap_or_default() {
            let row = &mut self.rows[row];
            row.end_ns = Some(time_ns.max(row.start_ns));
        }
    }

    /// The rows of the table.
    pub fn rows(&self) -> &[tables::Phase] {
        &self.rows
    }

    /// Says what is missing.
    pub fn note(&self, meta: &mut Meta) {
        if self.dropped > 0 {
            meta.coarsened.push(format!("phases: {} left out of the table", self.dropped));
        }
        if self.unmatched > 0 {
            meta.coarsened.push(format!("phases: {} ends without a beginning of that name", self.unmatched));
        }
    }
}

/// A name as the program gave it, in one line.
pub fn name_of(bytes: &[u8]) -> String {
    let bytes = &bytes[..bytes.len().min(MOST_NAME_BYTES)];
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    // A cut may fall into a letter.
    let text = String::from_utf8_lossy(&bytes[..end]);
    text.trim_end_matches('\u{fffd}').replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_nest_and_end_by_their_names() {
        let mut marks = Marks::default();
        let (process, one, other) = (ProcessId(0), Some(ThreadId(1)), Some(ThreadId(2)));
        marks.add(process, one, "outer", 10, None);
        marks.add(process, other, "step", 20, None);
        marks.add(process, one, "step", 30, None);
        marks.end(process, other, "step", 40);
        marks.end(process, one, "step", 50);
        marks.end(process, one, "step", 60);
        marks.add(process, one, "here", 70, Some(70));
        // Begun by one thread and ended by another.
        marks.end(process, other, "outer", 80);
        marks.add(process, one, "left open", 90, None);
        marks.close(process, 100);
        let spans: Vec<_> = marks.rows().iter().map(|row| (row.name.as_str(), row.start_ns, row.end_ns)).collect();
        let expected = [
            ("outer", 10, Some(80)),
            ("step", 20, Some(40)),
            ("step", 30, Some(50)),
            ("here", 70, Some(70)),
            ("left open", 90, Some(100)),
        ];
        assert_eq!(spans, expected);
        assert_eq!(marks.unmatched, 1);
    }

    #[test]
    fn regions_that_follow_soon_are_one() {
        let mut marks = Marks::default();
        let key = |site| (ProcessId(0), Some(ThreadId(0)), SiteId(site));
        for (site, start, end) in
            [(1, 100, 110), (2, 112, 114), (1, 115, 120), (1, 130, 140), (2, 200, 300), (1, 141, 150)]
        {
            marks.region(key(site), start, end, 10);
        }
        let rows: Vec<_> =
            marks.rows().iter().map(|row| (row.site.unwrap().0, row.start_ns, row.end_ns.unwrap())).collect();
        assert_eq!(rows, [(1, 100, 150), (2, 112, 114), (2, 200, 300)]);
        // What the target forges is not believed.
        marks.region(key(1), 90, 95, 10);
        assert_eq!(marks.rows().len(), 4);
    }

    #[test]
    fn names_are_one_line_of_whole_letters() {
        assert_eq!(name_of(b"a\nb\0c"), "a b");
        assert_eq!(name_of(b"gr\xc3\xb6\xc3"), "gr\u{f6}");
        assert_eq!(name_of(&[b'x'; 500]).len(), MOST_NAME_BYTES);
    }
}
