//! What one row tells about itself.

use super::{Checked, Found, each_row};
use crate::ids::Bin;
use crate::tables::*;

fn forwards(what: &dyn std::fmt::Display, start: u64, end: Option<u64>) -> Option<String> {
    end.filter(|&end| end < start).map(|end| format!("{what} starts at {start} ns and ends {} ns before", start - end))
}

pub(super) fn times(checked: &Checked<'_>) -> Found {
    let (profile, columns) = (checked.profile, &["process", "start_ns", "end_ns"]);
    let found = [
        each_row(profile, columns, &|row: &Process| {
            forwards(&format_args!("process {}", row.process), row.start_ns, row.end_ns)
        })?,
        each_row(profile, &["thread", "start_ns", "end_ns"], &|row: &Thread| {
            forwards(&format_args!("thread {}", row.thread), row.start_ns, row.end_ns)
        })?,
        each_row(profile, &["process", "phase", "start_ns", "end_ns"], &|row: &Phase| {
            forwards(&format_args!("phase {} of process {}", row.phase, row.process), row.start_ns, row.end_ns)
        })?,
        each_row(
            profile,
            &["process", "kind", "led", "led_ns", "longest_ns", "helped", "helped_ns"],
            &|row: &Collection| {
                let is_longer = row.longest_ns > row.led_ns || (row.led == 0 && row.led_ns > 0);
                let is_wrong = is_longer || (row.helped == 0 && row.helped_ns > 0);
                let of = || {
                    format!(
                        "collections of {} of process {}: their times are not those of so many",
                        row.kind, row.process
                    )
                };
                is_wrong.then(of)
            },
        )?,
        each_row(profile, &["object", "birth_ns", "death_ns"], &|row: &Object| {
            forwards(&format_args!("object {}", row.object), row.birth_ns, row.death_ns)
        })?,
        each_row(profile, &["process", "start", "end"], &|row: &Mapping| {
            (row.end <= row.start).then(|| {
                format!(
                    "a mapping of process {} ends at {:#x}, not behind its start {:#x}",
                    row.process, row.end, row.start
                )
            })
        })?,
    ];
    Ok(found.into_iter().flatten().collect())
}

pub(super) fn bins(checked: &Checked<'_>) -> Found {
    let (profile, bins, columns) = (checked.profile, checked.profile.meta.bins, &["bin"]);
    let outside =
        |bin: Bin| (bin.0 >= bins).then(|| format!("bin {bin} is not below {bins}, the number of bins in meta"));
    let found = [
        each_row(profile, columns, &|row: &PageAccess| outside(row.bin))?,
        each_row(profile, columns, &|row: &SiteAccess| outside(row.bin))?,
        each_row(profile, columns, &|row: &ObjectAccess| outside(row.bin))?,
        each_row(profile, columns, &|row: &CodeFetch| outside(row.bin))?,
        each_row(profile, columns, &|row: &SiteMiss| outside(row.bin))?,
        each_row(profile, columns, &|row: &PageMiss| outside(row.bin))?,
        each_row(profile, &["page", "bin_from", "bin_to"], &|row: &PlacedPages| {
            let to = row.bin_to.unwrap_or(Bin(bins));
            let backwards = || {
                (to < row.bin_from)
                    .then(|| format!("page {:#x} is placed from bin {} to bin {to}", row.page.0, row.bin_from))
            };
            // `bin_to` is exclusive, so it may be the number of bins.
            outside(row.bin_from).or_else(|| outside(Bin(to.0.saturating_sub(1)))).or_else(backwards)
        })?,
    ];
    Ok(found.into_iter().flatten().collect())
}

/// A count of samples lies within what they count; exact counts have period 1.
fn counts(accesses: u64, samples: u32, period: u64) -> Option<String> {
    if period == 0 {
        return Some("the period is 0".to_owned());
    }
    if samples == 0 && period != 1 && accesses > 0 {
        return Some(format!("an exact count (no samples) of {accesses} has period {period}"));
    }
    (u64::from(samples) > accesses).then(|| {
        format!("{samples} samples stand behind {accesses} accesses, {} too many", u64::from(samples) - accesses)
    })
}

pub(super) fn periods(checked: &Checked<'_>) -> Found {
    let (profile, columns) = (checked.profile, &["reads", "writes", "samples", "period"]);
    let no_period = |period: u64| (period == 0).then(|| "the period is 0".to_owned());
    let found = [
        each_row(profile, columns, &|row: &PageAccess| {
            counts(row.reads.saturating_add(row.writes), row.samples, row.period)
        })?,
        each_row(profile, columns, &|row: &SiteAccess| {
            counts(row.reads.saturating_add(row.writes), row.samples, row.period)
        })?,
        each_row(profile, columns, &|row: &ObjectAccess| {
            counts(row.reads.saturating_add(row.writes), row.samples, row.period)
        })?,
        each_row(profile, &["period"], &|row: &Sample| no_period(row.period))?,
        each_row(profile, &["period"], &|row: &CodeFetch| no_period(row.period))?,
    ];
    Ok(found.into_iter().flatten().collect())
}
