//! Sets of CPUs and of nodes, as the kernel's masks have them.

use core::fmt;
use numalens_event::exact::{MOST_CPUS, NODE_WORDS};

/// Numbers, a bit each.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Set<const WORDS: usize>(pub [u64; WORDS]);

/// A set of CPUs.
pub type CpuSet = Set<{ MOST_CPUS / 64 }>;
/// A set of nodes.
pub type NodeSet = Set<NODE_WORDS>;

impl Copy for NodeSet {}

impl<const WORDS: usize> Set<WORDS> {
    /// Nothing.
    pub const EMPTY: Self = Set([0; WORDS]);

    /// Whether a number is in it.
    pub fn contains(&self, number: u32) -> bool {
        self.0.get(number as usize / 64).is_some_and(|word| word >> (number % 64) & 1 != 0)
    }

    /// Puts a number in; those past the last that a set can hold are left out.
    pub fn insert(&mut self, number: u32) {
        if let Some(word) = self.0.get_mut(number as usize / 64) {
            *word |= 1 << (number % 64);
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }

    /// How many there are.
    pub fn len(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// Those that are in both.
    pub fn intersection(mut self, other: &Self) -> Self {
        self.0.iter_mut().zip(other.0).for_each(|(word, other)| *word &= other);
        self
    }

    /// Whether all of them are in another one.
    pub fn is_subset_of(&self, other: &Self) -> bool {
        self.0.iter().zip(other.0).all(|(word, other)| word & !other == 0)
    }

    /// Its numbers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        (0..).zip(&self.0).flat_map(move |(number, &word)| bits(word).map(move |bit| number * 64 + bit))
    }

    /// The lowest.
    pub fn first(&self) -> Option<u32> {
        self.iter().next()
    }

    /// The only one, if there is one only.
    pub fn only(&self) -> Option<u32> {
        self.first().filter(|_| self.len() == 1)
    }

    /// The highest.
    pub fn last(&self) -> Option<u32> {
        let (number, word) = (0..).zip(&self.0).filter(|&(_, &word)| word != 0).last()?;
        Some(number * 64 + word.ilog2())
    }

    /// The one that comes after `number`, from the last to the first.
    pub fn after(&self, number: u32) -> Option<u32> {
        self.iter().find(|&other| other > number).or_else(|| self.first())
    }
}

impl<const WORDS: usize> FromIterator<u32> for Set<WORDS> {
    fn from_iter<I: IntoIterator<Item = u32>>(numbers: I) -> Self {
        let mut set = Self::EMPTY;
        numbers.into_iter().for_each(|number| set.insert(number));
        set
    }
}

/// The numbers of the bits that are set: in no more steps than there are, as sets of CPUs are mostly empty.
pub fn bits(word: u64) -> impl Iterator<Item = u32> + Clone {
    let mut left = word;
    core::iter::from_fn(move || {
        let bit = left.trailing_zeros();
        left &= left.wrapping_sub(1);
        (bit < u64::BITS).then_some(bit)
    })
}

/// Numbers as the kernel lists them: `0-3,8`.
pub fn write_list(to: &mut impl fmt::Write, numbers: impl Iterator<Item = u32>) -> fmt::Result {
    let mut runs = numbers.map(|number| (number, number)).peekable();
    let mut separator = "";
    while let Some((first, mut last)) = runs.next() {
        while let Some((_, next)) = runs.next_if(|&(next, _)| next == last + 1) {
            last = next;
        }
        match last - first {
            0 => write!(to, "{separator}{first}")?,
            _ => write!(to, "{separator}{first}-{last}")?,
        }
        separator = ",";
    }
    Ok(())
}

/// A mask of so many bits as the kernel writes it: groups of 32 in hexadecimal, the highest first, that one with as
/// many digits as it needs.
pub fn write_mask(to: &mut impl fmt::Write, words: &[u64], bits: usize) -> fmt::Result {
    let groups = bits.div_ceil(32).max(1);
    for group in (0..groups).rev() {
        let value = (words.get(group / 2).copied().unwrap_or(0) >> (32 * (group % 2))) as u32;
        let digits = if group + 1 == groups { (bits - 32 * group).div_ceil(4).max(1) } else { 8 };
        let comma = if group > 0 { "," } else { "" };
        write!(to, "{value:0digits$x}{comma}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    fn list(numbers: &[u32]) -> String {
        let mut text = String::new();
        write_list(&mut text, numbers.iter().copied()).unwrap();
        text
    }

    fn mask(words: &[u64], bits: usize) -> String {
        let mut text = String::new();
        write_mask(&mut text, words, bits).unwrap();
        text
    }

    #[test]
    fn written_as_the_kernel_does() {
        assert_eq!(list(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
        assert_eq!((list(&[]), list(&[3])), (String::new(), String::from("3")));
        assert_eq!(mask(&[3], 2), "3");
        assert_eq!(mask(&[0xf0], 16), "00f0");
        assert_eq!(mask(&[0xff00_0000_00ff], 64), "0000ff00,000000ff");
        assert_eq!(mask(&[1, 2], 72), "02,00000000,00000001");
    }

    #[test]
    fn bits_are_counted_off() {
        assert!(bits(0).eq([]) && bits(1 << 63 | 5).eq([0, 2, 63]) && bits(u64::MAX).eq(0..64));
    }

    #[test]
    fn nodes_go_round() {
        let set: NodeSet = [1, 64, 252, 1023, 1024].into_iter().collect();
        assert_eq!((set.first(), set.last(), set.len(), set.only()), (Some(1), Some(1023), 4, None));
        assert_eq!([0, 1, 64, 255, 1023, u32::MAX].map(|number| set.after(number)), [1, 64, 252, 1023, 1, 1].map(Some));
        assert_eq!(
            (NodeSet::EMPTY.after(3), NodeSet::EMPTY.last(), NodeSet::from_iter([70]).only()),
            (None, None, Some(70))
        );
        assert!(NodeSet::from_iter([252]).is_subset_of(&set) && !NodeSet::from_iter([2, 252]).is_subset_of(&set));
    }

    #[test]
    fn sets() {
        let set: CpuSet = [1, 64, 8191, 8192].into_iter().collect();
        assert!(set.iter().eq([1, 64, 8191]) && set.contains(64) && !set.contains(8192));
        assert!(set.clone().intersection(&[64, 65].into_iter().collect()).iter().eq([64]));
        assert!(set.intersection(&CpuSet::EMPTY).is_empty());
    }
}
