//! How far nodes share the parts of something, estimated without bias from few accesses a part.
//!
//! The share of a page's main user (page exclusivity) is useless when a page has two samples: their maximum is at least
//! one half whoever uses the page. But the chance that *two accesses drawn from one page* come from the same node can
//! be estimated from any page with two accesses or more, without bias: with `n_i` accesses by node i of n,
//!
//! ```text
//!   same = sum n_i (n_i - 1) / (n (n - 1)),   expected: sum p_i^2
//! ```
//!
//! 1 when each page belongs to one node, 1 / N when N nodes use all of them alike. Pages weigh as much as they have
//! accesses.

/// One part's accesses by one user.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Use {
    pub part: u64,
    pub user: u32,
    /// Samples, or exact accesses.
    pub n: u64,
}

/// The estimate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sharing {
    /// Probability that two accesses to one part come from the same user.
    pub same: f64,
    /// Accesses in parts that have two or more: what the estimate rests on.
    pub basis: f64,
    /// Users as many as use a part on average, from 1 on.
    pub users: f64,
}

/// Of one part, in order: its accesses, and how many of them come from the same user as another one that is drawn of
/// it. Nothing of a part that was used once.
pub fn of_part(part: &[Use]) -> Option<(f64, f64)> {
    let n: f64 = part.iter().map(|one| one.n as f64).sum();
    if n < 2.0 {
        return None;
    }
    let users = part.chunk_by(|a, b| a.user == b.user).map(|user| user.iter().map(|one| one.n as f64).sum::<f64>());
    Some((users.map(|n| n * (n - 1.0)).sum::<f64>() / (n - 1.0), n))
}

/// The sharing of parts; nothing when no part was used twice.
pub fn of(uses: &mut [Use]) -> Option<Sharing> {
    uses.sort_unstable();
    let (mut weighted, mut basis) = (0.0, 0.0);
    for (same, n) in uses.chunk_by(|a, b| a.part == b.part).filter_map(of_part) {
        weighted += same;
        basis += n;
    }
    Sharing::new(weighted, basis)
}

/// The same with neighbouring parts taken together until enough of them were used twice. At least `parts` parts are
/// kept, and at least one.
pub fn of_neighbours(uses: &[Use], enough: f64, parts: u64) -> Option<Sharing> {
    let (low, high) = (uses.iter().map(|one| one.part).min()?, uses.iter().map(|one| one.part).max()?);
    let mut shift = 0;
    loop {
        let mut coarse: Vec<Use> = uses.iter().map(|one| Use { part: (one.part - low) >> shift, ..*one }).collect();
        let found = of(&mut coarse).filter(|sharing| sharing.basis >= enough);
        if found.is_some() || (high - low).checked_shr(shift + 1).unwrap_or(0) < parts.max(1) {
            return found;
        }
        shift += 1;
    }
}

impl Sharing {
    /// Of so many accesses in parts that were used twice, and how many of them come from the same user as another one.
    pub fn new(weighted: f64, basis: f64) -> Option<Sharing> {
        if basis <= 0.0 {
            return None;
        }
        let same = (weighted / basis).clamp(0.0, 1.0);
        Some(Sharing { same, basis, users: 1.0 / same.max(1.0 / 4096.0) })
    }

    /// The share of the main user of a part, were the other users of `users` all alike: p with
    /// p^2 + (1 - p)^2 / (users - 1) = same. The page exclusivity of pages with many accesses.
    pub fn main_share(&self, users: usize) -> f64 {
        let others = users.saturating_sub(1) as f64;
        if others < 1.0 {
            return 1.0;
        }
        // (others + 1) p^2 - 2 p + 1 - others * same = 0
        let discriminant = 1.0 - (others + 1.0) * (1.0 - others * self.same);
        ((1.0 + discriminant.max(0.0).sqrt()) / (others + 1.0)).clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn use_of(part: u64, user: u32, n: u64) -> Use {
        Use { part, user, n }
    }

    #[test]
    fn pages_of_one_node_each_are_not_shared() {
        let mut uses: Vec<Use> = (0..100).map(|page| use_of(page, page as u32 / 25, 2)).collect();
        let sharing = of(&mut uses).unwrap();
        assert_eq!((sharing.same, sharing.users, sharing.main_share(4)), (1.0, 1.0, 1.0));
    }

    /// Two samples of each page by nodes drawn at random: the maximum would say 62 % exclusive.
    #[test]
    fn few_samples_do_not_look_exclusive() {
        let draw = |i: u64| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 62) as u32;
        let mut uses: Vec<Use> = (0..8000).map(|i| use_of(i / 2, draw(i * 7919 + i * i), 1)).collect();
        let sharing = of(&mut uses).unwrap();
        assert!((sharing.same - 0.25).abs() < 0.03, "{sharing:?}");
        assert!((sharing.main_share(4) - 0.25).abs() < 0.15);
    }

    #[test]
    fn the_main_share_comes_back() {
        // 70, 10, 10, 10 of a thousand exact accesses.
        let mut uses: Vec<Use> = [700, 100, 100, 100].iter().zip(0..).map(|(n, user)| use_of(3, user, *n)).collect();
        assert!((of(&mut uses).unwrap().main_share(4) - 0.7).abs() < 0.01);
    }

    #[test]
    fn neighbours_stand_in_where_pages_have_a_sample_each() {
        let uses: Vec<Use> = (0..1024).map(|page| use_of(page, page as u32 / 256, 1)).collect();
        assert_eq!(of(&mut uses.clone()), None);
        let sharing = of_neighbours(&uses, 500.0, 16).unwrap();
        assert!(sharing.same > 0.99, "{sharing:?}");
        assert_eq!(of_neighbours(&uses[..3], 500.0, 16), None);
        assert_eq!(of_neighbours(&[], 1.0, 1), None);
    }

    /// Nobody to keep parts for: they are taken together until there is one left, and there it ends.
    #[test]
    fn neighbours_of_nobody_come_to_an_end() {
        let ends = [use_of(0, 0, 1), use_of(u64::MAX, 1, 1)];
        assert_eq!(of_neighbours(&ends, 1e9, 0), None);
        assert_eq!(of_neighbours(&ends, 1e9, 1), None);
        assert_eq!(of_neighbours(&ends[..1], 1.0, 0), None);
        let near = [use_of(0, 0, 1), use_of(1, 1, 1), use_of(6, 1, 1)];
        assert_eq!(of_neighbours(&near, 2.0, 0).unwrap().basis, 2.0, "two of three are near");
    }
}
