//! Limits of the shell (`ulimit`) on the recorder: raised as far as that is allowed, and the command's own given back
//! to it.
//!
//! A limit is meant for the program, which keeps it to the byte. The recorder needs more: files as large as memory, a
//! descriptor for each event of each CPU. What it cannot have is an error before the program starts: at its end all
//! would be lost.

use crate::refused::refused;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::fmt;
use std::io;
use std::sync::Mutex;

/// A limit that a recording may run into.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    OpenFiles,
    FileSize,
    AddressSpace,
    Data,
    LockedMemory,
    Processes,
    CpuTime,
}

use Limit::*;

const ALL: [Limit; 7] = [OpenFiles, FileSize, AddressSpace, Data, LockedMemory, Processes, CpuTime];

impl Limit {
    fn resource(self) -> Resource {
        match self {
            OpenFiles => Resource::RLIMIT_NOFILE,
            FileSize => Resource::RLIMIT_FSIZE,
            AddressSpace => Resource::RLIMIT_AS,
            Data => Resource::RLIMIT_DATA,
            LockedMemory => Resource::RLIMIT_MEMLOCK,
            Processes => Resource::RLIMIT_NPROC,
            CpuTime => Resource::RLIMIT_CPU,
        }
    }

    /// What it limits, its letter for the shell's `ulimit`, and its name for systemd.
    fn words(self) -> [&'static str; 3] {
        match self {
            OpenFiles => ["open files", "n", "NOFILE"],
            FileSize => ["the size of files", "f", "FSIZE"],
            AddressSpace => ["address space", "v", "AS"],
            Data => ["the size of data", "d", "DATA"],
            LockedMemory => ["locked memory", "l", "MEMLOCK"],
            Processes => ["processes", "u", "NPROC"],
            CpuTime => ["processor time", "t", "CPU"],
        }
    }

    /// A value of it for people.
    fn shown(self, value: u64) -> String {
        match self {
            _ if value == u64::MAX => "no limit at all".to_owned(),
            OpenFiles | Processes => value.to_string(),
            CpuTime => format!("{value} seconds"),
            FileSize | AddressSpace | Data | LockedMemory => match value {
                0..=0x3ff => format!("{value} bytes"),
                0x400..=0xf_ffff => format!("{} KiB", value >> 10),
                _ => format!("{} MiB", value >> 20),
            },
        }
    }
}

/// A limit is too low, and may not be raised. Nothing has run.
#[derive(Debug)]
pub struct TooLow {
    pub limit: Limit,
    /// What is allowed at most, and what a recording needs: bytes, numbers or seconds.
    pub hard: u64,
    pub needed: u64,
    /// What for.
    pub purpose: &'static str,
}

impl fmt::Display for TooLow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [what, letter, name] = self.limit.words();
        let (hard, needed) = (self.limit.shown(self.hard), self.limit.shown(self.needed));
        let value = if self.needed == u64::MAX { "unlimited".to_owned() } else { "higher".to_owned() };
        write!(
            f,
            "{what}: the hard limit is {hard} (`ulimit -H{letter}`), setrlimit(RLIMIT_{name}) may not raise it, and a recording needs \
             {needed} {}. Nothing was run. Start from a shell without this limit, or have root set it {value} \
             (/etc/security/limits.conf; systemd: Limit{name}=)",
            self.purpose
        )
    }
}

/// A limit, how much of it a recording needs at least, and for what.
pub type Need = (Limit, u64, &'static str);

/// What was in force before, soft and hard: the command's.
static GIVEN: Mutex<Vec<(Limit, [u64; 2])>> = Mutex::new(Vec::new());

/// Raises what this process may use: all soft limits to the hard ones, and hard ones that are below a need to that,
/// where it has the right to. [`give_back`] lets the command have what was there before.
///
/// # Errors
/// The first need that cannot be met.
pub fn raise(needs: &[Need]) -> Result<(), TooLow> {
    for limit in ALL {
        let Ok((soft, hard)) = getrlimit(limit.resource()) else { continue };
        let (needed, purpose) = needs.iter().find(|need| need.0 == limit).map_or((0, ""), |need| (need.1, need.2));
        let wanted = hard.max(needed);
        if soft == wanted {
            continue;
        }
        let raised = setrlimit(limit.resource(), wanted, wanted);
        if raised.is_err() && hard < needed {
            return Err(TooLow { limit, hard, needed, purpose });
        }
        if raised.is_ok() {
            given().push((limit, [soft, hard]));
        }
    }
    Ok(())
}

/// Has a child that has not begun yet limited as this process was. Children that this one forks have its own limits
/// else.
///
/// # Errors
/// The kernel's: the child must not run then.
pub fn give_back(child: i32) -> io::Result<()> {
    for &(limit, [soft, hard]) in given().iter() {
        let old = libc::rlimit { rlim_cur: soft, rlim_max: hard };
        // SAFETY: a structure of our own; a child of ours that nobody has waited for.
        if unsafe { libc::prlimit(child, limit.resource() as _, &raw const old, std::ptr::null_mut()) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// A number for descriptors that is so high that programs have none there.
///
/// # Errors
/// The kernel's.
pub fn high_descriptor() -> io::Result<i32> {
    let (soft, _) = getrlimit(Resource::RLIMIT_NOFILE).map_err(|errno| refused("getrlimit", &errno.into()))?;
    Ok(i32::try_from(soft.min(1024)).unwrap_or(1024).saturating_sub(24).max(3))
}

/// Has the kernel make room for descriptors up to [`high_descriptor`]. To be called while this process has one thread:
/// of a table that threads share, the kernel waits until no processor looks at the smaller one any more, which takes
/// ten milliseconds.
pub fn make_room_for_descriptors() {
    let Ok(high) = high_descriptor() else { return };
    // SAFETY: duplicates a descriptor, and closes what that made. Without room now there is some when it is needed.
    unsafe {
        let made = libc::fcntl(libc::STDERR_FILENO, libc::F_DUPFD_CLOEXEC, high);
        if made >= 0 {
            libc::close(made);
        }
    }
}

/// Bytes that the first thread's stack may take; without an answer, any.
pub fn stack() -> u64 {
    getrlimit(Resource::RLIMIT_STACK).map_or(u64::MAX, |(soft, _)| soft)
}

fn given() -> std::sync::MutexGuard<'static, Vec<(Limit, [u64; 2])>> {
    GIVEN.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_call_the_cause_and_the_way_out() {
        let text = TooLow { limit: FileSize, hard: 16 << 10, needed: u64::MAX, purpose: "for its tables" }.to_string();
        for words in
            ["16 KiB", "ulimit -Hf", "setrlimit(RLIMIT_FSIZE)", "for its tables", "Nothing was run", "limits.conf"]
        {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert_eq!(Data.shown(100), "100 bytes");
        assert_eq!(OpenFiles.shown(16), "16");
    }
}
