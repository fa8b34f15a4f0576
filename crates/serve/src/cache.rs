//! Answers that were given, up to a limit: pages ask again for what they showed a moment ago.

use std::collections::VecDeque;
use std::sync::Arc;

/// An answer's bytes, shared by those who are being told.
pub type Answer = Arc<Vec<u8>>;

/// Answers by what was asked, the latest last.
pub struct Cache {
    entries: VecDeque<(String, Answer)>,
    bytes: usize,
    most: usize,
}

impl Cache {
    /// Holds at most so many bytes of answers.
    pub fn new(most: usize) -> Cache {
        Cache { entries: VecDeque::new(), bytes: 0, most }
    }

    /// An answer that was given.
    pub fn get(&mut self, asked: &str) -> Option<Answer> {
        let index = self.entries.iter().position(|(key, _)| key == asked)?;
        let entry = self.entries.remove(index)?;
        let answer = entry.1.clone();
        self.entries.push_back(entry);
        Some(answer)
    }

    /// Keeps an answer; those that were not asked for longest give way. One larger than the limit is not kept.
    pub fn put(&mut self, asked: String, answer: Answer) {
        let size = |asked: &String, answer: &Answer| asked.len() + answer.len();
        if size(&asked, &answer) > self.most || self.entries.iter().any(|(key, _)| *key == asked) {
            return;
        }
        self.bytes += size(&asked, &answer);
        self.entries.push_back((asked, answer));
        while self.bytes > self.most {
            let Some((asked, answer)) = self.entries.pop_front() else { break };
            self.bytes -= size(&asked, &answer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_asked_for_gives_way() {
        let mut cache = Cache::new(10);
        let answer = |n: usize| Arc::new(vec![0; n]);
        cache.put("a".into(), answer(3));
        cache.put("b".into(), answer(3));
        assert!(cache.get("a").is_some());
        cache.put("c".into(), answer(4));
        assert!(cache.get("b").is_none(), "it was asked for before a");
        assert!(cache.get("a").is_some() && cache.get("c").is_some());
        cache.put("d".into(), answer(100));
        assert!(cache.get("d").is_none() && cache.get("a").is_some(), "too large to be kept");
        assert_eq!(cache.bytes, 9);
    }
}
