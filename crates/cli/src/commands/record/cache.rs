//! The argument of `record --cache`.

use numalens_collect::exact::Geometry;
use numalens_profile::CACHE;
use serde_json::{Value, json};

const WAYS: u64 = 8;
const LINE: u64 = 64;
const MOST_BYTES: u64 = 1 << 30;
const MOST_WAYS: u64 = 1 << 10;
const LINES: std::ops::RangeInclusive<u64> = 8..=4096;

/// `SIZE[,WAYS[,LINE]]` as the shape of a cache.
///
/// # Errors
/// What is wrong with it.
pub fn geometry(text: &str) -> Result<Geometry, String> {
    let mut parts = text.split(',').map(str::trim);
    let bytes = size(parts.next().unwrap_or_default())?;
    let ways = parts.next().map_or(Ok(WAYS), |text| number(text, "ways"))?;
    let line = parts.next().map_or(Ok(LINE), |text| number(text, "bytes of a line"))?;
    if parts.next().is_some() {
        return Err("more than SIZE,WAYS,LINE".to_owned());
    }
    if !LINES.contains(&line) || !line.is_power_of_two() {
        return Err(format!(
            "a line of {line} bytes: it must be a power of two from {} to {}",
            LINES.start(),
            LINES.end()
        ));
    }
    if !(1..=MOST_WAYS).contains(&ways) {
        return Err(format!("{ways} ways: 1 to {MOST_WAYS} are possible"));
    }
    let sets = bytes / (ways * line);
    if bytes > MOST_BYTES || sets == 0 || sets * ways * line != bytes || !sets.is_power_of_two() {
        return Err(format!(
            "{bytes} bytes in {ways} ways of lines of {line} bytes: SIZE / WAYS / LINE must be a power of two (as in 32k, 48k,12, 2M,16), and SIZE 1 GiB at most"
        ));
    }
    Ok(Geometry { sets: sets as u32, ways: ways as u32, line_log2: line.ilog2() })
}

fn bytes(cache: Geometry) -> u64 {
    (u64::from(cache.sets) * u64::from(cache.ways)) << cache.line_log2
}

/// For `meta.extra`.
pub fn describe(cache: Geometry) -> (String, Value) {
    (CACHE.to_owned(), json!({ "bytes": bytes(cache), "ways": cache.ways, "line": 1u64 << cache.line_log2 }))
}

fn number(text: &str, what: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("`{text}` is no number of {what}"))
}

/// Bytes, or with k, M or G multiples of 1024.
pub fn size(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 10),
        Some((at, 'm' | 'M')) => (&text[..at], 20),
        Some((at, 'g' | 'G')) => (&text[..at], 30),
        _ => (text, 0),
    };
    let number = digits.parse::<u64>().ok().filter(|number| number.leading_zeros() > shift);
    number.map(|number| number << shift).ok_or_else(|| format!("`{text}` is no size: 32k, 2M, 49152"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_understood() {
        let shape = |sets, ways, line_log2| Ok(Geometry { sets, ways, line_log2 });
        assert_eq!(geometry("32k"), shape(64, 8, 6));
        assert_eq!(geometry("48k,12"), shape(64, 12, 6));
        assert_eq!(geometry("2M,16,128"), shape(1024, 16, 7));
        assert_eq!(geometry("64,1,64"), shape(1, 1, 6));
        for wrong in
            ["", "k", "33k", "32k,0", "32k,8,48", "32k,8,64,1", "48k", "-1", "4G", "18446744073709551615G", "32k,x"]
        {
            assert!(geometry(wrong).is_err(), "{wrong}");
        }
    }
}
