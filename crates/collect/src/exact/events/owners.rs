//! Whose pages are as they begin, end, and change hands by what is mapped.

use crate::exact::known_pages::Around;
use crate::exact::page_owners::PageOwners;
use crate::exact::process::Process;
use crate::session::{Owner, Session};
use numalens_profile::ids::Page;
use std::ops::Range;

/// Whose a page is, one of the process's own, of which nothing has been counted under this number before: whoever is
/// there has been there since it began.
pub fn begins(session: &mut Session, process: &mut Process, own: u32, time_ns: u64) {
    let (number, pid) = (process.pages.number(own), process.identity.pid);
    let known = &mut process.pages.known[own];
    let (page, before) = (known.page, known.owner);
    known.owner = session.owner_of(pid, page, time_ns);
    if process.regions.of(own).is_some() && known.owner != before {
        process.regions.leave(own);
    }
    let is_shared = known.owner == Owner::Several && !session.records_every_object();
    let owners = (is_shared && !session.has_variables(pid, page)).then(|| {
        let mut owners = PageOwners::default();
        owners.changed(&session.holders_on(pid, page), false, 0, 0);
        owners
    });
    process.shared.begins(number, owners);
}

/// Pages may be another's now, of which that was not known when they began.
pub fn owners_change(session: &mut Session, process: &mut Process, pages: Range<Page>, time: u64) {
    for (_, own) in process.pages.live_in(pages) {
        let time_ns = session.advance(time);
        let begin_ns = process.pages.known[own].begin_ns;
        begins(session, process, own, time_ns.max(begin_ns));
    }
}

/// Nothing more is counted of one of the process's own pages. Returns which page it is.
pub fn ends(session: &mut Session, process: &mut Process, own: u32, time_ns: u64) -> Page {
    let is_shared = process.shared.ends(process.pages.number(own));
    process.pages.counted_last(own, process.regions.has_joined(own));
    let (id, pid) = (process.id, process.identity.pid);
    let known = &mut process.pages.known[own];
    known.ended = true;
    if let Owner::One(object) = known.owner {
        known.owner = Owner::One(session.stack_instead((id, pid), known.page, object, None, time_ns));
    }
    if !matches!(known.owner, Owner::One(_)) || is_shared {
        known.around = Some(Around::now(session, pid, known.page, time_ns));
    }
    known.page
}
