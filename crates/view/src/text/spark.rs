//! Series: a line of bars for each that is not all zero.

use super::Look;
use crate::numbers;
use numalens_analyze::metrics::Metric;
use numalens_analyze::report::Series;

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Columns of a line where the terminal does not say.
const WIDTH: usize = 72;
/// What stands before and behind a line.
const MARGIN: usize = 40;

/// Draws series; neighbouring bins share a column where there are more of them than columns.
pub fn draw(series: &Series, look: Look) -> String {
    let bins = series.lines.iter().map(|(_, values)| values.len()).max().unwrap_or(0);
    let width =
        look.width.map_or(WIDTH, |width| usize::from(width).saturating_sub(MARGIN).clamp(10, 200)).min(bins.max(1));
    let mut out = String::new();
    for (metric, values) in series.lines.iter().filter(|(_, values)| values.iter().any(|n| *n > 0)) {
        let sum = |values: &[u64]| match metric.is_level() {
            true => values.iter().copied().max().map_or(0, u128::from),
            false => values.iter().map(|n| u128::from(*n)).sum(),
        };
        let columns: Vec<u128> =
            (0..width).map(|i| sum(&values[values.len() * i / width..values.len() * (i + 1) / width])).collect();
        let largest = columns.iter().copied().max().unwrap_or(0).max(1);
        let line: String = columns
            .iter()
            .map(|n| if *n == 0 { ' ' } else { BARS[((n * 8).div_ceil(largest) as usize).clamp(1, 8) - 1] })
            .collect();
        out += &format!(
            "  {}  {line}  {}\n",
            look.dim(format_args!("{:20}", metric.title)),
            look.dim(whole(metric, values))
        );
    }
    if out.is_empty() {
        return format!("  {}\n", look.dim("nothing"));
    }
    let end = numbers::time((bins as u64).saturating_mul(series.bin_ns));
    out + &format!("  {:20}  {}\n", "", look.dim(format_args!("from 0 to {end}, {bins} bins")))
}

/// What stands behind a line: the sum of what happened, the most of what was there.
pub fn whole(metric: &Metric, values: &[u64]) -> String {
    let n = match metric.is_level() {
        true => values.iter().copied().max().unwrap_or(0),
        false => values.iter().copied().fold(0, u64::saturating_add),
    };
    let figure = if metric.unit == "bytes" { numbers::bytes(n) } else { numbers::count(n as f64) };
    if metric.is_level() { format!("at most {figure}") } else { figure }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numalens_analyze::metrics;

    /// Guards against sums of maxima: 64 MiB that lie there for 120 bins are 64 MiB.
    #[test]
    fn bytes_in_force_are_not_added_up() {
        assert_eq!(whole(&metrics::PLACED, &[64 << 20; 120]), "at most 64.0 MiB");
        assert_eq!(whole(&metrics::ALLOCATED, &[1 << 20; 3]), "3.00 MiB");
        assert_eq!(whole(&metrics::LOCAL, &[1000; 20]), "20.0 k");
    }
}
