//! Calls that move pages, of this process or of another one that is recorded, or ask where they are.

use super::nodes::{index_of, memory_nodes, number_of};
use super::others::Other;
use super::policies::{MF_MOVE, MF_MOVE_ALL, Result, fault, home_of, read_nodes, word};
use super::{placement, policy};
use crate::pages::{self, Exclusive};
use crate::state::maps::File;
use crate::state::runtime::Runtime;
use crate::state::thread::Thread;
use crate::sys::user;
use crate::sys::{self, PAGE, raw};
use alloc::vec;
use linux_raw_sys::errno::{E2BIG, EACCES, EFAULT, EINVAL, ENODEV, ENOENT, EPERM};

/// Whose pages a call is about.
enum Whose {
    /// This process's.
    Own,
    /// Those of another process of the recording.
    Others(Other),
}

impl Whose {
    /// Those of the process of the thread `pid`.
    fn of(runtime: &Runtime, pid: u64) -> Result<Self> {
        let pid = pid as u32;
        if pid == 0 || pid == sys::process_id() {
            return Ok(Whose::Own);
        }
        // SAFETY: asks about no pages: whether the kernel would answer.
        let asked = unsafe { sys::syscall(raw::__NR_move_pages, [pid.into(), 0, 0, 0, 0, 0]) };
        fault(sys::check(asked))?;
        let process = Other::process_of(runtime, pid).ok_or(EPERM)?;
        if process == runtime.process().extent {
            return Ok(Whose::Own);
        }
        Other::open(runtime, process).map(Whose::Others).ok_or(EPERM)
    }

    /// The number of the node that has the page at `address`, which is there.
    fn home(&mut self, runtime: &Runtime, thread: &Thread, address: u64) -> Option<u32> {
        match self {
            Whose::Own => home_of(runtime, thread, address),
            Whose::Others(other) => number_of(placement(), other.home(address / PAGE)?),
        }
    }

    /// Moves that page to the node of this index.
    fn move_page(&mut self, runtime: &Runtime, address: u64, node: u16) {
        match self {
            Whose::Own => {
                let file = runtime.code.lock().env.maps.find(address).map_or(File::NONE, |mapping| mapping.file);
                let page = address & !(PAGE - 1);
                pages::migrate(&runtime.shadow, runtime.process(), |_| file, page..page + PAGE, |_, _| Some(node));
            }
            Whose::Others(other) => other.move_page(address / PAGE, node),
        }
    }

    /// That is all.
    fn done(&self, runtime: &Runtime) {
        match self {
            Whose::Own => {
                pages::catch_up(&runtime.shadow, runtime);
            }
            Whose::Others(other) => other.publish_move(runtime),
        }
    }
}

/// move_pages.
pub fn move_pages(runtime: &Runtime, thread: &Thread, arguments: [u64; 6]) -> u64 {
    let [pid, count, pages, nodes, status, flags] = arguments;
    let moved = || {
        if flags & !(MF_MOVE | MF_MOVE_ALL) != 0 {
            return Err(EINVAL);
        }
        if flags & MF_MOVE_ALL != 0 && !sys::is_root() {
            return Err(EPERM);
        }
        let whose = Whose::of(runtime, pid)?;
        if count > u64::MAX >> 4 {
            return Err(E2BIG);
        }
        let mut list = List { runtime, thread, whose, nodes, status, all: flags & MF_MOVE_ALL != 0, unsaid: None };
        let done = list.go_through(pid, count, pages);
        if nodes != 0 {
            list.whose.done(runtime);
        }
        done
    };
    word(moved())
}

/// Pages that a program names.
struct List<'a> {
    runtime: &'a Runtime,
    thread: &'a Thread,
    whose: Whose,
    /// Where the nodes stand that they are to go to; 0: it only asks.
    nodes: u64,
    /// Where it is to be said where they are.
    status: u64,
    /// Those that are mapped several times as well.
    all: bool,
    /// Pages were moved to this node, of which it could not be said: the kernel moves pages that follow each other and
    /// have one target, and then says so.
    unsaid: Option<u32>,
}

impl List<'_> {
    fn go_through(&mut self, pid: u64, count: u64, pages: u64) -> Result<u64> {
        const AT_ONCE: u64 = 1024;
        let mut exclusive = Exclusive::of(if pid as u32 == 0 { self.thread.tid } else { pid as u32 });
        let mut addresses = vec![0u64; count.min(AT_ONCE) as usize];
        let mut numbers = vec![0i32; addresses.len()];
        let mut done = 0;
        while done < count {
            let some = (count - done).min(AT_ONCE) as usize;
            let (addresses, numbers) = (&mut addresses[..some], &mut numbers[..some]);
            fault(user::read_words(pages + done * 8, addresses))?;
            // SAFETY: asks where these pages are: as many words for the answers.
            let asked = unsafe {
                let (from, to) = (addresses.as_ptr() as u64, numbers.as_mut_ptr() as u64);
                sys::syscall(raw::__NR_move_pages, [pid, some as u64, from, 0, to, 0])
            };
            fault(sys::check(asked))?;
            for (place, (&address, &host)) in (done..).zip(addresses.iter().zip(&*numbers)) {
                if self.nodes == 0 {
                    let mut home = || self.whose.home(self.runtime, self.thread, address);
                    let reported = if host < 0 { host } else { home().map_or(-(ENOENT as i32), |node| node as i32) };
                    self.say(place, reported)?;
                } else {
                    self.one(place, address, host, &mut exclusive)?;
                }
            }
            done += some as u64;
        }
        if self.unsaid.is_some() { Err(EFAULT) } else { Ok(0) }
    }

    fn say(&self, place: u64, reported: i32) -> Result<()> {
        fault(user::write_bytes(self.status.wrapping_add(place * 4), &reported.to_le_bytes()))
    }

    /// Moves the page at `address`, if it is there: what the host says of it is no error.
    fn one(&mut self, place: u64, address: u64, host: i32, exclusive: &mut Exclusive) -> Result<()> {
        let mut node = [0u8; 4];
        fault(user::read_bytes(self.nodes.wrapping_add(place * 4), &mut node))?;
        let node = u32::from_le_bytes(node);
        let is_there = memory_nodes(placement()).contains(node);
        let index = index_of(placement(), node).filter(|_| is_there).ok_or(ENODEV)?;
        if self.unsaid.is_some_and(|before| before != node) {
            return Err(EFAULT);
        }
        let home = if host < 0 { None } else { self.whose.home(self.runtime, self.thread, address) };
        let stays = match home {
            _ if host < 0 => Some(host),
            None => Some(-(ENOENT as i32)),
            Some(home) if home == node => Some(node as i32),
            Some(_) if !self.all && !exclusive.has(address / PAGE) => Some(-(EACCES as i32)),
            Some(_) => None,
        };
        match stays {
            Some(_) if self.unsaid.is_some() => Err(EFAULT),
            Some(reported) => self.say(place, reported),
            None => {
                self.whose.move_page(self.runtime, address, index);
                if self.unsaid.is_none() && self.say(place, node as i32).is_err() {
                    self.unsaid = Some(node);
                }
                Ok(())
            }
        }
    }
}

/// migrate_pages.
pub fn migrate_pages(runtime: &Runtime, thread: &Thread, [pid, bits, from, to, ..]: [u64; 6]) -> u64 {
    let moved = || {
        let (from, to) = (read_nodes(from, bits)?, read_nodes(to, bits)?);
        let mut whose = Whose::of(runtime, pid)?;
        let memory = memory_nodes(placement());
        if !to.is_subset_of(&memory) && !sys::is_root() {
            return Err(EPERM);
        }
        let to = to.intersection(&memory);
        if to.is_empty() {
            return Err(EINVAL);
        }
        let mut exclusive = Exclusive::of(if pid as u32 == 0 { thread.tid } else { pid as u32 });
        let place = |page, home: u16| {
            let node = number_of(placement(), home)?;
            let index = index_of(placement(), policy::migrates(node, &from, &to)?)?;
            (sys::is_root() || exclusive.has(page)).then_some(index)
        };
        match &mut whose {
            Whose::Own => {
                let code = runtime.code.lock();
                let file = |page| code.env.maps.find(page * PAGE).map_or(File::NONE, |mapping| mapping.file);
                pages::migrate(&runtime.shadow, runtime.process(), file, 0..sys::USER_END, place);
            }
            Whose::Others(other) => other.migrate(place),
        }
        whose.done(runtime);
        Ok(0)
    };
    word(moved())
}
