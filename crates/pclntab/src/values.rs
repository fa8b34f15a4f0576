//! Values that hold for runs of a function's code: runs of (change of value, bytes of code), each a variable number of
//! bytes, from the value -1 on.

/// The value at `offset` bytes behind the beginning of the function.
pub fn at(bytes: &[u8], offset: u64, quantum: u64) -> Option<i32> {
    let mut bytes = bytes.iter();
    let (mut value, mut end) = (-1i32, 0u64);
    loop {
        let change = number(&mut bytes)?;
        // Nothing changes at the very beginning only.
        if change == 0 && end != 0 {
            return None;
        }
        value = value.wrapping_add((change >> 1) as i32 ^ -((change & 1) as i32));
        end = end.checked_add(u64::from(number(&mut bytes)?).checked_mul(quantum)?)?;
        if offset < end {
            return Some(value);
        }
    }
}

/// Seven bits of each byte, the lowest first; the eighth says that more follow.
fn number<'a>(bytes: &mut impl Iterator<Item = &'a u8>) -> Option<u32> {
    let mut value = 0;
    for shift in (0..35).step_by(7) {
        let byte = bytes.next()?;
        value |= u32::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_told_apart() {
        // 7 for 2 bytes, 6 for 300.
        let bytes = [16, 2, 1, 0xac, 2, 0];
        let values = [0, 1, 2, 301, 302].map(|offset| at(&bytes, offset, 1));
        assert_eq!(values, [Some(7), Some(7), Some(6), Some(6), None]);
        assert_eq!(at(&bytes, 7, 4), Some(7));
    }

    #[test]
    fn numbers_without_end_are_none() {
        assert_eq!(at(&[0xff; 40], 0, 1), None);
        assert_eq!(at(&[], 0, 1), None);
    }
}
