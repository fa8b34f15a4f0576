//! Medians, and ratios of them.

/// The middle of the values; of an even number, the mean of the two in the middle. `None` when there are none.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = sorted[(sorted.len() - 1) / 2];
    Some((lower + upper) / 2.0)
}

/// The median of `of` by the median of `by`.
pub fn ratio_of_medians(of: &[f64], by: &[f64]) -> Option<f64> {
    Some(median(of)? / median(by).filter(|&by| by > 0.0)?)
}

/// The least of `of` by the least of `by`: the runs that other work on the machine disturbed least.
pub fn ratio_of_minima(of: &[f64], by: &[f64]) -> Option<f64> {
    let least = |values: &[f64]| values.iter().copied().min_by(f64::total_cmp);
    Some(least(of)? / least(by).filter(|&by| by > 0.0)?)
}

/// The smallest and the largest ratio of a pair: how much of a figure is noise.
pub fn range_of_ratios(of: &[f64], by: &[f64]) -> Option<(f64, f64)> {
    let ratios = of.iter().zip(by).filter(|(_, by)| **by > 0.0).map(|(of, by)| of / by);
    ratios.fold(None, |range, ratio| match range {
        None => Some((ratio, ratio)),
        Some((low, high)) => Some((f64::min(low, ratio), f64::max(high, ratio))),
    })
}

/// The geometric mean: twice as slow and twice as fast cancel out. `None` when there are no values.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    let sum: f64 = values.iter().map(|value| value.ln()).sum();
    (!values.is_empty()).then(|| (sum / values.len() as f64).exp())
}

/// The geometric mean of ratios and its 95 % interval, by the scatter of their logarithms. `None` for fewer than two.
pub fn mean_and_interval(ratios: &[f64]) -> Option<(f64, f64, f64)> {
    let logarithms: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
    let n = logarithms.len() as f64;
    let mean = logarithms.iter().sum::<f64>() / n;
    let variance = logarithms.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let error = 1.96 * (variance / n).sqrt();
    (logarithms.len() > 1).then(|| (mean.exp(), (mean - error).exp(), (mean + error).exp()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn middles() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn ratios() {
        assert_eq!(ratio_of_medians(&[3.0, 30.0, 2.0], &[1.0, 2.0, 1.5]), Some(2.0));
        assert_eq!(ratio_of_medians(&[1.0], &[0.0]), None);
        assert_eq!(ratio_of_minima(&[3.0, 30.0, 6.0], &[1.0, 2.0, 1.5]), Some(3.0));
        assert_eq!(ratio_of_minima(&[], &[]), None);
        assert_eq!(range_of_ratios(&[3.0, 30.0, 2.0], &[1.0, 2.0, 4.0]), Some((0.5, 15.0)));
        assert_eq!(range_of_ratios(&[], &[]), None);
    }

    #[test]
    fn a_geometric_mean_treats_up_and_down_alike() {
        assert_eq!(geometric_mean(&[2.0, 0.5]), Some(1.0));
        assert_eq!(geometric_mean(&[]), None);
    }

    #[test]
    fn intervals_narrow_with_more_values() {
        let (mean, low, high) = mean_and_interval(&[0.5, 2.0]).unwrap();
        // The logarithms' standard deviation is 0.9803, by the square root of two.
        assert!(
            (mean - 1.0).abs() < 1e-9 && (low - 0.257).abs() < 0.001 && (high - 3.891).abs() < 0.001,
            "{low} {high}"
        );
        let (_, closer, _) = mean_and_interval(&[0.5, 2.0, 0.5, 2.0, 0.5, 2.0]).unwrap();
        assert!(closer > low);
        assert_eq!(mean_and_interval(&[1.0]), None);
    }
}
