//! Sizes of blocks: `64 KiB..`, `1 MiB..2 MiB`, `16777216`.

use std::fmt;

/// Blocks of which sizes a rule speaks, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SizeRange {
    /// The smallest.
    pub least: u64,
    /// The largest; none: any.
    pub most: Option<u64>,
}

const UNITS: [(&str, u32); 5] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10), ("B", 0)];

impl SizeRange {
    /// Whether a block of so many bytes is meant.
    pub fn contains(&self, bytes: u64) -> bool {
        self.least <= bytes && self.most.is_none_or(|most| bytes <= most)
    }

    /// Reads one.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let range = match text.split_once("..") {
            None => {
                let bytes = size(text)?;
                SizeRange { least: bytes, most: Some(bytes) }
            }
            Some((least, most)) => SizeRange {
                least: if least.trim().is_empty() { 0 } else { size(least)? },
                most: if most.trim().is_empty() { None } else { Some(size(most)?) },
            },
        };
        match range.most {
            Some(most) if most < range.least => Err(format!("the sizes `{text}` run backwards")),
            _ => Ok(range),
        }
    }
}

fn size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let (digits, shift) =
        UNITS.iter().find_map(|&(unit, shift)| Some((text.strip_suffix(unit)?.trim_end(), shift))).unwrap_or((text, 0));
    let wrong = || format!("`{text}` is no size (a size looks like 64 KiB, and a range like 64 KiB.. or 1 MiB..2 MiB)");
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number: u64 = if is_number { digits.parse().map_err(|_| wrong())? } else { return Err(wrong()) };
    number.checked_mul(1 << shift).ok_or_else(wrong)
}

fn write_size(bytes: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let fits = |&&(_, shift): &&(&str, u32)| bytes > 0 && bytes.is_multiple_of(1 << shift);
    match UNITS.iter().find(fits) {
        Some(&(_, 0)) | None => write!(f, "{bytes}"),
        Some(&(unit, shift)) => write!(f, "{} {unit}", bytes >> shift),
    }
}

impl fmt::Display for SizeRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_size(self.least, f)?;
        match self.most {
            Some(most) if most == self.least => Ok(()),
            Some(most) => {
                write!(f, "..")?;
                write_size(most, f)
            }
            None => write!(f, ".."),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_they_are_written() {
        for (text, least, most) in [
            ("64 KiB..", 65536, None),
            ("1 MiB..2 MiB", 1 << 20, Some(2 << 20)),
            ("16777217", 16_777_217, Some(16_777_217)),
            ("0..3 B", 0, Some(3)),
        ] {
            let range = SizeRange::parse(text).unwrap();
            assert_eq!(range, SizeRange { least, most }, "{text}");
            assert_eq!(SizeRange::parse(&range.to_string()).unwrap(), range, "{text}");
        }
        assert_eq!(SizeRange::parse("..4KiB").unwrap(), SizeRange { least: 0, most: Some(4096) });
        for wrong in ["", "4 KB", "-1", "2 MiB..1 MiB", "99999999999 TiB", "1..2..3", "KiB"] {
            assert!(SizeRange::parse(wrong).is_err(), "{wrong}");
        }
    }
}
