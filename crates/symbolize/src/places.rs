//! Where in a list of sorted addresses others would stand. Symbol tables have many, so each is found at once.

/// A list of sorted addresses, in buckets.
pub(crate) struct Places<'a> {
    addresses: &'a [u64],
    /// Addresses with the same number, after this shift, are a bucket; these are its first ones.
    shift: u32,
    buckets: Vec<u32>,
}

impl<'a> Places<'a> {
    /// Of these, which are sorted.
    pub(crate) fn new(addresses: &'a [u64]) -> Self {
        let (first, last) = (addresses.first().copied().unwrap_or(0), addresses.last().copied().unwrap_or(0));
        let range = last.saturating_sub(first);
        // About as many buckets as addresses.
        let shift = (u64::BITS - range.leading_zeros()).saturating_sub(addresses.len().max(1).ilog2());
        let mut buckets = vec![0; range.checked_shr(shift).unwrap_or(0) as usize + 2];
        for address in addresses {
            let bucket = address.saturating_sub(first).checked_shr(shift).unwrap_or(0) as usize;
            buckets[bucket + 1] += 1;
        }
        (1..buckets.len()).for_each(|at| buckets[at] += buckets[at - 1]);
        Places { addresses, shift, buckets }
    }

    /// The place of the first address that is this one or above.
    pub(crate) fn at_or_above(&self, address: u64) -> usize {
        let Some(above) = self.addresses.first().and_then(|first| address.checked_sub(*first)) else { return 0 };
        let bucket = above.checked_shr(self.shift).unwrap_or(0) as usize;
        let Some(&[from, to]) = self.buckets.get(bucket..).and_then(|buckets| buckets.first_chunk()) else {
            return self.addresses.len();
        };
        let (from, to) = (from as usize, to as usize);
        from + self.addresses[from..to].partition_point(|other| *other < address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_a_binary_search() {
        let spread = |scale: u64, count: u64| (0..count).map(move |n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % scale);
        for (scale, count) in [(1, 1), (1, 0), (50, 20), (5000, 300), (u64::MAX, 100), (u64::MAX, 2)] {
            let mut addresses: Vec<u64> = spread(scale, count).collect();
            addresses.sort_unstable();
            let places = Places::new(&addresses);
            let near = addresses.iter().flat_map(|at| [at.wrapping_sub(1), *at, at.wrapping_add(1)]);
            for address in near.chain(spread(scale, 50)).chain([0, u64::MAX]) {
                let expected = addresses.partition_point(|other| *other < address);
                assert_eq!(places.at_or_above(address), expected, "{address:#x} of {count} below {scale:#x}");
            }
        }
    }
}
