//! Who has had a page of several objects, and when.
//!
//! ```text
//!   page     |------- a block that fills it -------|   ...   |---- two blocks ----|
//!   polls         ^            ^           ^            ^           ^        ^
//!   its counts      all the one's, exactly   divided   the rest's     divided
//! ```
//! Between two polls only their sum is known, so counts are somebody's exactly where nobody else was there from one
//! poll to the next. Blocks may come and go thousands of times in between: then an object that has come back often is
//! taken to have been there all the time.

use numalens_profile::ids::ObjectId;

/// An object that lies on a page, or has lain there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct PageOwner {
    object: ObjectId,
    since_ns: u64,
    /// [`u64::MAX`]: it is there.
    until_ns: u64,
    /// All of the page was its own.
    whole: bool,
}

impl PageOwner {
    fn is_within(&self, from: u64, to: u64) -> bool {
        self.since_ns <= to && self.until_ns >= from
    }
}

/// So many owners of a page are told apart, however often its blocks change.
const APART: usize = 32;

/// The objects of a page, since it began or as far as counts are to be divided yet.
#[derive(Clone, Default, Debug)]
pub struct PageOwners {
    known: Vec<PageOwner>,
    /// Of those, how many there were when objects were last made one owner each.
    merged: usize,
    /// Those before, in order, and until when they were.
    earlier: Vec<ObjectId>,
    earlier_until_ns: u64,
}

/// Whose counts are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Had {
    /// One object's alone.
    By(ObjectId),
    /// No object was there but what stands for the rest of the memory.
    ByNobody,
    /// Any of these, in order, or of the rest.
    Between(Vec<ObjectId>),
}

impl PageOwners {
    /// Of a page that was all one object's from its beginning on.
    pub fn of_one(object: ObjectId) -> Self {
        let known = vec![PageOwner { object, since_ns: 0, until_ns: u64::MAX, whole: true }];
        PageOwners { known, ..PageOwners::default() }
    }

    /// These are there from now on, the only one of which is `whole`, and what was there before is gone.
    pub fn changed(&mut self, present: &[ObjectId], whole: bool, time_ns: u64, known_from: u64) {
        for page_owner in self.known.extract_if(.., |page_owner| page_owner.until_ns < known_from) {
            self.earlier_until_ns = self.earlier_until_ns.max(page_owner.until_ns);
            if let Err(place) = self.earlier.binary_search(&page_owner.object) {
                self.earlier.insert(place, page_owner.object);
            }
        }
        for page_owner in &mut self.known {
            let stays = present.contains(&page_owner.object) && page_owner.whole == whole;
            if page_owner.until_ns == u64::MAX && !stays {
                page_owner.until_ns = time_ns;
            }
        }
        for &object in present {
            if !self.known.iter().any(|page_owner| page_owner.object == object && page_owner.until_ns == u64::MAX) {
                self.known.push(PageOwner { object, since_ns: time_ns, until_ns: u64::MAX, whole });
            }
        }
        if self.known.len() > APART.max(2 * self.merged) {
            self.merge();
        }
    }

    /// Makes those that are gone one owner for each object, which had the page from the first one's beginning to the
    /// last one's end.
    fn merge(&mut self) {
        self.known.sort_by_key(|page_owner| (page_owner.until_ns == u64::MAX, page_owner.object, page_owner.since_ns));
        self.known.dedup_by(|later, first| {
            let same = first.object == later.object && later.until_ns != u64::MAX;
            if same {
                *first = PageOwner { until_ns: first.until_ns.max(later.until_ns), whole: false, ..*first };
            }
            same
        });
        self.merged = self.known.len();
    }

    /// Whether an object had the page alone until this time; if so, it has not gone.
    pub fn is_back(&mut self, object: ObjectId, gone_ns: u64) -> bool {
        let is_it = |page_owner: &&mut PageOwner| {
            page_owner.object == object && page_owner.whole && page_owner.until_ns == gone_ns
        };
        let Some(page_owner) = self.known.iter_mut().find(is_it) else { return false };
        page_owner.until_ns = u64::MAX;
        true
    }

    /// The one who alone has had all of the page from this time on until it went, and when that was.
    pub fn alone_until(&self, from: u64) -> Option<(ObjectId, u64)> {
        let is_earlier = !self.earlier.is_empty() && self.earlier_until_ns >= from;
        let mut within = self.known.iter().filter(|page_owner| page_owner.until_ns >= from);
        let page_owner = within.next().filter(|page_owner| page_owner.whole && page_owner.since_ns <= from)?;
        let has_gone = page_owner.until_ns != u64::MAX && within.next().is_none() && !is_earlier;
        has_gone.then_some((page_owner.object, page_owner.until_ns))
    }

    /// Whose the counts of a span are.
    pub fn had(&self, from: u64, to: u64) -> Had {
        let is_earlier = !self.earlier.is_empty() && self.earlier_until_ns >= from;
        let mut within = self.known.iter().filter(|page_owner| page_owner.is_within(from, to));
        match (within.next(), within.next()) {
            (None, _) if !is_earlier => Had::ByNobody,
            (Some(page_owner), None)
                if !is_earlier && page_owner.whole && page_owner.since_ns <= from && page_owner.until_ns >= to =>
            {
                Had::By(page_owner.object)
            }
            _ => {
                let within = self.known.iter().filter(|page_owner| page_owner.is_within(from, to));
                let earlier = self.earlier.iter().copied().filter(|_| is_earlier);
                let mut objects: Vec<ObjectId> = within.map(|page_owner| page_owner.object).chain(earlier).collect();
                objects.sort_unstable();
                objects.dedup();
                Had::Between(objects)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ObjectId = ObjectId(1);
    const B: ObjectId = ObjectId(2);
    const C: ObjectId = ObjectId(3);

    #[test]
    fn what_one_has_alone_is_its_own() {
        let mut page = PageOwners::of_one(A);
        assert_eq!(page.had(5, u64::MAX), Had::By(A));
        page.changed(&[], false, 10, 0);
        page.changed(&[B], true, 20, 0);
        assert_eq!(page.had(5, 9), Had::By(A));
        assert_eq!(page.had(5, 11), Had::Between(vec![A]));
        assert_eq!(page.had(11, 19), Had::ByNobody);
        assert_eq!(page.had(11, 20), Had::Between(vec![B]));
        assert_eq!(page.had(9, 21), Had::Between(vec![A, B]));
        assert_eq!(page.had(21, 30), Had::By(B));
        page.changed(&[B, C], false, 30, 0);
        assert_eq!(page.had(21, 29), Had::By(B));
        assert_eq!(page.had(31, 40), Had::Between(vec![B, C]));
    }

    #[test]
    fn who_comes_and_goes_all_the_time_is_taken_to_stay() {
        let mut page = PageOwners::default();
        for time in (0..3_000_000).step_by(30) {
            page.changed(&[A], true, time, 0);
            page.changed(&[], false, time + 10, 0);
            page.changed(&[B, C], false, time + 20, 0);
        }
        assert!(page.known.len() <= 2 * APART, "{} are kept", page.known.len());
        assert_eq!(page.had(1_000_001, 1_000_002), Had::Between(vec![A, B, C]));
        page.changed(&[A], true, 3_000_000, 0);
        assert_eq!(page.had(3_000_001, 3_000_010), Had::By(A), "who is there now is told apart");
        assert_eq!(page.had(2_999_981, 2_999_989), Had::ByNobody, "and so is who was lately");
    }

    #[test]
    fn a_block_that_grows_where_it_is_has_not_gone() {
        let mut page = PageOwners::of_one(A);
        page.changed(&[], false, 10, 0);
        assert!(!page.is_back(B, 10));
        assert!(!page.is_back(A, 9));
        assert!(page.is_back(A, 10));
        assert_eq!(page.had(5, 20), Had::By(A));
        page.changed(&[], false, 30, 0);
        assert_eq!(page.had(5, 31), Had::Between(vec![A]));
    }

    #[test]
    fn who_was_the_last_one_had_it_to_the_end() {
        let mut page = PageOwners::of_one(A);
        assert_eq!(page.alone_until(5), None, "it is there");
        page.changed(&[], false, 10, 0);
        assert_eq!(page.alone_until(5), Some((A, 10)));
        assert_eq!(page.alone_until(11), None);
        page.changed(&[B], true, 20, 0);
        page.changed(&[], false, 30, 0);
        assert_eq!(page.alone_until(5), None, "another one had it too");
        assert_eq!(page.alone_until(25), Some((B, 30)));
    }

    #[test]
    fn another_block_of_the_same_object_is_not_the_same_block() {
        let mut page = PageOwners::default();
        page.changed(&[A], true, 10, 0);
        page.changed(&[], false, 20, 0);
        page.changed(&[A], true, 30, 0);
        assert_eq!(page.had(11, 35), Had::Between(vec![A]));
        assert_eq!(page.had(31, 35), Had::By(A));
        page.changed(&[A], true, 40, 25);
        assert_eq!(page.had(11, 25), Had::Between(vec![A]), "what was long ago is known as such");
        assert_eq!(page.had(21, 25), Had::ByNobody);
    }
}
