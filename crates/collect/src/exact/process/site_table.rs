//! The sites of a process, as its agent has registered them.

use crate::exact::file::SessionFile;
use crate::exact::totals::{LastPageSlot, Row};
use crate::session::Session;
use numalens_event::exact::{self, Extent, SiteRecord};
use numalens_event::page;
use rustc_hash::FxHashMap;
use std::io;
use std::sync::atomic::Ordering::Relaxed;

/// The sites of a process. Numbers below those of its own are its parent's.
pub struct SiteTable {
    inherited: u32,
    /// Those seen so far, from the first of its own.
    rows: Vec<Row>,
    /// Last pages by their numbers.
    last_pages: FxHashMap<u32, LastPageSlot>,
    /// Those that had been given before its log was read.
    given: u32,
}

impl SiteTable {
    /// Of a process that has inherited so many.
    pub fn new(inherited: u32) -> Self {
        SiteTable { inherited, rows: Vec::new(), last_pages: FxHashMap::default(), given: 0 }
    }

    /// Numbers below are known.
    pub fn end(&self) -> u32 {
        self.inherited + self.rows.len() as u32
    }

    /// Which of its own a number is; none: its parent's.
    pub fn own(&self, number: u32) -> Option<u32> {
        number.checked_sub(self.inherited)
    }

    /// The row of one of its own.
    pub fn row(&self, own: u32) -> Option<&Row> {
        self.rows.get(own as usize)
    }

    /// A last page of its own.
    pub fn last_page(&self, number: u32) -> Option<LastPageSlot> {
        self.last_pages.get(&number).copied()
    }

    /// So many have been given, before its log is read.
    pub fn give(&mut self, given: u32) {
        self.given = given;
    }

    /// Those behind a number lie in another memory map than that which is known.
    pub fn give_below(&mut self, number: u32) {
        self.given = self.given.min(number);
    }

    /// Whether a site of its own is reported that has not been read yet.
    pub fn will_know(&self, site: u32) -> bool {
        (self.inherited..self.given).contains(&site)
    }

    /// Reads those that are new and lie where its memory is mapped now: below `change`, where that is when the map
    /// changes the next time.
    ///
    /// # Errors
    /// The session file cannot be mapped.
    pub fn read(
        &mut self,
        file: &SessionFile,
        session: &mut Session,
        extent: Extent,
        pid: i32,
        change: Option<u32>,
    ) -> io::Result<()> {
        let until = change.map_or(self.given, |sites| sites.min(self.given));
        let (first, given) = (self.end(), until.min(exact::MOST_SITES));
        if given <= first {
            return Ok(());
        }
        let size = size_of::<SiteRecord>();
        let offset = page::begin(u64::from(first) * size as u64);
        let skipped = (u64::from(first) * size as u64 - offset) as usize;
        let map = file.extent(extent, exact::process::SITES + offset, skipped + (given - first) as usize * size)?;
        let count = (given - first) as usize;
        session.expect_sites(count);
        self.rows.reserve(count);
        for record in map.words::<SiteRecord>(skipped, count) {
            let row = self.end();
            if let Some(last_page) = record.last_page.load(Relaxed).checked_sub(1) {
                let executions = record.executions.load(Relaxed);
                self.last_pages.insert(last_page, LastPageSlot { row, executions });
            }
            let (address, members) = (record.address.load(Relaxed), record.members.load(Relaxed));
            self.rows.push(if members == 0 {
                Row::Site(session.site_at(pid, address), record.flags.load(Relaxed))
            } else {
                Row::Several(address as u32..address as u32 + members)
            });
        }
        Ok(())
    }
}
