//! Sites as the agents registered them.

use super::drain::Process;
use super::file::SessionFile;
use super::totals::{LastPageSlot, Row};
use crate::session::Session;
use numalens_event::exact::{self, Extent, SiteRecord};
use std::io;
use std::sync::atomic::Ordering::Relaxed;

/// Reads the sites of a process that are new, below the number `until`: those whose code lies where its memory is
/// mapped now.
///
/// # Errors
/// The session file cannot be mapped.
pub fn read_sites(
    file: &SessionFile,
    session: &mut Session,
    extent: Extent,
    process: &mut Process,
    until: u32,
) -> io::Result<()> {
    let first = process.inherited_sites + process.sites.len() as u32;
    let given = until.min(exact::MOST_SITES);
    if given <= first {
        return Ok(());
    }
    let size = size_of::<SiteRecord>();
    let offset = (u64::from(first) * size as u64) & !4095;
    let skipped = (u64::from(first) * size as u64 - offset) as usize;
    let map = file.extent(extent, exact::process::SITES + offset, skipped + (given - first) as usize * size)?;
    for record in map.words::<SiteRecord>(skipped, (given - first) as usize) {
        let number = process.inherited_sites + process.sites.len() as u32;
        if let Some(last_page) = record.last_page.load(Relaxed).checked_sub(1) {
            process
                .last_pages
                .insert(last_page, LastPageSlot { row: number, executions: record.executions.load(Relaxed) });
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
