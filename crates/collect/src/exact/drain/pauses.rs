//! Parts of a recording that are left out: the program, or the user, has paused the counting.
//!
//! The counters themselves know nothing of it. When counting begins or ends, all threads' counters are read, and what they have grown by since
//! the look before goes to the part that ends there. Who asked for it waits meanwhile, so what that thread counts is divided exactly; so is
//! what other threads count that stand still, as threads do that wait for it. A thread that runs on is read at some moment of these, between two
//! of its instructions or within the counting of one: then the counter of a site has grown and that of its page has not yet.
//!
//! Sums by sites and by pages of a thread must stay equal all the same. So pages follow sites:
//!
//! ```text
//!   sites grow by n     counting: told         paused: left out
//!                          |                      |
//!                       to_tell += n           to_leave += n
//!                          |                      |
//!   pages grow by m     m are taken from to_tell first, then from to_leave; the rest waits for the next look
//! ```

/// What the pages of a thread have still to follow: reads and writes.
#[derive(Clone, Copy, Default, Debug)]
pub(in crate::exact) struct Balance {
    to_tell: [i64; 2],
    to_leave: [i64; 2],
}

impl Balance {
    /// So many accesses of a site were counted: told, or left out.
    pub fn site(&mut self, told: bool, counts: [u64; 2]) {
        let to = if told { &mut self.to_tell } else { &mut self.to_leave };
        to.iter_mut().zip(counts).for_each(|(to, count)| *to += count as i64);
    }

    /// Of so many accesses to a page: how many to tell, and how many to take as not seen yet. `kind`: reads or writes.
    pub fn page(&mut self, ever_paused: bool, kind: usize, count: u64) -> (u64, u64) {
        let (to_tell, to_leave) = (&mut self.to_tell[kind], &mut self.to_leave[kind]);
        if !ever_paused {
            *to_tell -= count as i64;
            return (count, 0);
        }
        let told = count.min((*to_tell).max(0) as u64);
        let left = (count - told).min((*to_leave).max(0) as u64);
        *to_tell -= told as i64;
        *to_leave -= left as i64;
        (told, count - told - left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_follow_sites() {
        let mut balance = Balance::default();
        // Before the first pause pages are told as they come, also before their sites.
        assert_eq!(balance.page(false, 0, 5), (5, 0));
        balance.site(true, [7, 1]);
        // The pause begins while two reads have not reached their pages.
        balance.site(false, [10, 0]);
        assert_eq!(balance.page(true, 0, 8), (2, 0));
        assert_eq!(balance.page(true, 0, 5), (0, 1));
        assert_eq!(balance.page(true, 1, 1), (1, 0));
        // It ends, and what was seen too early is told.
        balance.site(true, [1, 0]);
        assert_eq!(balance.page(true, 0, 1), (1, 0));
        assert_eq!((balance.to_tell, balance.to_leave), ([0, 0], [0, 0]));
    }
}
