//! What the instructions `cpuid` and `lsl` tell of a virtual machine.
//!
//! Problem: OpenMP runtimes and hwloc bind a thread to one CPU after the other and ask `cpuid` there which package and
//! core it is; old C code reads CPU and node from the limit of a segment. Both would find the host.
//!
//! Mechanism: as the machine's files have it (`numalens_topology`), each node with CPUs is a package and each CPU a
//! core with one thread. So an APIC id is the package above the number of the core in it, in as many bits as the
//! largest package needs, and those leaves that tell of APIC ids and of who shares what are made from that:
//!
//! ```text
//!   1                              APIC id, threads of the package, whether there are several
//!   4, 0x8000_001D                 who shares a cache; how many cores
//!   0xB, 0x1F, 0x8000_0026         levels: a thread a core, cores a package
//!   0x8000_0008, 0x8000_001E       the same in AMD's words
//! ```
//! Vendor, features, sizes of caches and all other leaves are the host's. What the host does not have, the machine has
//! not either.

use super::calls::processor;
use super::nodes::node_of_cpu;
use super::place::Place;
use crate::state::thread::Thread;
use crate::sys;
use core::arch::asm;
use core::arch::x86_64::{__cpuid, __cpuid_count, CpuidResult};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use numalens_event::exact::{MOST_NODES, Placement};
use numalens_isa::{Register, flags};
use numalens_translator::{CpuQuery, context as fixed};

/// The segment of each CPU whose limit is the CPU and its node, without the bits of privilege.
const CPU_SEGMENT: u32 = 0x78;
const PRIVILEGE: u32 = 3;

/// Puts the answer into the registers of the program.
pub fn answer(thread: &Thread, placement: &Placement, query: CpuQuery) {
    let context = thread.context;
    match query {
        CpuQuery::Cpuid => {
            let (leaf, part) = (context.register(Register::Rax) as u32, context.register(Register::Rcx) as u32);
            let host = __cpuid_count(leaf, part);
            let reported = match is_about_cpus(leaf) {
                true => reported(&Seat::of(&thread.place, placement), Processor::of_host(), leaf, part, host),
                false => host,
            };
            context.set_register(Register::Rax, reported.eax.into());
            context.set_register(Register::Rbx, reported.ebx.into());
            context.set_register(Register::Rcx, reported.ecx.into());
            context.set_register(Register::Rdx, reported.edx.into());
        }
        CpuQuery::Limit { to, bytes, selector } => {
            let selector = context.register(selector) as u32 & 0xffff;
            let limit = match selector & !PRIVILEGE {
                CPU_SEGMENT => Some(processor(&thread.place, placement)),
                _ => limit_of(selector),
            };
            let flags = context.get(fixed::FLAGS);
            context.set(fixed::FLAGS, if limit.is_some() { flags | flags::ZERO } else { flags & !flags::ZERO });
            if let Some(limit) = limit {
                let changes = u64::MAX >> (64 - 8 * u32::from(bytes));
                context.set_register(to, context.register(to) & !changes | limit & changes);
            }
        }
    }
}

/// The limit of a segment of the host's.
fn limit_of(selector: u32) -> Option<u64> {
    let (limit, found): (u32, u8);
    // SAFETY: looks at a descriptor if there is one; no memory of ours is touched.
    unsafe {
        asm!("lsl {limit:e}, {selector:e}", "setz {found}", limit = inout(reg) 0 => limit, selector = in(reg) selector,
            found = out(reg_byte) found, options(nomem, nostack));
    }
    (found != 0).then_some(limit.into())
}

/// Who made the processor, as far as it matters what leaves mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Vendor {
    /// AMD, and Hygon after it.
    Amd,
    Other,
}

/// What must be known of the host's processor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Processor {
    vendor: Vendor,
    /// The last leaf, and the last of those from [`EXTENDED`] on, as far as there are any that matter.
    last: [u16; 2],
}

/// That, packed by [`Processor::pack`]: under a hypervisor every `cpuid` takes longer than all the rest. 0: not asked
/// for yet.
static HOST: AtomicU64 = AtomicU64::new(0);

impl Processor {
    fn of_host() -> Self {
        match HOST.load(Relaxed) {
            0 => {
                let first = __cpuid(0);
                let vendor = match &first.ebx.to_le_bytes() {
                    b"Auth" | b"Hygo" => Vendor::Amd,
                    _ => Vendor::Other,
                };
                let last =
                    [first.eax, __cpuid(EXTENDED).eax].map(|leaf| (leaf & !EXTENDED).min(u16::MAX.into()) as u16);
                let processor = Processor { vendor, last };
                HOST.store(processor.pack(), Relaxed);
                processor
            }
            known => Processor::unpack(known),
        }
    }

    fn pack(self) -> u64 {
        let [last, extended] = self.last.map(u64::from);
        1 << 63 | u64::from(self.vendor == Vendor::Amd) << 32 | extended << 16 | last
    }

    fn unpack(word: u64) -> Self {
        let vendor = if word >> 32 & 1 != 0 { Vendor::Amd } else { Vendor::Other };
        Processor { vendor, last: [word as u16, (word >> 16) as u16] }
    }

    fn has(&self, leaf: u32) -> bool {
        let last = self.last[usize::from(leaf & EXTENDED != 0)];
        leaf & !EXTENDED <= last.into()
    }
}

/// Where in the machine a thread is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Seat {
    package: u32,
    core: u32,
    /// In the package.
    cores: u32,
    /// Bits of a core's number in the largest package.
    core_bits: u32,
}

impl Seat {
    fn of(place: &Place, placement: &Placement) -> Self {
        let (cpu, package) = place.current(placement, sys::cpu).unwrap_or((0, 0));
        let mut cores = [0u32; MOST_NODES];
        let mut core = 0;
        for other in 0..placement.cpu_numbers.load(Relaxed) {
            let Some(node) = node_of_cpu(placement, other) else { continue };
            core += u32::from(node == package && other < cpu);
            if let Some(cores) = cores.get_mut(usize::from(node)) {
                *cores += 1;
            }
        }
        let most = cores.iter().max().map_or(1, |&most| most.max(1));
        let cores = cores.get(usize::from(package)).map_or(1, |&cores| cores.max(1));
        Seat { package: package.into(), core, cores, core_bits: most.next_power_of_two().trailing_zeros() }
    }

    fn apic(&self) -> u32 {
        self.package << self.core_bits | self.core
    }

    /// APIC ids of a package, used or not.
    fn ids(&self) -> u32 {
        1 << self.core_bits
    }
}

/// Whether a leaf may tell CPUs apart.
fn is_about_cpus(leaf: u32) -> bool {
    matches!(leaf, 1 | 4 | 0xb | 0x1f | 0x8000_0008 | 0x8000_001d | 0x8000_001e | 0x8000_0026)
}

/// What the machine tells where the host's processor says this.
fn reported(seat: &Seat, processor: Processor, leaf: u32, part: u32, host: CpuidResult) -> CpuidResult {
    if !processor.has(leaf) {
        return host;
    }
    let vendor = processor.vendor;
    match (leaf, vendor) {
        (1, _) => {
            const SEVERAL: u32 = 1 << 28;
            // AMD has the threads themselves there, others the ids that they may have.
            let threads = if vendor == Vendor::Amd { seat.cores } else { seat.ids() };
            let several = if seat.core_bits > 0 { SEVERAL } else { 0 };
            let ebx = field(field(host.ebx, 24, 8, seat.apic() & 0xff), 16, 8, threads);
            CpuidResult { ebx, edx: host.edx & !SEVERAL | several, ..host }
        }
        (4, Vendor::Other) if is_cache(&host) => {
            let eax = field(shared(seat, &host), 26, 6, seat.ids() - 1);
            CpuidResult { eax, ..host }
        }
        (0x8000_001d, Vendor::Amd) if is_cache(&host) => CpuidResult { eax: shared(seat, &host), ..host },
        (0xb | 0x1f, _) => level(seat, part, CORES),
        (0x8000_0026, Vendor::Amd) => level(seat, part, SOCKET),
        (0x8000_0008, Vendor::Amd) => {
            let ecx = field(field(host.ecx, 12, 4, seat.core_bits), 0, 8, seat.cores - 1);
            CpuidResult { ecx, ..host }
        }
        (0x8000_001e, Vendor::Amd) => {
            // One thread a core, one node a package.
            let ebx = field(field(host.ebx, 8, 8, 0), 0, 8, seat.core);
            let ecx = field(field(host.ecx, 8, 3, 0), 0, 8, seat.package);
            CpuidResult { eax: seat.apic(), ebx, ecx, ..host }
        }
        _ => host,
    }
}

/// The first of the leaves beyond the basic ones; it tells the last.
const EXTENDED: u32 = 1 << 31;
/// What a level of threads is made of: the second one of leaves 0xB and 0x1F.
const CORES: u32 = 2;
/// The last one of AMD's leaf.
const SOCKET: u32 = 4;

/// Sets some bits, to the highest number there is where the value is too large.
fn field(word: u32, from: u32, bits: u32, value: u32) -> u32 {
    let most = (1 << bits) - 1;
    word & !(most << from) | value.min(most) << from
}

/// Whether a leaf about caches has one: it has a type.
fn is_cache(cache: &CpuidResult) -> bool {
    cache.eax & 0x1f != 0
}

/// The first word about a cache with those who share it: a package, if so large a one can be shared by cores.
fn shared(seat: &Seat, cache: &CpuidResult) -> u32 {
    let (level, threads) = (cache.eax >> 5 & 7, (cache.eax >> 14 & 0xfff) + 1);
    // As in the machine's files.
    let is_shared = level > 2 || level == 2 && threads > 2;
    field(cache.eax, 14, 12, if is_shared { seat.ids() - 1 } else { 0 })
}

/// A level of threads: that of a core, that of a package, which has the type `last`, and none.
fn level(seat: &Seat, part: u32, last: u32) -> CpuidResult {
    const THREADS: u32 = 1;
    let (shift, threads, kind) = match part {
        0 => (0, 1, THREADS),
        1 => (seat.core_bits, seat.cores, last),
        _ => (0, 0, 0),
    };
    CpuidResult { eax: shift, ebx: threads, ecx: kind << 8 | part & 0xff, edx: seat.apic() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::place::tests::machine;
    use crate::machine::policy::Policy;
    use numalens_event::exact::threads;

    const SEAT: Seat = Seat { package: 3, core: 2, cores: 5, core_bits: 3 };
    const NOTHING: CpuidResult = CpuidResult { eax: 0, ebx: 0, ecx: 0, edx: 0 };

    /// What is told where the host, which has all leaves, says this.
    fn of(seat: &Seat, vendor: Vendor, leaf: u32, part: u32, host: CpuidResult) -> CpuidResult {
        reported(seat, Processor { vendor, last: [u16::MAX; 2] }, leaf, part, host)
    }

    #[test]
    fn seats_are_counted_within_nodes() {
        let machine = machine(threads::SPREAD);
        let seat =
            |cpu: u32| Seat::of(&Place::among([cpu].into_iter().collect(), Policy::NONE).seated(&machine, 0), &machine);
        assert_eq!(seat(6), Seat { package: 1, core: 2, cores: 4, core_bits: 2 });
        let ids: alloc::vec::Vec<u32> = (0..16).map(|cpu| seat(cpu).apic()).collect();
        assert!(ids.iter().copied().eq(0..16), "{ids:?}");
    }

    #[test]
    fn ids_are_reported_in_all_ways() {
        let host = CpuidResult { eax: 0x543, ebx: 0x0704_0800, ecx: 0xfeda_3203, edx: 0x078b_fbff };
        for (vendor, threads) in [(Vendor::Other, 8), (Vendor::Amd, 5)] {
            let first = of(&SEAT, vendor, 1, 0, host);
            assert_eq!(first, CpuidResult { ebx: 26 << 24 | threads << 16 | 0x800, edx: 0x178b_fbff, ..host });
        }
        let alone = Seat { package: 7, core: 0, cores: 1, core_bits: 0 };
        let first = of(&alone, Vendor::Other, 1, 0, CpuidResult { edx: 1 << 28, ..host });
        assert_eq!((first.ebx >> 16, first.edx), (7 << 8 | 1, 0));
        let large = Seat { package: 2, core: 299, cores: 300, core_bits: 9 };
        assert_eq!(of(&large, Vendor::Other, 1, 0, host).ebx >> 16, ((2 * 512 + 299) % 256) << 8 | 255);
        for leaf in [0xb, 0x1f] {
            let levels = [0, 1, 2].map(|part| of(&SEAT, Vendor::Other, leaf, part, host));
            let level = |eax, ebx, ecx| CpuidResult { eax, ebx, ecx, edx: 26 };
            assert_eq!(levels, [level(0, 1, 0x100), level(3, 5, 0x201), level(0, 0, 2)]);
        }
    }

    #[test]
    fn caches_are_private_or_a_package_s() {
        let cache =
            |level: u32, threads: u32| CpuidResult { eax: 7 << 26 | (threads - 1) << 14 | level << 5 | 3, ..NOTHING };
        for (level, threads, wanted) in [(1, 2, 0), (2, 2, 0), (2, 8, 7), (3, 1, 7), (3, 64, 7)] {
            let intel = of(&SEAT, Vendor::Other, 4, 2, cache(level, threads));
            assert_eq!((intel.eax >> 14 & 0xfff, intel.eax >> 26, intel.eax & 0xff), (wanted, 7, level << 5 | 3));
            let amd = of(&SEAT, Vendor::Amd, 0x8000_001d, 2, cache(level, threads));
            assert_eq!(amd.eax >> 14 & 0xfff, wanted);
        }
        assert_eq!(of(&SEAT, Vendor::Other, 4, 9, NOTHING), NOTHING);
    }

    #[test]
    fn amd_has_words_of_its_own() {
        let all = CpuidResult { eax: !0, ebx: !0, ecx: !0, edx: !0 };
        let cores = of(&SEAT, Vendor::Amd, 0x8000_0008, 0, all);
        assert_eq!((cores.ecx & 0xff, cores.ecx >> 12 & 15, cores.eax), (4, 3, !0));
        let unit = of(&SEAT, Vendor::Amd, 0x8000_001e, 0, all);
        assert_eq!((unit.eax, unit.ebx & 0xffff, unit.ecx & 0x7ff), (26, 2, 3));
        assert_eq!(of(&SEAT, Vendor::Amd, 0x8000_0026, 1, all).ecx, 0x401);
        for leaf in [0x8000_0008, 0x8000_001d, 0x8000_001e, 0x8000_0026] {
            assert_eq!(of(&SEAT, Vendor::Other, leaf, 0, all), all);
        }
    }

    #[test]
    fn all_else_is_the_host_s() {
        for leaf in [0, 7, 0xd, 0x16, 0x4000_0000, 0x8000_0000, 0x8000_0002] {
            assert!(!is_about_cpus(leaf), "{leaf:x}");
        }
        let old = Processor { vendor: Vendor::Other, last: [7, 8] };
        for (leaf, has) in [(4, true), (7, true), (0xb, false), (0x8000_0008, true), (0x8000_001e, false)] {
            assert_eq!(old.has(leaf), has, "{leaf:x}");
        }
        assert_eq!(reported(&SEAT, old, 0xb, 1, NOTHING), NOTHING);
    }

    #[test]
    fn the_host_is_asked_once() {
        let host = Processor::of_host();
        assert_eq!((Processor::unpack(host.pack()), Processor::of_host()), (host, host));
        assert!(host.has(1) && host.has(EXTENDED));
    }

    #[test]
    fn limits_are_looked_up_by_the_processor() {
        // The data of 64-bit programs, and no segment.
        assert_eq!((limit_of(0x2b), limit_of(0xfff8)), (Some(0xffff_ffff), None));
    }
}
