//! Where in a thread's table of returns an address belongs, and what tells it from others there.

use crate::context;

/// Which entry of the table a return address has: not by its lowest bits, as calls lie apart.
pub(crate) fn index_of(ip: u64) -> u64 {
    ip >> 3 & ((1 << context::RETURNS_BITS) - 1)
}

/// What tells it from the others that have the same entry.
pub(crate) fn tag_of(ip: u64) -> u32 {
    (ip as u32).rotate_right(3).wrapping_add((ip >> 32) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn addresses_of_an_entry_have_tags_of_their_own(one in 0..1u64 << 47, other in 0..1u64 << 47, bit in 0..47u32) {
            let of_one = 0x7_fff8;
            for other in [other & !of_one | one & of_one, one ^ 1 << bit] {
                let are_same = (index_of(one), tag_of(one)) == (index_of(other), tag_of(other));
                prop_assert_eq!(one == other, are_same);
            }
        }
    }
}
