//! The agents' clock: what the time stamp counter says, in nanoseconds of `CLOCK_MONOTONIC`.
//!
//! A system call at every first touch would cost more than the rest of it, and a program's own filters may forbid it.
//! So the collector relates the two clocks, at the start over a fraction of a millisecond and then better and better,
//! and the agents multiply. Where the kernel itself does not trust the counter, they ask the kernel.

use crate::perf::monotonic_ns;
use numalens_event::exact::{ClockAnchor, SessionHeader};
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::time::{Duration, Instant};

/// How long the first comparison takes.
const FIRST: Duration = Duration::from_micros(200);
/// And where it is the only one.
const ONLY: Duration = Duration::from_millis(20);
/// Clock sources of kernels that trust the counter.
const TRUSTED: [&str; 3] = ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page"];
const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// By how much the clocks of agents, library and collector may differ.
pub const CLOCKS_DIFFER_NS: u64 = 200_000;

/// The relation between both clocks.
pub struct Clock {
    first: (u64, u64),
}

impl Clock {
    /// Sets the clock of a session for the first time; none where the counter is no clock. With `only`, for all time: a
    /// clock that is set anew may step back, and then what happened is not in order of time.
    pub fn start(header: &SessionHeader, only: bool) -> Option<Self> {
        let source = std::fs::read_to_string(SOURCE).unwrap_or_default();
        if !TRUSTED.contains(&source.trim()) {
            return None;
        }
        let clock = Clock { first: reading() };
        let begun = Instant::now();
        while begun.elapsed() < if only { ONLY } else { FIRST } {
            std::hint::spin_loop();
        }
        clock.set(header);
        Some(clock)
    }

    /// Sets it again, from a longer comparison.
    pub fn set(&self, header: &SessionHeader) {
        let (ticks, ns) = reading();
        let passed = u128::from(ticks.saturating_sub(self.first.0)).max(1);
        let rate = (u128::from(ns.saturating_sub(self.first.1)) << 32) / passed;
        let next = header.clock_in_force.load(Relaxed) ^ 1;
        let ClockAnchor { ticks: to_ticks, ns: to_ns, ns_per_tick } = &header.clock[next as usize & 1];
        to_ticks.store(ticks, Relaxed);
        to_ns.store(ns, Relaxed);
        ns_per_tick.store(rate as u64, Relaxed);
        header.clock_in_force.store(next, Release);
    }
}

/// What the agents' clock says now.
pub fn agents_now(header: &SessionHeader) -> u64 {
    let anchor = &header.clock[header.clock_in_force.load(Relaxed) as usize & 1];
    // SAFETY: every x86-64 has the counter.
    anchor.at(unsafe { core::arch::x86_64::_rdtsc() }).unwrap_or_else(monotonic_ns)
}

/// Both clocks at one moment: the closest of a few tries.
fn reading() -> (u64, u64) {
    let tries = (0..4).map(|_| {
        // SAFETY: every x86-64 has the counter.
        let before = unsafe { core::arch::x86_64::_rdtsc() };
        let ns = monotonic_ns();
        // SAFETY: as above.
        let after = unsafe { core::arch::x86_64::_rdtsc() };
        (after.wrapping_sub(before), before + after.wrapping_sub(before) / 2, ns)
    });
    tries.min().map_or((0, 0), |(_, ticks, ns)| (ticks, ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_tells_the_kernels_time() {
        // SAFETY: atomic integers, for which zeros are values.
        let header: SessionHeader = unsafe { std::mem::zeroed() };
        let Some(clock) = Clock::start(&header, false) else { return };
        clock.set(&header);
        // SAFETY: every x86-64 has the counter.
        let ticks = unsafe { core::arch::x86_64::_rdtsc() };
        let (ours, kernel) =
            (header.clock[header.clock_in_force.load(Relaxed) as usize].at(ticks).unwrap(), monotonic_ns());
        assert!(ours.abs_diff(kernel) < 1_000_000_000, "{ours} {kernel}");
    }
}
