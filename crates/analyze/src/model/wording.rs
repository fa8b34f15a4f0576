//! Figures within sentences that analyses make: as people read them, and as views write those that stand alone.

use crate::model::report::Value;

/// `512 B`, `4.00 KiB`, `32.0 MiB`: three digits.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut value = n as f64;
    let mut unit = 0;
    // 1023.6 would be printed with four digits.
    while value >= 1023.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let decimals = match value {
        _ if unit == 0 => 0,
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {}", UNITS[unit])
}

/// One decimal; what is more than nothing does not look like nothing.
pub fn percent(value: f64) -> String {
    if value > 0.0 && value < 0.05 { "<0.1 %".to_string() } else { format!("{value:.1} %") }
}

/// A share, with its interval where it comes from samples.
pub fn share(value: &Value) -> String {
    match value {
        Value::Percent(share, None) => percent(*share),
        Value::Percent(share, Some((low, high))) => format!("{} ({low:.1} to {high:.1} %)", percent(*share)),
        _ => "an unknown part".to_string(),
    }
}

/// A sentence of help in the middle of another: it begins small and has no full stop.
pub fn begun(sentence: &str) -> String {
    let sentence = sentence.trim_end_matches('.');
    let mut characters = sentence.chars();
    let first: String = characters.next().map(|first| first.to_lowercase().collect()).unwrap_or_default();
    first + characters.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Guards the figures of sentences, which no view can mend.
    #[test]
    fn figures_have_three_digits_and_a_unit() {
        let sizes = [0, 512, 4096, 32 << 20, 134_217_000, 1 << 40, u64::MAX].map(bytes);
        assert_eq!(sizes, ["0 B", "512 B", "4.00 KiB", "32.0 MiB", "128 MiB", "1.00 TiB", "16.0 EiB"]);
        assert_eq!([0.0, 0.01, 0.05, 74.56].map(percent), ["0.0 %", "<0.1 %", "0.1 %", "74.6 %"]);
        assert_eq!(share(&Value::Percent(50.0, Some((40.0, 60.04)))), "50.0 % (40.0 to 60.0 %)");
        assert_eq!(begun("Each part lands there."), "each part lands there");
    }
}
