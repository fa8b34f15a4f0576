//! Sets of CPUs, in the kernel's notation.

use crate::TopologyError;
use std::fmt;

/// One more than the highest CPU number that a set can hold. Linux stops at 8192 (`NR_CPUS`); the bound keeps a hostile
/// file from asking for memory.
const MAX_CPUS: u32 = 65536;

/// A set of CPUs (or of anything that the kernel writes as such a list, nodes for instance).
///
/// Reads and writes the kernel's lists: `0-3,8`. Equal sets are equal values.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct CpuSet {
    /// Bit `c % 64` of word `c / 64` is CPU `c`. The last word is never zero, so that equality is equality of sets.
    words: Vec<u64>,
}

impl CpuSet {
    /// The empty set.
    pub fn new() -> Self {
        CpuSet::default()
    }

    /// Reads a list as the kernel writes it: `0-3,8`, blanks and a final newline allowed, nothing for the empty set.
    ///
    /// # Errors
    /// [`TopologyError::CpuList`] for anything else, and for CPUs past 65535.
    pub fn parse(text: &str) -> Result<Self, TopologyError> {
        let error = |reason: String| TopologyError::CpuList { text: shorten(text), reason };
        let mut set = CpuSet::new();
        if text.trim().is_empty() {
            return Ok(set);
        }
        for part in text.split(',') {
            let part = part.trim();
            let number = |digits: &str| -> Result<u32, TopologyError> {
                let digits = digits.trim();
                if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                    return Err(error(format!("`{}` is neither a number nor a range", shorten(part))));
                }
                match digits.parse() {
                    Ok(cpu) if cpu < MAX_CPUS => Ok(cpu),
                    _ => Err(error(format!("{} is past {}", shorten(digits), MAX_CPUS - 1))),
                }
            };
            let (first, last) = match part.split_once('-') {
                Some((first, last)) => (number(first)?, number(last)?),
                None => (number(part)?, number(part)?),
            };
            if first > last {
                return Err(error(format!("the range {first}-{last} runs backwards")));
            }
            (first..=last).for_each(|cpu| {
                set.insert(cpu);
            });
        }
        Ok(set)
    }

    /// Adds a CPU. `false` when it was there already, or is past 65535 and cannot be held.
    pub fn insert(&mut self, cpu: u32) -> bool {
        if cpu >= MAX_CPUS {
            return false;
        }
        let (word, bit) = ((cpu / 64) as usize, 1u64 << (cpu % 64));
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        let added = self.words[word] & bit == 0;
        self.words[word] |= bit;
        added
    }

    /// Whether the CPU is in the set.
    pub fn contains(&self, cpu: u32) -> bool {
        self.words.get((cpu / 64) as usize).is_some_and(|word| word >> (cpu % 64) & 1 == 1)
    }

    /// The CPUs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.words.iter().enumerate().flat_map(|(index, &word)| {
            let first = index as u32 * 64;
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| first + bit)
        })
    }

    /// How many CPUs are in the set.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether the set has no CPU.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Whether every CPU of this set is also in `other`. The empty set is a subset of every set.
    pub fn is_subset_of(&self, other: &CpuSet) -> bool {
        self.words.iter().enumerate().all(|(index, word)| word & !other.words.get(index).copied().unwrap_or(0) == 0)
    }

    /// The CPUs that are in both sets.
    pub fn intersection(&self, other: &CpuSet) -> CpuSet {
        CpuSet::of_words(self.words.iter().zip(&other.words).map(|(a, b)| a & b).collect())
    }

    /// The CPUs that are in this set and not in `other`.
    pub fn difference(&self, other: &CpuSet) -> CpuSet {
        let words = self.words.iter().enumerate();
        CpuSet::of_words(words.map(|(index, word)| word & !other.words.get(index).copied().unwrap_or(0)).collect())
    }

    fn of_words(mut words: Vec<u64>) -> CpuSet {
        while words.last() == Some(&0) {
            words.pop();
        }
        CpuSet { words }
    }
}

/// CPUs past 65535, which no Linux has, are left out.
impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        let mut set = CpuSet::new();
        set.extend(cpus);
        set
    }
}

/// CPUs past 65535, which no Linux has, are left out.
impl Extend<u32> for CpuSet {
    fn extend<I: IntoIterator<Item = u32>>(&mut self, cpus: I) {
        cpus.into_iter().for_each(|cpu| {
            self.insert(cpu);
        });
    }
}

impl std::str::FromStr for CpuSet {
    type Err = TopologyError;

    fn from_str(text: &str) -> Result<Self, TopologyError> {
        CpuSet::parse(text)
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while let Some(next) = cpus.next_if_eq(&(last + 1)) {
                last = next;
            }
            match last - first {
                0 => write!(f, "{separator}{first}")?,
                _ => write!(f, "{separator}{first}-{last}")?,
            }
            separator = ",";
        }
        Ok(())
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CpuSet({self})")
    }
}

/// Keeps a hostile text from filling an error message.
fn shorten(text: &str) -> String {
    match text.trim().char_indices().nth(60) {
        Some((end, _)) => format!("{}...", &text.trim()[..end]),
        None => text.trim().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn reads_and_writes_kernel_lists() {
        for list in ["", "0", "0-3,8", "0-17,68-85,136-153", "63-64", "65535"] {
            assert_eq!(CpuSet::parse(list).unwrap().to_string(), list);
        }
        assert_eq!(CpuSet::parse(" 3, 0-1 ,1\n").unwrap().to_string(), "0-1,3");
        // A range of two is a range, as the kernel writes it.
        assert_eq!(CpuSet::from_iter([4, 5]).to_string(), "4-5");
    }

    #[test]
    fn refuses_what_the_kernel_would_not_write() {
        for (list, reason) in [
            ("a", "`a` is neither"),
            ("1,,2", "`` is neither"),
            ("-3", "`-3` is neither"),
            ("+1", "`+1` is neither"),
            ("5-2", "5-2 runs backwards"),
            ("0-65536", "65536 is past 65535"),
            ("99999999999999999999", "is past 65535"),
            ("0-10:2/4", "neither"),
        ] {
            let error = CpuSet::parse(list).unwrap_err().to_string();
            assert!(error.contains(reason), "{list}: {error}");
        }
        assert!(CpuSet::parse(&"x".repeat(1 << 20)).unwrap_err().to_string().len() < 300);
    }

    #[test]
    fn holds_at_most_65536() {
        let mut set = CpuSet::new();
        assert!(set.insert(65535) && !set.insert(65535) && !set.insert(65536) && !set.insert(u32::MAX));
        assert_eq!(set.len(), 1);
        assert!(!set.contains(u32::MAX));
    }

    fn cpus() -> impl Strategy<Value = BTreeSet<u32>> {
        prop::collection::btree_set(prop_oneof![0..200u32, 0..MAX_CPUS], 0..100)
    }

    proptest! {
        #[test]
        fn agrees_with_a_set(a in cpus(), b in cpus()) {
            let (x, y) = (CpuSet::from_iter(a.iter().copied()), CpuSet::from_iter(b.iter().copied()));
            prop_assert_eq!(x.iter().collect::<Vec<_>>(), a.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(x.len(), a.len());
            prop_assert_eq!(x.is_empty(), a.is_empty());
            prop_assert_eq!(x.is_subset_of(&y), a.is_subset(&b));
            prop_assert!(x.intersection(&y).is_subset_of(&x));
            prop_assert_eq!(x.intersection(&y), CpuSet::from_iter(a.intersection(&b).copied()));
            prop_assert_eq!(x.difference(&y), CpuSet::from_iter(a.difference(&b).copied()));
            prop_assert_eq!(CpuSet::parse(&x.to_string()).unwrap(), x);
        }

        #[test]
        fn survives_any_text(text in ".{0,80}") {
            if let Ok(set) = CpuSet::parse(&text) {
                prop_assert_eq!(CpuSet::parse(&set.to_string()).unwrap(), set);
            }
        }
    }
}
