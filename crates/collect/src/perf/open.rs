//! Opening the events of a recording on every CPU, and draining them in time order.

use super::attr::{EventKind, EventPlan};
use super::record::{Batch, identifier};
use super::ring::Ring;
use perf_event_data::endian::Native;
use perf_event_data::parse::ParseConfig;
use perf_event_open_sys as perf;
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// What is watched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// One thread and all that it will give birth to; counting starts at its next exec.
    FromExec(i32),
    /// A running thread and its future children.
    Running(i32),
    /// All that runs on the machine.
    Everything,
}

/// What an event needs of the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Call {
    /// `perf_event_open`, and what is set of the event then.
    Open,
    /// Memory for its records.
    MapRing,
}

/// Why an event could not be had.
#[derive(Debug, thiserror::Error)]
#[error("{} for {what} on CPU {cpu} failed: {error}", match call { Call::Open => "perf_event_open", Call::MapRing => "mmap of the ring" })]
pub struct OpenError {
    pub call: Call,
    pub what: String,
    pub cpu: u32,
    /// The same could be had on another CPU.
    pub elsewhere: bool,
    /// The thread had ended before it could be watched.
    pub gone: bool,
    #[source]
    pub error: io::Error,
}

impl OpenError {
    /// Less of it may do.
    fn is_about_memory(&self) -> bool {
        self.call == Call::MapRing && matches!(self.error.raw_os_error(), Some(libc::EPERM | libc::ENOMEM))
    }
}

/// With fewer a ring is of no use.
const LEAST_PAGES: usize = 16;

struct Cpu {
    ring: Ring,
    /// The event that owns the ring; the others write into it.
    owner: OwnedFd,
}

/// The open events, one ring for each CPU.
pub struct PerfEvents {
    cpus: Vec<Cpu>,
    others: Vec<OwnedFd>,
    kinds: HashMap<u64, (EventKind, ParseConfig<Native>)>,
    held_back: Batch,
    spare: Batch,
    /// Records that could not be decoded: a kernel newer than the decoder.
    pub unreadable: u64,
}

/// How long a record may take from its time stamp to the ring's head.
const SETTLE_NS: u64 = 500_000;

impl PerfEvents {
    /// Opens `plans` on `cpus` for `scope`. Rings get `ring_pages` pages each, fewer when the kernel's limit on
    /// locked memory (`perf_event_mlock_kb`, `ulimit -l`) does not allow so many for all CPUs.
    ///
    /// # Errors
    /// The kernel's, of the first event that it refuses.
    pub fn open(scope: Scope, plans: &[EventPlan], cpus: &[u32], mut ring_pages: usize) -> Result<Self, OpenError> {
        loop {
            match Self::open_with(scope, plans, cpus, ring_pages) {
                Err(error) if ring_pages > LEAST_PAGES && error.is_about_memory() => ring_pages /= 2,
                outcome => return outcome,
            }
        }
    }

    fn open_with(scope: Scope, plans: &[EventPlan], cpus: &[u32], ring_pages: usize) -> Result<Self, OpenError> {
        let mut events = PerfEvents {
            cpus: Vec::new(),
            others: Vec::new(),
            kinds: HashMap::new(),
            held_back: Batch::default(),
            spare: Batch::default(),
            unreadable: 0,
        };
        for &cpu in cpus {
            let opened = events.open_cpu(scope, plans, cpu, ring_pages);
            opened.map_err(|error| OpenError { elsewhere: !events.cpus.is_empty(), ..error })?;
        }
        Ok(events)
    }

    /// Watches one more running thread, into the same rings.
    pub fn add(&mut self, scope: Scope, plans: &[EventPlan], cpus: &[u32]) -> Result<(), OpenError> {
        for (index, &cpu) in cpus.iter().enumerate() {
            for plan in plans.iter().filter(|plan| plan.is_on(cpu)) {
                let event = self.open_event(scope, plan, cpu)?;
                if let Some(ring) = self.cpus.get(index) {
                    redirect(event.as_fd(), ring.owner.as_fd()).map_err(|e| failed(plan, cpu, e))?;
                }
                self.others.push(event);
            }
        }
        Ok(())
    }

    fn open_cpu(&mut self, scope: Scope, plans: &[EventPlan], cpu: u32, pages: usize) -> Result<(), OpenError> {
        let mut owner: Option<(OwnedFd, Ring)> = None;
        for plan in plans.iter().filter(|plan| plan.is_on(cpu)) {
            let event = self.open_event(scope, plan, cpu)?;
            match &owner {
                None => {
                    let refused = |error| OpenError { call: Call::MapRing, ..failed(plan, cpu, error) };
                    let ring = Ring::map(event.as_fd(), pages).map_err(refused)?;
                    owner = Some((event, ring));
                }
                Some((fd, _)) => {
                    redirect(event.as_fd(), fd.as_fd()).map_err(|e| failed(plan, cpu, e))?;
                    self.others.push(event);
                }
            }
        }
        if let Some((owner, ring)) = owner {
            self.cpus.push(Cpu { ring, owner });
        }
        Ok(())
    }

    /// Opens an event, without what happens in the kernel where that is forbidden.
    fn open_event(&mut self, scope: Scope, plan: &EventPlan, cpu: u32) -> Result<OwnedFd, OpenError> {
        match (self.open_as_it_is(scope, plan, cpu), plan.in_user_mode()) {
            (Err(error), Some(less)) if matches!(error.error.raw_os_error(), Some(libc::EACCES | libc::EPERM)) => {
                self.open_as_it_is(scope, &less, cpu)
            }
            (opened, _) => opened,
        }
    }

    fn open_as_it_is(&mut self, scope: Scope, plan: &EventPlan, cpu: u32) -> Result<OwnedFd, OpenError> {
        let group = match plan.leader {
            Some(leader) => {
                let leader = open_one(scope, leader, cpu, -1).map_err(|e| failed(plan, cpu, e))?;
                let fd = leader.as_raw_fd();
                self.others.push(leader);
                fd
            }
            None => -1,
        };
        let mut attr = plan.attr;
        // Wake the collector when a ring is half full, not at every record.
        attr.set_watermark(1);
        attr.__bindgen_anon_2.wakeup_watermark = 1 << 18;
        let event = open_one(scope, attr, cpu, group).map_err(|e| failed(plan, cpu, e))?;
        let mut id = 0u64;
        // SAFETY: a perf event descriptor, and a word for the answer.
        if unsafe { perf::ioctls::ID(event.as_raw_fd(), &mut id) } < 0 {
            return Err(failed(plan, cpu, io::Error::last_os_error()));
        }
        self.kinds.insert(id, (plan.kind, ParseConfig::<Native>::from(attr)));
        Ok(event)
    }

    /// Starts all events (those that wait for an exec start by themselves).
    pub fn enable(&self) {
        self.each_event(|fd| {
            // SAFETY: a perf event descriptor; the argument is not used.
            unsafe { perf::ioctls::ENABLE(fd, 0) };
        });
    }

    /// Stops all events.
    pub fn disable(&self) {
        self.each_event(|fd| {
            // SAFETY: a perf event descriptor; the argument is not used.
            unsafe { perf::ioctls::DISABLE(fd, 0) };
        });
    }

    fn each_event(&self, act: impl Fn(i32)) {
        self.cpus.iter().map(|cpu| &cpu.owner).chain(&self.others).for_each(|fd| act(fd.as_raw_fd()));
    }

    /// Records that did not fit into the rings, as the kernel counts them (6.0 and newer; else 0). Of these a ring
    /// tells only when it has room again and something more to say: those of a CPU on which nothing happens any more it
    /// keeps to itself.
    pub fn lost(&self) -> u64 {
        let lost = |fd: &OwnedFd| {
            let mut answer = [0u8; 16];
            match nix::unistd::read(fd, &mut answer) {
                Ok(16) => u64::from_ne_bytes(answer[8..].try_into().unwrap_or_default()),
                _ => 0,
            }
        };
        self.cpus.iter().map(|cpu| &cpu.owner).chain(&self.others).map(lost).sum()
    }

    /// Descriptors that become readable when a ring fills.
    pub fn wakeups(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.cpus.iter().map(|cpu| cpu.owner.as_fd())
    }

    /// Takes what the rings hold, in order of time, up to the batch's horizon. Unless `all`, what is younger
    /// than the call waits for the next.
    pub fn drain(&mut self, all: bool) -> Batch {
        let horizon = if all { u64::MAX } else { monotonic_ns().saturating_sub(SETTLE_NS) };
        let mut batch = std::mem::take(&mut self.spare);
        batch.take_from(&mut self.held_back);
        for cpu in &mut self.cpus {
            let (kinds, unreadable) = (&self.kinds, &mut self.unreadable);
            cpu.ring.drain(|bytes| {
                let read = identifier(bytes)
                    .and_then(|id| kinds.get(&id))
                    .is_some_and(|(kind, config)| batch.push(bytes, *kind, config));
                *unreadable += u64::from(!read);
            });
        }
        batch.records.sort_by_key(|record| record.time);
        let ready = batch.records.partition_point(|record| record.time <= horizon);
        batch.move_tail(ready, &mut self.held_back);
        batch.horizon = horizon;
        batch
    }

    /// Takes back a batch that has been read, to use its memory again: a burst of page faults makes batches of tens of
    /// megabytes, and fresh memory for each would cost the collector as many faults as the target.
    pub fn recycle(&mut self, mut batch: Batch) {
        batch.clear();
        self.spare = batch;
    }

    /// Bytes of memory that the rings hold.
    pub fn bytes(&self) -> usize {
        self.cpus.iter().map(|cpu| cpu.ring.bytes()).sum()
    }
}

/// Opens one event on one CPU; `group` is the leader's descriptor or -1.
fn open_one(scope: Scope, mut attr: perf::bindings::perf_event_attr, cpu: u32, group: i32) -> io::Result<OwnedFd> {
    let pid = match scope {
        Scope::FromExec(pid) => {
            attr.set_enable_on_exec(1);
            pid
        }
        Scope::Running(pid) => pid,
        Scope::Everything => {
            attr.set_inherit(0);
            -1
        }
    };
    attr.read_format = u64::from(perf::bindings::PERF_FORMAT_LOST);
    let flags = u64::from(perf::bindings::PERF_FLAG_FD_CLOEXEC);
    // SAFETY: `attr` is a valid attribute block of the size it says; the call writes nothing else.
    let mut fd = unsafe { perf::perf_event_open(&mut attr, pid, cpu as i32, group, flags) };
    if fd < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL) {
        // Kernels before 6.0 do not count what an event has lost.
        attr.read_format = 0;
        // SAFETY: as above.
        fd = unsafe { perf::perf_event_open(&mut attr, pid, cpu as i32, group, flags) };
    }
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just returned this descriptor, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn failed(plan: &EventPlan, cpu: u32, error: io::Error) -> OpenError {
    let what = match plan.kind {
        EventKind::Fault => "page faults",
        EventKind::Clock => "the CPU clock",
        EventKind::Hardware => "sampled memory accesses",
        EventKind::Side => "mappings and tasks",
    };
    OpenError {
        call: Call::Open,
        what: what.into(),
        cpu,
        elsewhere: false,
        gone: error.raw_os_error() == Some(libc::ESRCH),
        error,
    }
}

fn redirect(event: BorrowedFd<'_>, into: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: two perf event descriptors.
    match unsafe { perf::ioctls::SET_OUTPUT(event.as_raw_fd(), into.as_raw_fd()) } {
        0.. => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Now, on the clock of the records.
pub fn monotonic_ns() -> u64 {
    now_by(libc::CLOCK_MONOTONIC)
}

/// How long this thread has executed, in ns.
pub fn executed_ns() -> u64 {
    now_by(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn now_by(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a timespec to write into.
    unsafe { libc::clock_gettime(clock, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
