//! Writes ten million page accesses and as many site accesses of realistic shape, opens the profile and sums it up.
//! Prints rows per second, bytes per row, and the time from opening to the sums.
//!
//! `cargo run --release -p numalens-profile --example ten_million [ROWS]`

use numalens_profile::tables::{PageAccess, SiteAccess};
use numalens_profile::testing::load;
use numalens_profile::words::Class;
use numalens_profile::{Meta, Profile, Row, Writer};
use std::time::Instant;

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
    let start = Instant::now();
    let mut writer = Writer::create(path, false)?;
    writer.append(content)?;
    let path = writer.finish(&Meta::default())?;
    let written = start.elapsed().as_secs_f64();
    let bytes = std::fs::metadata(path.join(format!("{}.parquet", T::TABLE)))?.len();
    println!(
        "{}: {rows} rows written in {written:.2} s, {:.2} million rows/s, {:.2} bytes/row",
        T::TABLE,
        rows as f64 / written / 1e6,
        bytes as f64 / rows as f64
    );
    let start = Instant::now();
    let profile = Profile::open(&path)?;
    let sums = sum(&profile)?;
    println!("{}: opened and summed in {:.3} s: {sums}", T::TABLE, start.elapsed().as_secs_f64());
    let start = Instant::now();
    let all = profile.fold(T::COLUMNS, || 0u64, |count, _: T| *count += 1, |a, b| a + b)?;
    println!("{}: all {all} rows and columns decoded in {:.3} s", T::TABLE, start.elapsed().as_secs_f64());
    Ok(())
}
