//! Checks of `perf_event_open`: each opens what a recording opens, makes something happen, and looks for the sample.

use super::advice::{self, Advice};
use super::settings::Settings;
use super::{Check, Verdict};
use crate::hardware;
use crate::perf::{EventKind, EventPlan, Payload, PerfEvents, Scope, executed_ns};
use nix::errno::Errno;
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use numalens_event::page::{self, PAGE};
use perf_event_open_sys as perf;
use std::num::NonZeroUsize;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Pages of ring buffer for a check.
const RING_PAGES: usize = 16;
/// The clock's period while checking.
const PERIOD_NS: u64 = 1_000_000;
/// CPU time after which a clock that has not ticked is given up, in nanoseconds.
const PATIENCE_NS: u64 = 300_000_000;

/// All checks that are about `perf_event_open`.
pub(super) fn checks(settings: &Settings) -> Vec<Check> {
    vec![faults(settings), clock(settings), running(settings), everything(settings), hardware_sampling(settings)]
}

fn this_thread() -> Scope {
    Scope::Running(nix::unistd::gettid().as_raw())
}

fn cpus() -> Vec<u32> {
    crate::homes::thread_affinity(0).map(|cpus| cpus.iter().collect()).unwrap_or_else(|_| vec![0])
}

/// Opens events on this thread as a recording does.
fn open(plan: EventPlan, settings: &Settings) -> Result<PerfEvents, (Errno, Advice)> {
    // What happens in the kernel is left out where it may not be watched, as in a recording.
    let in_user_mode =
        || plan.in_user_mode().ok_or(()).and_then(|less| try_open(&less, this_thread(), -1).map_err(drop));
    try_open(&plan, this_thread(), -1)
        .or_else(|errno| in_user_mode().map_err(|()| errno))
        .map_err(|errno| (errno, advice::perf_open(errno, settings, Scope::FromExec(0))))?;
    // The kernel has granted the event itself: what fails now is the ring buffer, or the number of events.
    PerfEvents::open(this_thread(), &[plan], &cpus(), RING_PAGES).map_err(|error| {
        let errno = Errno::from_raw(error.error.raw_os_error().unwrap_or(0));
        let advice = match errno {
            Errno::EMFILE | Errno::ENFILE => advice::perf_open(errno, settings, Scope::FromExec(0)),
            _ => advice::perf_ring(errno, settings),
        };
        (errno, advice)
    })
}

/// Only whether the kernel grants the event.
fn try_open(plan: &EventPlan, scope: Scope, cpu: i32) -> Result<(), Errno> {
    let mut attr = plan.attr;
    let pid = match scope {
        Scope::FromExec(pid) | Scope::Running(pid) => pid,
        Scope::Everything => {
            attr.set_inherit(0);
            -1
        }
    };
    // SAFETY: `attr` is a valid attribute block of the size it says; the call writes nothing else.
    let fd = unsafe { perf::perf_event_open(&mut attr, pid, cpu, -1, u64::from(perf::bindings::PERF_FLAG_FD_CLOEXEC)) };
    if fd < 0 {
        return Err(Errno::last());
    }
    // SAFETY: the call has just returned this descriptor, and nobody else knows it; dropping closes it.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
    Ok(())
}

fn faults(settings: &Settings) -> Check {
    let check = Check::new(
        "page-faults",
        "which thread and line touches a page first",
        "a page touched here was reported with its address and registers",
    )
    .essential();
    let mut events = match open(EventPlan::faults(), settings) {
        Ok(events) => events,
        Err((errno, advice)) => return check.advised(errno, advice),
    };
    let Some(length) = NonZeroUsize::new(PAGE as usize) else { return check };
    let (protection, flags) = (ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_PRIVATE);
    // SAFETY: a fresh mapping at an address of the kernel's choice.
    let page = match unsafe { mmap_anonymous(None, length, protection, flags) } {
        Ok(page) => page,
        Err(errno) => return check.limited(format!("no memory for a test page: {}", errno.desc())).errno(errno),
    };
    events.enable();
    // SAFETY: the page mapped above; volatile, so that the store happens between the two calls.
    unsafe { page.as_ptr().cast::<u8>().write_volatile(1) };
    events.disable();
    let address = page.as_ptr() as u64;
    // SAFETY: exactly the mapping made above, used no more.
    let _ = unsafe { munmap(page, length.get()) };
    let seen = samples(&mut events, EventKind::Fault, |sample| {
        page::begin(sample.address) == address && sample.registers.is_some()
    });
    if seen { check } else { check.fails("the event was opened, but a page touched here was not reported") }
}

fn clock(settings: &Settings) -> Check {
    let check = Check::new(
        "cpu-clock",
        "where time goes at memory instructions",
        "samples arrive with registers and a piece of the stack",
    )
    .essential();
    let mut events = match open(EventPlan::clock(PERIOD_NS), settings) {
        Ok(events) => events,
        Err((errno, advice)) => return check.advised(errno, advice),
    };
    events.enable();
    let start = executed_ns();
    let mut seen = Seen::default();
    while executed_ns() - start < PATIENCE_NS && !seen.complete() {
        for round in 0..100_000u32 {
            std::hint::black_box(round);
        }
        let batch = events.drain(true);
        for record in &batch.records {
            if let Payload::Sampled(sample) = &record.payload {
                seen.any = true;
                seen.registers |= sample.registers.is_some();
                seen.stack |= !batch.stack(sample).is_empty();
            }
        }
    }
    events.disable();
    match seen {
        Seen { any: false, .. } => check.fails("the clock was opened, but did not tick while this program was running"),
        Seen { registers: false, .. } => check.fails("samples arrive without registers: addresses cannot be recovered"),
        Seen { stack: false, .. } => {
            check.limited("samples arrive without a piece of the stack: call stacks need frame pointers")
        }
        _ => check,
    }
}

#[derive(Default)]
struct Seen {
    any: bool,
    registers: bool,
    stack: bool,
}

impl Seen {
    fn complete(&self) -> bool {
        self.any && self.registers && self.stack
    }
}

fn samples(events: &mut PerfEvents, kind: EventKind, wanted: impl Fn(&crate::perf::Sampled) -> bool) -> bool {
    events.drain(true).records.iter().any(|record| match &record.payload {
        Payload::Sampled(sample) => sample.kind == kind && wanted(sample),
        _ => false,
    })
}

/// A process of this user that waits until it is dropped.
pub(super) struct Bystander(Child);

impl Bystander {
    pub fn start() -> std::io::Result<Self> {
        // It reads a pipe that nobody writes.
        let child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        Ok(Bystander(child))
    }

    pub fn pid(&self) -> i32 {
        self.0.id() as i32
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        // It may have ended by itself; nothing is left to do then.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn running(settings: &Settings) -> Check {
    let check = Check::new(
        "attach",
        "record --pid: watching a program that runs already",
        "a running program of this user can be watched",
    );
    let bystander = match Bystander::start() {
        Ok(bystander) => bystander,
        Err(error) => return check.limited(format!("not tried: `cat` cannot be started: {error}")),
    };
    let scope = Scope::Running(bystander.pid());
    if let Err(errno) = try_open(&EventPlan::clock(PERIOD_NS), scope, -1) {
        return check.advised(errno, advice::perf_open(errno, settings, scope));
    }
    match settings.ptrace_scope {
        Some(1..) if !settings.capabilities.ptrace => check
            .limited("running programs can be watched, but their memory cannot be read: code made at run time is not decoded")
            .setting(settings.setting(super::settings::PTRACE_SCOPE))
            .fix(format!("sudo sysctl {}=0", super::settings::PTRACE_SCOPE)),
        _ => check,
    }
}

fn everything(settings: &Settings) -> Check {
    let check = Check::new("whole-machine", "record --all", "all programs of the machine can be watched");
    let cpu = cpus().first().map_or(0, |&cpu| cpu as i32);
    match try_open(&EventPlan::clock(PERIOD_NS), Scope::Everything, cpu) {
        Ok(()) => check,
        Err(errno) => {
            let mut check = check.advised(errno, advice::perf_open(errno, settings, Scope::Everything));
            // One's own programs do not need it.
            check.verdict = Verdict::Limited;
            check
        }
    }
}

fn hardware_sampling(settings: &Settings) -> Check {
    let check = Check::new("memory-sampling", "accesses counted by the processor (PEBS, IBS) instead of time", "");
    let sysfs = Path::new("/sys");
    if let Some(absent) = hardware::why_absent(sysfs) {
        return check.limited(format!("{absent}; recordings use the CPU clock and weigh time"));
    }
    let Some(found) = hardware::detect(sysfs) else { return check.limited("changed while looking") };
    let names: Vec<&str> = found.events.iter().map(|event| event.name.as_str()).collect();
    for event in &found.events {
        let mut plan = EventPlan::hardware(event, 997);
        // An event with a leader cannot be opened alone: that its leader can be is what is tried then.
        if let Some(leader) = plan.leader.take() {
            plan.attr = leader;
        }
        if let Err(errno) = try_open(&plan, this_thread(), -1) {
            let mut check = check.advised(errno, advice::perf_open(errno, settings, Scope::FromExec(0)));
            check.verdict = Verdict::Limited;
            check.finding =
                format!("{} exists but cannot be opened: {}; recordings use the CPU clock", event.name, check.finding);
            return check;
        }
    }
    Check {
        finding: format!("{} (opens; how its records are read has not been tested on hardware yet)", names.join(", ")),
        ..check
    }
}
