//! What the translator asks of whoever uses it.

use crate::{Group, Segment, Site, SiteId, Way};

/// Free space in the code cache: two places within 2 GiB of each other and of the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Address of the free space for code that runs often; 8-aligned.
    pub hot: u64,
    /// Bytes free there.
    pub hot_size: usize,
    /// Address of the free space for stubs, cold paths and constants; 8-aligned.
    pub cold: u64,
    /// Bytes free there.
    pub cold_size: usize,
}

/// How the program's code may come to be another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Changes {
    /// Not at all, but by [`crate::Cache::invalidate`]: what is translated may depend on other code than its own.
    Never,
    /// The program makes it. Before it changes, [`crate::Cache::invalidate`] is notified of its page: what is
    /// translated depends on its own pages only.
    Notified,
    /// Without anybody being told (pages that are writable, or shared): a fragment compares its bytes whenever it is
    /// entered.
    Silently,
}

/// What the owner wants of an address of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// To be asked where the program goes on: [`crate::Leave::Reached`].
    Reached,
    /// The word that this register points to, which the program is about to read: [`crate::count::Pages::probed`]. It
    /// takes a hundredth of the time, as nothing is locked.
    Pointee(u8),
}

/// What the translator needs of whoever uses it.
pub trait Env {
    /// Copies the program's code at `address`, as much as fits and can be read, and returns how much: 0 where nothing
    /// is mapped executable. Asked for look-ahead too, so it must not fault.
    fn read_code(&mut self, address: u64, into: &mut [u8]) -> usize;

    /// How the code in `start..end` may change.
    fn changes(&mut self, start: u64, end: u64) -> Changes;

    /// Code in `start..end` that [`Changes::Silently`] is executed much: whether from now on it [`Changes::Notified`].
    /// What was translated of its pages is invalidated then.
    fn write_protect(&mut self, start: u64, end: u64) -> bool {
        let _ = (start, end);
        false
    }

    /// What was translated depends on the code in `start..end`, which [`Changes::Notified`] and is not its own. The
    /// range is within a page.
    fn looked_at(&mut self, start: u64, end: u64) {
        let _ = (start, end);
    }

    /// Whether the accesses of the fragment at `ip` are the program's own, and are counted.
    fn is_counted(&mut self, ip: u64) -> bool {
        let _ = ip;
        true
    }

    /// What the owner wants to know whenever the program comes to `ip` by a jump, call or return, before anything is
    /// executed there. What is wanted later has to be told by [`crate::Cache::invalidate`].
    fn watch(&mut self, ip: u64) -> Option<Watch> {
        let _ = ip;
        None
    }

    /// Registers a site and gives its number: [`Env::next_site`].
    fn new_site(&mut self, site: &Site) -> SiteId;

    /// Registers a group, and gives the site whose row its accesses are counted in: for one member that one, for
    /// several a number of its own among the sites, which stands for one access of each.
    fn new_group(&mut self, group: &Group) -> SiteId;

    /// The number that the next site will have, or the next row that stands for several.
    fn next_site(&self) -> SiteId;

    /// The persisted fragment at `ip` ([`crate::persist`]), if there is one for the program's code there, and nothing
    /// speaks against it.
    fn persisted(&mut self, ip: u64) -> Option<&'static [u8]> {
        let _ = ip;
        None
    }

    /// There was none, and the fragment at `ip` was translated.
    fn translated(&mut self, ip: u64) {
        let _ = ip;
    }

    /// How the accesses of so many sites, from `first` on, are counted.
    fn counted(&mut self, first: SiteId, sites: u32, way: Way) {
        let _ = (first, sites, way);
    }

    /// Registers instructions that are executed together, and what counts them. Asked for when [`Config::code`] is set.
    fn new_segment(&mut self, segment: &Segment);

    /// Free space near `ip`, at least [`crate::Cache::ROOM`] bytes in each half.
    fn room(&mut self, ip: u64) -> Option<Room>;

    /// Fills the beginning of both halves of the room that was asked for last, and takes these bytes out of it.
    /// Their lengths are multiples of 8.
    fn place(&mut self, room: &Room, hot: &[u8], cold: &[u8]);

    /// Stores a 32-bit displacement into code that other threads may be executing, all of it at once: it lies within
    /// eight aligned bytes. (That is what the manuals of all processors promise to store at once; some do so for any
    /// store within a cache line, but an emulator has been seen to store what is not aligned byte by byte.)
    fn patch(&mut self, address: u64, displacement: i32);

    /// The fragment whose hot half begins at `hot`, of so many bytes in both halves, is not entered any more, except by
    /// returns from what it calls. Reported once for each fragment.
    fn died(&mut self, hot: u64, bytes: u32) {
        let _ = (hot, bytes);
    }
}
