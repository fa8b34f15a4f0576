//! How much memory the machine has, where programs ask for that of all nodes together: `sysinfo` and `/proc/meminfo`.
//!
//! The sum is the machine's; of it as much is free, cached and so on as of the host's memory. Swap, huge pages and the
//! kernel's own address space are the host's.

use super::placement;
use crate::sys::user;
use crate::sys::{self, Errno, raw};
use crate::syscalls::call::errno;
use alloc::string::String;
use core::fmt::{self, Write};
use core::sync::atomic::Ordering::Relaxed;
use linux_raw_sys::errno::EFAULT;

/// What is no part of the machine's memory.
const HOSTS: [&str; 4] = ["Swap", "Vmalloc", "Huge", "DirectMap"];

/// An amount of the host's memory as one of the machine's, of which these are the sums.
fn scaled(amount: u64, machine: u64, host: u64) -> u64 {
    let all = u128::from(host.max(1));
    u64::try_from(u128::from(amount) * u128::from(machine) / all).unwrap_or(u64::MAX)
}

/// sysinfo. None: nothing is known of the machine's memory.
pub fn sysinfo([to, ..]: [u64; 6]) -> Option<u64> {
    let machine = placement().memory_kib.load(Relaxed);
    if machine == 0 {
        return None;
    }
    let mut words = [0u64; WORDS];
    // SAFETY: the program's own call, with a structure of our own for the answer.
    let result = unsafe { sys::for_program(raw::__NR_sysinfo, [words.as_mut_ptr() as u64, 0, 0, 0, 0, 0]) };
    if sys::check(result).is_err() {
        return Some(result);
    }
    with_memory(&mut words, machine);
    Some(match user::write_words(to, &words) {
        Ok(()) => result,
        Err(Errno(_)) => errno(EFAULT),
    })
}

/// Words of `struct sysinfo`.
const WORDS: usize = 14;

fn with_memory(words: &mut [u64; WORDS], machine_kib: u64) {
    const TOTAL: usize = 4;
    const BUFFERS: usize = 7;
    let unit = (words[WORDS - 1] & 0xffff_ffff).max(1);
    let (machine, host) = (machine_kib * 1024 / unit, words[TOTAL]);
    words[TOTAL..=BUFFERS].iter_mut().for_each(|amount| *amount = scaled(*amount, machine, host));
}

/// Writes the kernel's text about the memory of all nodes for as much as the machine has.
pub fn write(to: &mut String, text: &str) -> fmt::Result {
    match placement().memory_kib.load(Relaxed) {
        0 => to.write_str(text),
        machine => write_for(to, text, machine),
    }
}

fn write_for(to: &mut String, text: &str, machine: u64) -> fmt::Result {
    let amount = |line: &str| line.split_once(':')?.1.strip_suffix(" kB")?.trim().parse::<u64>().ok();
    let host = text.lines().find(|line| line.starts_with("MemTotal:")).and_then(amount).unwrap_or(machine);
    for line in text.lines() {
        match (line.split_once(':'), amount(line)) {
            (Some((name, _)), Some(amount)) if !HOSTS.iter().any(|hosts| name.starts_with(hosts)) => {
                let name = Label(name);
                writeln!(to, "{name}{:>8} kB", scaled(amount, machine, host))?;
            }
            _ => writeln!(to, "{line}")?,
        }
    }
    Ok(())
}

/// A name with its colon, in a column.
struct Label<'a>(&'a str);

impl fmt::Display for Label<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:blanks$}", self.0, "", blanks = 15usize.saturating_sub(self.0.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_those_of_the_machine() {
        let text = "MemTotal:        1000 kB\nMemFree:          500 kB\nActive(file):     30 kB\nSwapTotal:       70 kB\nHugePages_Total:       2\n";
        let mut to = String::new();
        write_for(&mut to, text, 64_000_000).unwrap();
        let wanted = "MemTotal:       64000000 kB\nMemFree:        32000000 kB\nActive(file):    1920000 kB\nSwapTotal:       70 kB\nHugePages_Total:       2\n";
        assert_eq!(to, wanted);
        let mut words = [0u64; WORDS];
        (words[4], words[5], words[8], words[13]) = (1000, 250, 7, 4096);
        with_memory(&mut words, 8000);
        assert_eq!((words[4], words[5], words[8]), (2000, 500, 7));
    }
}
