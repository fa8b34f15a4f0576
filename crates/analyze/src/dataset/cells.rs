//! Sums by pairs of a few things: a table where there are few, as pairs on pages may be billions.

use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Things of which a table has all pairs: 8 MiB.
const FEW: usize = 1024;

/// Sums by the places of both things of a pair.
pub enum Cells {
    Table(Vec<f64>, usize),
    Map(FxHashMap<(usize, usize), f64>),
}

impl Cells {
    /// Of pairs of so many things.
    pub fn new(things: usize) -> Cells {
        if things <= FEW { Cells::Table(vec![0.0; things * things], things) } else { Cells::Map(FxHashMap::default()) }
    }

    /// Adds to a pair's.
    #[inline]
    pub fn add(&mut self, (one, other): (usize, usize), n: f64) {
        match self {
            Cells::Table(sums, things) => sums[one * *things + other] += n,
            Cells::Map(sums) => *sums.entry((one, other)).or_default() += n,
        }
    }

    /// The sums of one thing with each other one; nothing where these are no table.
    #[inline]
    pub fn of_one(&mut self, one: usize) -> Option<&mut [f64]> {
        match self {
            Cells::Table(sums, things) => Some(&mut sums[one * *things..][..*things]),
            Cells::Map(_) => None,
        }
    }

    /// Adds all of others.
    pub fn merge(&mut self, other: Cells) {
        other.filled().for_each(|(pair, n)| self.add(pair, n));
    }

    /// Those that are not empty, by the things themselves.
    pub fn of<T: Copy + Ord>(self, things: &[T]) -> BTreeMap<(T, T), f64> {
        self.filled().map(|((one, other), n)| ((things[one], things[other]), n)).collect()
    }

    fn filled(self) -> Box<dyn Iterator<Item = ((usize, usize), f64)>> {
        match self {
            Cells::Table(sums, things) => {
                let filled = sums.into_iter().enumerate().filter(|(_, n)| *n > 0.0);
                Box::new(filled.map(move |(at, n)| ((at / things, at % things), n)))
            }
            Cells::Map(sums) => Box::new(sums.into_iter().filter(|(_, n)| *n > 0.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_and_a_map_have_the_same() {
        let mut both = [Cells::new(3), Cells::new(FEW + 1)];
        for cells in &mut both {
            let mut more = Cells::new(3);
            [((0, 2), 1.5), ((1, 1), 2.0), ((0, 2), 1.0)].iter().for_each(|(pair, n)| cells.add(*pair, *n));
            more.add((2, 1), 4.0);
            cells.merge(more);
        }
        let expected = BTreeMap::from([(('a', 'c'), 2.5), (('b', 'b'), 2.0), (('c', 'b'), 4.0)]);
        for cells in both {
            assert_eq!(cells.of(&['a', 'b', 'c']), expected);
        }
    }
}
