//! 95 % confidence intervals of figures that come from samples.

/// The standard normal's 97.5 % quantile.
const Z: f64 = 1.959_963_984_540_054;

/// An interval, both ends included.
pub type Interval = (f64, f64);

/// Wilson's interval, in percent, of a share estimated as `percent` from `samples` samples.
/// Unlike the normal approximation it stays within 0 and 100 and is not empty at either end.
pub fn share(percent: f64, samples: u64) -> Option<Interval> {
    if samples == 0 {
        return None;
    }
    let (low, high) = proportion((percent / 100.0).clamp(0.0, 1.0), samples as f64);
    // Rounding must not push the estimate itself out of its interval.
    Some(((low * 100.0).clamp(0.0, percent), (high * 100.0).clamp(percent.min(100.0), 100.0)))
}

/// The same of a proportion between 0 and 1, from as much as so many samples tell: some may tell more than others.
pub fn proportion(p: f64, samples: f64) -> Interval {
    let n = samples.max(f64::MIN_POSITIVE);
    let z2 = Z * Z;
    let centre = (p * n + z2 / 2.0) / (n + z2);
    let half = Z / (n + z2) * (p * (1.0 - p) * n + z2 / 4.0).sqrt();
    ((centre - half).clamp(0.0, p), (centre + half).clamp(p, 1.0))
}

/// Byar's approximation to the exact interval of a Poisson count, scaled to `value`, which `samples` samples estimate.
pub fn count(value: f64, samples: u64) -> Option<Interval> {
    if samples == 0 {
        return None;
    }
    let k = samples as f64;
    let low = k * (1.0 - 1.0 / (9.0 * k) - Z / (3.0 * k.sqrt())).powi(3);
    let next = k + 1.0;
    let high = next * (1.0 - 1.0 / (9.0 * next) + Z / (3.0 * next.sqrt())).powi(3);
    Some((low.max(0.0) / k * value, high / k * value))
}

/// The interval of a sum of independent Poisson counts with these weights: `terms` are (weight of one sample, samples).
pub fn weighted_sum(value: f64, terms: impl Iterator<Item = (f64, u64)>) -> Option<Interval> {
    let (variance, samples) =
        terms.fold((0.0, 0), |(variance, samples), (weight, n)| (variance + weight * weight * n as f64, samples + n));
    (samples > 0).then(|| ((value - Z * variance.sqrt()).max(0.0), value + Z * variance.sqrt()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(got: Option<Interval>, want: Interval) {
        let got = got.unwrap();
        assert!((got.0 - want.0).abs() < 0.05 && (got.1 - want.1).abs() < 0.05, "{got:?} is not {want:?}");
    }

    #[test]
    fn wilson_agrees_with_published_values() {
        close(share(50.0, 10), (23.66, 76.34));
        close(share(0.0, 10), (0.0, 27.75));
        close(share(100.0, 20), (83.89, 100.0));
        assert_eq!(share(50.0, 0), None);
    }

    #[test]
    fn poisson_agrees_with_published_values() {
        close(count(10.0, 10), (4.80, 18.39));
        close(count(100.0, 100), (81.36, 121.63));
        // Scaled: 10 samples that stand for 1000 accesses each.
        close(count(10.0e3, 10).map(|(low, high)| (low / 1e3, high / 1e3)), (4.80, 18.39));
    }

    #[test]
    fn weighted_sum_of_one_term_is_the_normal_interval() {
        close(weighted_sum(1000.0, [(10.0, 100)].into_iter()), (804.0, 1196.0));
        assert_eq!(weighted_sum(0.0, std::iter::empty()), None);
    }
}
