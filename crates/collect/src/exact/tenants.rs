//! Who has had a page of several objects, and when.
//!
//! ```text
//!   page     |------- a block that fills it -------|   ...   |---- two blocks ----|
//!   looks         ^            ^           ^            ^           ^        ^
//!   its counts      all the one's, exactly   divided   the rest's     divided
//! ```
//! Between two looks only their sum is known, so counts are somebody's exactly where nobody else was there from one look to the next.

use numalens_profile::ids::ObjectId;

/// An object that lies on a page, or has lain there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Tenant {
    object: ObjectId,
    since_ns: u64,
    /// [`u64::MAX`]: it is there.
    until_ns: u64,
    /// All of the page was its own.
    whole: bool,
}

impl Tenant {
    fn is_within(&self, from: u64, to: u64) -> bool {
        self.since_ns <= to && self.until_ns >= from
    }
}

/// The objects of a page, since it began or as far as counts are to be divided yet.
#[derive(Clone, Default, Debug)]
pub struct Tenants(Vec<Tenant>);

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

impl Tenants {
    /// Of a page that was all one object's from its beginning on.
    pub fn of_one(object: ObjectId) -> Self {
        Tenants(vec![Tenant { object, since_ns: 0, until_ns: u64::MAX, whole: true }])
    }

    /// These are there from now on, the only one of which is `whole`, and what was there before is gone.
    pub fn changed(&mut self, present: &[ObjectId], whole: bool, time_ns: u64, known_from: u64) {
        self.0.retain(|tenant| tenant.until_ns >= known_from);
        for tenant in &mut self.0 {
            let stays = present.contains(&tenant.object) && tenant.whole == whole;
            if tenant.until_ns == u64::MAX && !stays {
                tenant.until_ns = time_ns;
            }
        }
        for &object in present {
            if !self.0.iter().any(|tenant| tenant.object == object && tenant.until_ns == u64::MAX) {
                self.0.push(Tenant { object, since_ns: time_ns, until_ns: u64::MAX, whole });
            }
        }
    }

    /// Whose the counts of a span are.
    pub fn had(&self, from: u64, to: u64) -> Had {
        let mut within = self.0.iter().filter(|tenant| tenant.is_within(from, to));
        match (within.next(), within.next()) {
            (None, _) => Had::ByNobody,
            (Some(tenant), None) if tenant.whole && tenant.since_ns <= from && tenant.until_ns >= to => {
                Had::By(tenant.object)
            }
            _ => {
                let within = self.0.iter().filter(|tenant| tenant.is_within(from, to));
                let mut objects: Vec<ObjectId> = within.map(|tenant| tenant.object).collect();
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
        let mut page = Tenants::of_one(A);
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
    fn another_block_of_the_same_object_is_not_the_same_block() {
        let mut page = Tenants::default();
        page.changed(&[A], true, 10, 0);
        page.changed(&[], false, 20, 0);
        page.changed(&[A], true, 30, 0);
        assert_eq!(page.had(11, 35), Had::Between(vec![A]));
        assert_eq!(page.had(31, 35), Had::By(A));
        page.changed(&[A], true, 40, 25);
        assert_eq!(page.had(11, 15), Had::ByNobody, "nobody asks for what was so long ago");
    }
}
