//! Figures as people read them: three digits and a unit.

/// `999`, `12.3 k`, `4.56 M`: powers of 1000.
pub fn count(n: f64) -> String {
    scaled(n, 1000.0, &["", " k", " M", " G", " T", " P", " E"])
}

/// `512 B`, `4.00 KiB`: powers of 1024.
pub fn bytes(n: u64) -> String {
    scaled(n as f64, 1024.0, &[" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"])
}

/// `3.2 ms`, `1.25 s`, `2 min 5 s`, `3 h 20 min`.
pub fn time(ns: u64) -> String {
    let seconds = ns as f64 / 1e9;
    match ns {
        0 => "0 s".to_string(),
        1..1_000_000 => format!("{:.1} us", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        1_000_000_000..120_000_000_000 => format!("{seconds:.2} s"),
        120_000_000_000..7_200_000_000_000 => format!("{} min {} s", ns / 60_000_000_000, ns / 1_000_000_000 % 60),
        _ => format!("{} h {} min", ns / 3_600_000_000_000, ns / 60_000_000_000 % 60),
    }
}

/// One decimal; what is more than nothing does not look like nothing.
pub fn percent(value: f64) -> String {
    if value > 0.0 && value < 0.05 { "<0.1 %".to_string() } else { format!("{value:.1} %") }
}

/// Numbers below ten thousand (of the first unit) stay as they are.
fn scaled(n: f64, base: f64, units: &[&str]) -> String {
    let mut value = n;
    let mut unit = 0;
    // 999.95 would be printed with four digits.
    while value.abs() >= base * 0.9995 && unit + 1 < units.len() && !(unit == 0 && n.abs() < 10_000.0 && base == 1000.0)
    {
        value /= base;
        unit += 1;
    }
    let decimals = match value.abs() {
        _ if unit == 0 && value.fract() == 0.0 => 0,
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    let figure = format!("{value:.decimals$}");
    // What rounds to nothing has no sign.
    let figure = if figure.bytes().any(|byte| byte.is_ascii_digit() && byte != b'0') {
        &figure
    } else {
        figure.trim_start_matches('-')
    };
    format!("{figure}{}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_readable() {
        let got: Vec<String> = [0.0, 9999.0, 10_000.0, 12_345.0, 999_999.0, 12_300_000.0, 4.5e18].map(count).into();
        assert_eq!([count(-0.0004), count(-0.4), count(-7.0)], ["0.00", "-0.40", "-7"]);
        assert_eq!(got, ["0", "9999", "10.0 k", "12.3 k", "1.00 M", "12.3 M", "4.50 E"]);
    }

    #[test]
    fn bytes_are_readable() {
        let got: Vec<String> = [0, 1023, 4096, 2 << 20, 1_500_000_000, u64::MAX].map(bytes).into();
        assert_eq!(got, ["0 B", "1023 B", "4.00 KiB", "2.00 MiB", "1.40 GiB", "16.0 EiB"]);
    }

    #[test]
    fn times_are_readable() {
        let got: Vec<String> =
            [0, 1500, 3_200_000, 1_250_000_000, 125_000_000_000, 12_000_000_000_000].map(time).into();
        assert_eq!(got, ["0 s", "1.5 us", "3.2 ms", "1.25 s", "2 min 5 s", "3 h 20 min"]);
    }

    #[test]
    fn little_is_not_nothing() {
        assert_eq!([0.0, 0.01, 0.05, 12.34, 100.0].map(percent), ["0.0 %", "<0.1 %", "0.1 %", "12.3 %", "100.0 %"]);
    }
}
