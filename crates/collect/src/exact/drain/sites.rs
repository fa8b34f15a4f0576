//! Sites as agents found them, and what the numbers in threads' tables refer to.

use super::*;

/// What a thread's tables refer to.
pub(super) struct Known<'a> {
    pub drain: &'a Drain,
    pub process: &'a Process,
    pub of: Extent,
    pub thread: Extent,
}

impl Lookup for Known<'_> {
    fn row(&self, number: u32) -> Option<Row> {
        self.drain.row(self.process, number)
    }

    fn stay(&self, number: u32) -> Option<Stay> {
        self.drain.stay(self.process, number)
    }

    fn is_on(&self, address: u64, offset: u64) {
        self.drain.watch.borrow_mut().stays(self.of, address, self.thread, offset);
    }
}

/// Reads the sites that are new.
pub(super) fn read_sites(
    file: &SessionFile,
    session: &mut Session,
    extent: Extent,
    process: &mut Process,
) -> io::Result<()> {
    let header = &process.header.words::<ProcessHeader>(0, 1)[0];
    let first = process.inherited_sites + process.sites.len() as u32;
    let given = header.sites.load(Acquire).min(exact::MOST_SITES);
    if given <= first {
        return Ok(());
    }
    let size = size_of::<SiteRecord>();
    let offset = (u64::from(first) * size as u64) & !4095;
    let skipped = (u64::from(first) * size as u64 - offset) as usize;
    let map = file.extent(extent, exact::process::SITES + offset, skipped + (given - first) as usize * size)?;
    for record in map.words::<SiteRecord>(skipped, (given - first) as usize) {
        let number = process.inherited_sites + process.sites.len() as u32;
        if let Some(stay) = record.stay.load(Relaxed).checked_sub(1) {
            process.stays.insert(stay, Stay { row: number, passes: record.passes.load(Relaxed) });
        }
        let (address, members) = (record.address.load(Relaxed), record.members.load(Relaxed));
        process.sites.push(if members == 0 {
            Row::Site(session.site_at(process.pid, address), record.flags.load(Relaxed))
        } else {
            Row::Several(address as u32..address as u32 + members)
        });
    }
    Ok(())
}
