//! What the translator asks about the program's code, and where it writes down what it makes of it.

use super::TranslationEnv;
use super::operand::Operand;
use crate::interposer;
use crate::state::maps::{Backing, Mapping};
use crate::state::runtime::runtime;
use crate::sys::PAGE;
use core::sync::atomic::{
    AtomicU64,
    Ordering::{Relaxed, Release},
};
use numalens_event::exact::{self, log, segment};
use numalens_isa::{Kind, Register};
use numalens_translator::{Changes, Env, FetchCounter, Group, Room, Segment, Site, SiteId, Watch, Way};

// Each way has its word.
const _: () = assert!(exact::site::WAYS.len() == Way::ALL.len() + 1);

/// Bytes of code that no fragment has.
const LONGEST_FRAGMENT: u64 = 2048;

impl Env for TranslationEnv {
    fn read_code(&mut self, address: u64, into: &mut [u8]) -> usize {
        let mut done = 0;
        let before = self.vdso.getcpu.and_then(|at| at.checked_sub(address)).unwrap_or(u64::MAX);
        let length = into.len().min(usize::try_from(before).unwrap_or(usize::MAX));
        let into = &mut into[..length];
        while done < into.len() {
            let at = address + done as u64;
            let page = at & !(PAGE - 1);
            if !self.is_code(page) {
                break;
            }
            let bytes = ((page + PAGE - at) as usize).min(into.len() - done);
            // SAFETY: the page was found readable, and has not been unmapped since. A program that unmaps code while
            // another thread is about to execute it would crash without us too.
            unsafe { core::ptr::copy_nonoverlapping(at as *const u8, into[done..].as_mut_ptr(), bytes) };
            done += bytes;
        }
        done
    }

    fn changes(&mut self, start: u64, end: u64) -> Changes {
        let of = |mapping: &Mapping| {
            let part = start.max(mapping.start)..end.min(mapping.end);
            match mapping.backing {
                _ if mapping.may_change() && !self.protected.hold(part) => Changes::Silently,
                // What is not a file's was made by the program, which may make it anew with the help of system calls.
                Backing::Anonymous if mapping.start != self.vdso.start => Changes::Notified,
                Backing::PrivateFile if mapping.may_change() => Changes::Notified,
                _ => Changes::Never,
            }
        };
        self.maps.overlapping(start..end).iter().map(of).max().unwrap_or(Changes::Never)
    }

    fn looked_at(&mut self, start: u64, end: u64) {
        self.protected.looked_at(start..end);
    }

    fn write_protect(&mut self, start: u64, end: u64) -> bool {
        let holds_a_stack = |mapping: &Mapping| {
            let threads = runtime().threads.lock();
            threads.iter().any(|(_, context)| (mapping.start..mapping.end).contains(&context.register(Register::Rsp)))
        };
        self.protected.close(&self.maps, start..end, holds_a_stack)
    }

    fn is_counted(&mut self, ip: u64) -> bool {
        // More than any fragment has.
        const MARGIN: usize = 4096;
        let used = self.sites.len().max(self.given.executions as usize);
        let full = used + MARGIN > self.layout.sites as usize;
        if full && !self.logged_full {
            self.logged_full = true;
            let text = b"a process has executed more code than there is room for sites: what it executed first after that is not counted";
            self.process.log(log::NOTE, &[], text);
        }
        !full && !interposer::contains(ip)
    }

    fn watch(&mut self, ip: u64) -> Option<Watch> {
        if self.watched.is_empty() { None } else { self.watched.get(&ip).copied() }
    }

    fn new_site(&mut self, site: &Site) -> SiteId {
        let number = self.sites.len() as u32;
        if number >= self.layout.sites {
            // The translator refuses what does not fit; its tables are laid out for this many.
            return SiteId(number);
        }
        let record = self.process.site(number);
        record.address.store(site.ip, Relaxed);
        let kind = match site.kind {
            Kind::Read => exact::site::READ,
            Kind::Write => exact::site::WRITE,
            Kind::ReadWrite => exact::site::READ | exact::site::WRITE,
        };
        record.flags.store(kind | if site.stack { exact::site::STACK } else { 0 }, Relaxed);
        record.log.store(self.process.header().log_bytes.load(Relaxed) as u32, Relaxed);
        self.sites.push(Operand::new(site));
        SiteId(number)
    }

    fn new_group(&mut self, group: &Group) -> SiteId {
        let first = group.first;
        let row = if group.members == 1 { first } else { SiteId(self.sites.len() as u32) };
        if row.0 >= self.layout.sites {
            return row;
        }
        let record = self.process.site(row.0);
        if let Some(last_page) = group.last_page {
            self.given.executions = self.given.executions.max(last_page.executions + 1);
            record.executions.store(last_page.executions, Relaxed);
            record.last_page.store(last_page.id.0 + 1, Relaxed);
        }
        if row != first {
            record.address.store(u64::from(first.0), Relaxed);
            record.members.store(group.members, Relaxed);
            let like = self.sites[first.0 as usize];
            self.sites.push(like);
        }
        row
    }

    fn persisted(&mut self, ip: u64) -> Option<&'static [u8]> {
        let (key, place) = self.maps.find(ip)?.code_at(ip)?;
        let record = self.persisted.find(key, place).filter(|record| !record.is_empty())?;
        let reaches = |at: &u64| (ip..ip + LONGEST_FRAGMENT).contains(at);
        // Its records are of code that is not counted, and those of all other files of code that is.
        let is_counted = self.is_counted(ip);
        let fits = is_counted == (key != exact::PRELOADED_CODE) && !self.watched.keys().any(reaches);
        runtime().session.header().fragments.persisted.fetch_add(fits.into(), Relaxed);
        fits.then_some(record)
    }

    fn translated(&mut self, ip: u64) {
        runtime().session.header().fragments.translated.fetch_add(1, Relaxed);
        if let Some((key, place)) = self.maps.find(ip).and_then(|mapping| mapping.code_at(ip)) {
            self.persisted.translated(&self.process, key, place);
        }
    }

    fn next_site(&self) -> SiteId {
        SiteId(self.sites.len() as u32)
    }

    fn counted(&mut self, first: SiteId, sites: u32, way: Way) {
        for number in (first.0..first.0 + sites).take_while(|&number| number < self.layout.sites) {
            self.process.site(number).flags.fetch_or((way as u32) << exact::site::WAY_SHIFT, Relaxed);
        }
    }

    fn new_segment(&mut self, segment: &Segment) {
        let (kind, counter) = match segment.counter {
            FetchCounter::Executions(number) => (segment::EXECUTIONS, number),
            FetchCounter::Site(site) => (segment::SITE, site.0),
            FetchCounter::Correction(number) => (segment::CORRECTION, number),
        };
        if kind != segment::SITE {
            self.given.executions = self.given.executions.max(counter + 1);
        }
        // There is one for each counter, and a second where it goes on in the next page.
        if self.given.segments >= exact::MOST_SEGMENTS {
            return;
        }
        let record = self.process.segment(self.given.segments);
        record.address.store(segment.ip, Relaxed);
        record.instructions.store(segment.instructions | kind << segment::KIND_SHIFT, Relaxed);
        record.counter.store(counter, Relaxed);
        self.given.segments += 1;
        self.process.header().segments.store(self.given.segments, Release);
        let page = segment.ip & !(PAGE - 1);
        if self.fetched.last() != Some(&page) {
            self.fetched.push(page);
        }
    }

    fn room(&mut self, ip: u64) -> Option<Room> {
        self.arenas.room(ip)
    }

    fn place(&mut self, room: &Room, hot: &[u8], cold: &[u8]) {
        for (to, bytes) in [(room.hot, hot), (room.cold, cold)] {
            // SAFETY: free space of an arena of ours: nobody executes it.
            unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), to as *mut u8, bytes.len()) };
        }
        self.arenas.fill(room, hot.len() as u64, cold.len() as u64);
        // Sites are published when they are complete, and before they are counted.
        self.process.header().sites.store(self.sites.len() as u32, Release);
    }

    fn died(&mut self, hot: u64, bytes: u32) {
        self.arenas.died(hot, u64::from(bytes));
    }

    fn patch(&mut self, address: u64, displacement: i32) {
        // Others write code only with the lock that the caller has, so what is around the displacement stays as it is.
        let shift = 8 * (address & 7);
        // SAFETY: code in an arena of ours, aligned here.
        let word = unsafe { AtomicU64::from_ptr((address & !7) as *mut u64) };
        let around = word.load(Relaxed) & !(u64::from(u32::MAX) << shift);
        word.store(around | u64::from(displacement as u32) << shift, Release);
    }
}
