//! Numbers in few bytes, one after the other.
//!
//! There are tens of thousands of fragments in a large program, and most of what is kept of them is looked at seldom,
//! if ever: it is kept as LEB128, seven bits a byte, mostly of differences to what stands near. A signed number takes
//! its sign in the lowest bit.

use alloc::vec::Vec;

pub(crate) fn put(into: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        into.push(number as u8 | 0x80);
        number >>= 7;
    }
    into.push(number as u8);
}

pub(crate) fn put_signed(into: &mut Vec<u8>, number: i64) {
    put(into, (number << 1 ^ number >> 63) as u64);
}

/// The next number, and off with it; 0 where there is none.
pub(crate) fn take(bytes: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let Some((&byte, rest)) = bytes.split_first() else { break };
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    number
}

pub(crate) fn take_signed(bytes: &mut &[u8]) -> i64 {
    let number = take(bytes);
    (number >> 1 ^ (number & 1).wrapping_neg()) as i64
}

/// The next `length` bytes, or as many as there are, and off with them.
pub(crate) fn split<'a>(bytes: &mut &'a [u8], length: u64) -> &'a [u8] {
    let (front, rest) = bytes.split_at((length as usize).min(bytes.len()));
    *bytes = rest;
    front
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_come_back(numbers in prop::collection::vec((any::<u64>(), any::<i64>(), 0..300u64, -200..200i64), 0..9)) {
            let mut bytes = Vec::new();
            for &(large, signed, small, near) in &numbers {
                put(&mut bytes, large);
                put_signed(&mut bytes, signed);
                put(&mut bytes, small);
                put_signed(&mut bytes, near);
            }
            let mut rest = &bytes[..];
            for number in numbers {
                prop_assert_eq!((take(&mut rest), take_signed(&mut rest), take(&mut rest), take_signed(&mut rest)), number);
            }
            prop_assert!(rest.is_empty());
        }
    }
}
