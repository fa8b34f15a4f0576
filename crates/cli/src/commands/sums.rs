//! Sums that are written with a large profile, so that whoever opens it need not read all facts.

use numalens_analyze::{Dataset, LoadError, rollup};
use numalens_profile::Profile;

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
    if !rollup::is_worth_it(profile)? {
        return Ok(());
    }
    add(profile, &Dataset::load(profile, &Default::default(), rollup::NEEDS)?)
}
