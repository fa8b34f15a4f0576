//! Sets of CPUs, as the kernel's masks have them.

use core::fmt;
use numalens_event::exact::MOST_CPUS;

/// Words of a set.
pub const WORDS: usize = MOST_CPUS / 64;

/// A set of CPUs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CpuSet(pub [u64; WORDS]);

impl CpuSet {
    /// No CPU.
    pub const EMPTY: CpuSet = CpuSet([0; WORDS]);

    /// Whether a CPU is in it.
    pub fn contains(&self, cpu: u32) -> bool {
        self.0.get(cpu as usize / 64).is_some_and(|word| word >> (cpu % 64) & 1 != 0)
    }

    /// Puts a CPU in; those past the last that a set can hold are left out.
    pub fn insert(&mut self, cpu: u32) {
        if let Some(word) = self.0.get_mut(cpu as usize / 64) {
            *word |= 1 << (cpu % 64);
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|&word| word == 0)
    }

    /// Those that are in both.
    pub fn intersection(mut self, other: &CpuSet) -> CpuSet {
        self.0.iter_mut().zip(other.0).for_each(|(word, other)| *word &= other);
        self
    }

    /// Its CPUs, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        (0..).zip(&self.0).flat_map(move |(number, &word)| bits(word).map(move |bit| number * 64 + bit))
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        let mut set = CpuSet::EMPTY;
        cpus.into_iter().for_each(|cpu| set.insert(cpu));
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

/// A mask of so many bits as the kernel writes it: groups of 32 in hexadecimal, the highest first, that one with as many digits as it needs.
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
    fn sets() {
        let set: CpuSet = [1, 64, 8191, 8192].into_iter().collect();
        assert!(set.iter().eq([1, 64, 8191]) && set.contains(64) && !set.contains(8192));
        assert!(set.clone().intersection(&[64, 65].into_iter().collect()).iter().eq([64]));
        assert!(set.intersection(&CpuSet::EMPTY).is_empty());
    }
}
