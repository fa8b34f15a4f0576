//! Sums that are written with a large profile, so that whoever opens it need not read all facts.

use numalens_analyze::{Dataset, LoadError, rollup};
use numalens_profile::tables::PageAccess;
use numalens_profile::{Error, Profile};

/// Bytes that making them takes for each fact, at most.
const EACH: u64 = 8;

/// Whether a profile is so large that it should have sums, and memory has room for making them: half of what is free.
///
/// # Errors
/// The profile cannot be read.
pub fn are_due(profile: &Profile) -> Result<bool, Error> {
    let bytes = profile.count::<PageAccess>()?.saturating_mul(EACH);
    let free = std::fs::read_to_string("/proc/meminfo").ok().as_deref().and_then(available);
    Ok(rollup::is_worth_it(profile)? && free.is_none_or(|free| bytes <= free / 2))
}

/// Bytes that programs can have, by the text of /proc/meminfo.
fn available(meminfo: &str) -> Option<u64> {
    let kib = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB"))?;
    kib.parse::<u64>().ok()?.checked_mul(1024)
}

/// Adds them to a profile that has just been made. The dataset is that of the whole profile.
///
/// # Errors
/// They cannot be written. The profile is good without them.
pub fn add(profile: &Profile, dataset: &Dataset) -> Result<(), LoadError> {
    rollup::of(dataset, |contents| profile.replace_all(contents)).transpose()?;
    Ok(())
}

/// The same for who has no dataset of it.
///
/// # Errors
/// The profile cannot be read, or they cannot be written.
pub fn add_to(profile: &Profile) -> Result<(), LoadError> {
    if !are_due(profile)? {
        return Ok(());
    }
    add(profile, &Dataset::load(profile, &Default::default(), rollup::NEEDS)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_what_programs_can_have() {
        let meminfo = "MemTotal:       24689584 kB\nMemFree:          500000 kB\nMemAvailable:   23000000 kB\n";
        assert_eq!(available(meminfo), Some(23_000_000 * 1024));
        assert_eq!(available("MemTotal: 1 kB"), None);
    }
}
