//! Which perf events are opened, and with which attributes.

use crate::hardware::HardwareEvent;
use perf_event_open_sys::bindings::{self as sys, perf_event_attr};

/// What an event of ours reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EventKind {
    /// Every page fault, those of the kernel in system calls among them where it reports them: period 1.
    Fault,
    /// The CPU clock: where user time goes.
    Clock,
    /// Memory accesses sampled by the hardware.
    Hardware,
    /// No samples: mappings, names, births, deaths, context switches.
    Side,
}

/// Bytes of user stack that come with a page fault.
pub const FAULT_STACK_BYTES: u32 = 1024;
/// Bytes of user stack that come with a clock sample.
pub const CLOCK_STACK_BYTES: u32 = 4096;

/// General registers in x86 encoding order, as bits of `sample_regs_user` (asm/perf_regs.h):
/// the kernel numbers AX BX CX DX SI DI BP SP IP FLAGS CS SS DS ES FS GS R8..R15.
pub const REGISTERS: u64 = 0b1111_1111 | 1 << 8 | 0xff << 16;

/// An event to open on each CPU.
#[derive(Clone, Debug)]
pub struct EventPlan {
    pub kind: EventKind,
    pub attr: perf_event_attr,
    /// An event that must be opened before it, as the leader of its group; it takes no samples.
    pub leader: Option<perf_event_attr>,
    /// The CPUs that have it; none: all.
    pub cpus: Option<Vec<u32>>,
}

impl EventPlan {
    /// The same without what happens inside the kernel, which not everybody may watch; none if that is left out
    /// already.
    pub fn in_user_mode(&self) -> Option<Self> {
        let mut plan = self.clone();
        plan.attr.set_exclude_kernel(1);
        (self.kind == EventKind::Fault && self.attr.exclude_kernel() == 0).then_some(plan)
    }
}

/// Samples say where the thread was, with its registers and its stack.
fn with_stack(attr: &mut perf_event_attr) {
    attr.sample_type |= u64::from(
        sys::PERF_SAMPLE_IP
            | sys::PERF_SAMPLE_PERIOD
            | sys::PERF_SAMPLE_CALLCHAIN
            | sys::PERF_SAMPLE_REGS_USER
            | sys::PERF_SAMPLE_STACK_USER,
    );
    attr.sample_regs_user = REGISTERS;
    attr.sample_stack_user = CLOCK_STACK_BYTES;
    attr.set_exclude_callchain_kernel(1);
}

/// What all our events share: time stamps that compare with `CLOCK_MONOTONIC`, and ids to tell them apart.
fn common() -> perf_event_attr {
    let mut attr = perf_event_attr::default();
    attr.size = size_of::<perf_event_attr>() as u32;
    attr.sample_type =
        u64::from(sys::PERF_SAMPLE_IDENTIFIER | sys::PERF_SAMPLE_TID | sys::PERF_SAMPLE_TIME | sys::PERF_SAMPLE_CPU);
    attr.clockid = libc::CLOCK_MONOTONIC;
    attr.set_disabled(1);
    attr.set_inherit(1);
    attr.set_sample_id_all(1);
    attr.set_use_clockid(1);
    // What happens inside the kernel is not the program's own memory traffic, and watching it needs privileges.
    attr.set_exclude_kernel(1);
    attr.set_exclude_hv(1);
    attr
}

impl EventPlan {
    /// Whether `cpu` has this event.
    pub fn is_on(&self, cpu: u32) -> bool {
        self.cpus.as_ref().is_none_or(|cpus| cpus.contains(&cpu))
    }

    /// Mappings, names, tasks, switches.
    pub fn side() -> Self {
        let mut attr = common();
        attr.type_ = sys::PERF_TYPE_SOFTWARE;
        attr.config = u64::from(sys::PERF_COUNT_SW_DUMMY);
        attr.set_mmap(1);
        attr.set_mmap2(1);
        attr.set_mmap_data(1);
        attr.set_comm(1);
        attr.set_comm_exec(1);
        attr.set_task(1);
        attr.set_context_switch(1);
        EventPlan { kind: EventKind::Side, attr, leader: None, cpus: None }
    }

    /// Page faults, every one. Callers come from the stack's bytes: the kernel's own chain costs as much as all the
    /// rest of the record where `rbp` is no frame pointer, because it follows it into memory that is not there.
    ///
    /// What the kernel touches in a system call it touches for the thread: registers and stack are those with which the
    /// thread made it.
    pub fn faults() -> Self {
        let mut attr = common();
        attr.set_exclude_kernel(0);
        attr.type_ = sys::PERF_TYPE_SOFTWARE;
        attr.config = u64::from(sys::PERF_COUNT_SW_PAGE_FAULTS);
        attr.__bindgen_anon_1.sample_period = 1;
        attr.sample_type |= u64::from(
            sys::PERF_SAMPLE_IP | sys::PERF_SAMPLE_ADDR | sys::PERF_SAMPLE_REGS_USER | sys::PERF_SAMPLE_STACK_USER,
        );
        attr.sample_regs_user = REGISTERS;
        attr.sample_stack_user = FAULT_STACK_BYTES;
        EventPlan { kind: EventKind::Fault, attr, leader: None, cpus: None }
    }

    /// The CPU clock, one sample every `period_ns` of user time.
    pub fn clock(period_ns: u64) -> Self {
        let mut attr = common();
        attr.type_ = sys::PERF_TYPE_SOFTWARE;
        attr.config = u64::from(sys::PERF_COUNT_SW_CPU_CLOCK);
        attr.__bindgen_anon_1.sample_period = period_ns;
        with_stack(&mut attr);
        EventPlan { kind: EventKind::Clock, attr, leader: None, cpus: None }
    }

    /// Accesses sampled by the hardware, at `frequency` per second and CPU.
    pub fn hardware(event: &HardwareEvent, frequency: u64) -> Self {
        let mut attr = common();
        attr.type_ = event.type_;
        set_config(&mut attr, event.config);
        attr.__bindgen_anon_1.sample_freq = frequency;
        attr.set_freq(1);
        attr.set_precise_ip(u64::from(event.precise));
        attr.set_exclude_kernel(u64::from(event.exclude_kernel));
        attr.sample_type |= event.sample_type;
        with_stack(&mut attr);
        let leader = event.leader.map(|config| {
            let mut leader = common();
            leader.type_ = event.type_;
            set_config(&mut leader, config);
            leader
        });
        EventPlan { kind: EventKind::Hardware, attr, leader, cpus: event.cpus.clone() }
    }
}

fn set_config(attr: &mut perf_event_attr, config: [u64; 3]) {
    attr.config = config[0];
    attr.__bindgen_anon_3.config1 = config[1];
    attr.__bindgen_anon_4.config2 = config[2];
}
