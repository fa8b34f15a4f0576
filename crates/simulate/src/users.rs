//! The users of a page, in a few bytes each: a recording may have a hundred million.

use crate::recording::User;
use numalens_topology::NodeId;

/// All of one page. Their accesses are whole numbers.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Users(Box<[u8]>);

impl Users {
    /// One after the other.
    pub fn iter(&self) -> UsersIter<'_> {
        UsersIter(&self.0)
    }
}

impl FromIterator<User> for Users {
    fn from_iter<T: IntoIterator<Item = User>>(users: T) -> Self {
        let mut bytes = Vec::new();
        for User { thread, node, reads, writes, initial } in users {
            let node = node.map_or(0, |node| u64::from(node.0) + 1);
            let numbers = [u64::from(thread), node, reads as u64, writes as u64, initial as u64];
            numbers.into_iter().for_each(|number| push(&mut bytes, number));
        }
        Users(bytes.into())
    }
}

impl From<Vec<User>> for Users {
    fn from(users: Vec<User>) -> Self {
        users.into_iter().collect()
    }
}

/// Seven bits to a byte, the lowest first.
fn push(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// What is left of them.
#[derive(Clone)]
pub struct UsersIter<'a>(&'a [u8]);

impl UsersIter<'_> {
    #[inline]
    fn number(&mut self) -> u64 {
        let (mut number, mut shift) = (0u64, 0);
        while let Some((byte, rest)) = self.0.split_first() {
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                break;
            }
            shift += 7;
        }
        number
    }
}

impl Iterator for UsersIter<'_> {
    type Item = User;

    #[inline]
    fn next(&mut self) -> Option<User> {
        if self.0.is_empty() {
            return None;
        }
        let (thread, node) = (self.number() as u32, self.number());
        let node = node.checked_sub(1).map(|node| NodeId(node as u16));
        let [reads, writes, initial] = std::array::from_fn(|_| self.number() as f64);
        Some(User { thread, node, reads, writes, initial })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_come_out_as_they_went_in() {
        let user = |thread, node: Option<u16>, counts: [f64; 3]| {
            let [reads, writes, initial] = counts;
            User { thread, node: node.map(NodeId), reads, writes, initial }
        };
        let users = [
            user(0, None, [0.0; 3]),
            user(u32::MAX, Some(u16::MAX), [127.0, 128.0, 9007199254740992.0]),
            user(5, Some(0), [1e6, 0.0, 3.0]),
        ];
        let packed: Users = users.into_iter().collect();
        assert_eq!(packed.iter().collect::<Vec<_>>(), users);
        assert_eq!(Users::default().iter().next(), None);
    }
}
