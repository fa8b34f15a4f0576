//! Writes ten million page accesses and as many site accesses of realistic shape, opens the profile and sums it up.
//! Prints rows per second, bytes per row, and the time from opening to the sums; and the CPU time of each, all threads
//! together, which tells more on a busy machine.
//!
//! `cargo run --release -p numalens-profile --example ten_million [ROWS]`

use numalens_profile::tables::{PageAccess, SiteAccess};
use numalens_profile::testing::load;
use numalens_profile::words::Class;
use numalens_profile::{Meta, Profile, Row, Writer};
use std::time::Instant;

/// Seconds of CPU time that this process has used, user and system, from its clock ticks of 10 ms.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Fields 14 and 15; the second, the command in parentheses, may hold blanks.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// Wall and CPU time of some work.
fn timed<R>(work: impl FnOnce() -> R) -> (R, f64, f64) {
    let (start, before) = (Instant::now(), cpu());
    let result = work();
    (result, start.elapsed().as_secs_f64(), cpu() - before)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rows: u64 = std::env::args().nth(1).map_or(Ok(10_000_000), |rows| rows.parse())?;
    let scratch = tempfile::tempdir()?;
    measure(&scratch.path().join("pages.numalens"), rows, load::page_accesses(rows), |profile| {
        profile
            .fold(
                &["reads", "writes"],
                || [0u64; 2],
                |sum, row: PageAccess| *sum = [sum[0] + row.reads, sum[1] + row.writes],
                |a, b| [a[0] + b[0], a[1] + b[1]],
            )
            .map(|sum| format!("{sum:?}"))
    })?;
    measure(&scratch.path().join("sites.numalens"), rows, load::site_accesses(rows), |profile| {
        let add = |sums: &mut Vec<u64>, row: SiteAccess| sums[row.class as usize] += row.reads + row.writes;
        let merge =
            |left: Vec<u64>, right: Vec<u64>| left.iter().zip(right).map(|(left, right)| left + right).collect();
        profile
            .fold(&["reads", "writes", "class"], || vec![0; Class::ALL.len()], add, merge)
            .map(|sums| format!("{sums:?}"))
    })
}

fn measure<T: Row>(
    path: &std::path::Path,
    rows: u64,
    content: impl Iterator<Item = T>,
    sum: impl Fn(&Profile) -> Result<String, numalens_profile::Error>,
) -> Result<(), Box<dyn std::error::Error>> {
    let content: Vec<T> = content.collect();
    let table = T::TABLE;
    let (path, wall, busy) = timed(|| {
        let mut writer = Writer::create(path, false)?;
        writer.append(content)?;
        writer.finish(&Meta::default())
    });
    let path = path?;
    let bytes = std::fs::metadata(path.join(format!("{table}.parquet")))?.len();
    let (speed, each) = (rows as f64 / wall / 1e6, bytes as f64 / rows as f64);
    println!(
        "{table}: {rows} rows written in {wall:.2} s (CPU {busy:.2} s), {speed:.2} million rows/s, {each:.2} bytes/row"
    );
    let (sums, wall, busy) = timed(|| Profile::open(&path).and_then(|profile| sum(&profile)));
    println!("{table}: opened and summed in {wall:.3} s (CPU {busy:.2} s): {}", sums?);
    let profile = Profile::open(&path)?;
    let (all, wall, busy) = timed(|| profile.fold(T::COLUMNS, || 0u64, |count, _: T| *count += 1, |a, b| a + b));
    println!("{table}: all {} rows and columns decoded in {wall:.3} s (CPU {busy:.2} s)", all?);
    Ok(())
}
