//! Counters of pages, since the poll before.

use super::Counting;
use super::object_counts::{Whose, whose};
use crate::exact::by_number::ByNumber;
use crate::exact::known_pages::KnownPage;
use crate::exact::poll::Poll;
use crate::exact::thread::{CountedPage, Polled, Thread};
use crate::exact::totals::grown;
use crate::session::{Of, Session, UsedPage};

/// A page, by its number, and reads and writes of a thread there.
pub struct GrownPage {
    pub number: u32,
    pub more: [u64; 2],
}

/// How pages were found to have grown.
#[derive(Clone, Copy)]
pub struct Found {
    pub polled: Polled,
    /// The poll before had found counts of pages that were not known yet.
    pub waited: bool,
    /// Which poll it is.
    pub number: u64,
}

/// All reads, and all writes.
pub fn sum<'a>(pages: impl IntoIterator<Item = &'a GrownPage>) -> [u64; 2] {
    pages.into_iter().fold([0, 0], |sum, page| [sum[0] + page.more[0], sum[1] + page.more[1]])
}

/// Gives pages what they lack of reads and writes (`Balance::end`): the one that has grown most, or
/// else the one that has most of all that are known.
pub fn fill_up(pages: &mut Vec<GrownPage>, missing: [u64; 2], known: &ByNumber<[u64; 2]>) {
    for kind in (0..2).filter(|&kind| missing[kind] != 0) {
        let grown = pages.iter_mut().filter(|page| page.more[kind] != 0);
        if let Some(page) = grown.max_by_key(|page| (page.more[kind], page.number)) {
            page.more[kind] += missing[kind];
        } else if let Some((number, _)) = known.iter().max_by_key(|(number, counts)| (counts[kind], *number)) {
            let mut more = [0; 2];
            more[kind] = missing[kind];
            pages.push(GrownPage { number, more });
        }
    }
}

impl Counting<'_> {
    /// The pages that a thread has accessed since the last poll, when there were `before`, and whether some are not
    /// known yet: they wait for the next one. `in_flight`: accesses of a page that an execution may take back.
    pub fn grown_pages(
        &self,
        before: &mut ByNumber<[u64; 2]>,
        now: &ByNumber<[u64; 2]>,
        in_flight: u64,
    ) -> (Vec<GrownPage>, bool) {
        let mut wait = false;
        let mut pages = Vec::new();
        now.each_with(before, |number, now, before| {
            if now == *before {
                return;
            }
            let Some(&KnownPage { ended: gone, .. }) = self.lookup.page(number) else {
                // What is pending of pages that have gone was reported. Who gets their number begins with it.
                match self.lookup.has_gone(number) {
                    true => *before = now,
                    false => wait = true,
                }
                return;
            };
            let running = self.poll == Poll::Running && !gone;
            let in_flight = if running { self.in_flight * in_flight } else { 0 };
            let more = [0, 1].map(|kind| grown(&mut before[kind], now[kind], in_flight));
            if more != [0, 0] {
                pages.push(GrownPage { number, more });
            }
        });
        (pages, wait)
    }

    /// Reports what a thread has counted on pages, as far as its sites were, and keeps it to be attributed to objects.
    pub fn report_pages(&self, session: &mut Session, thread: &mut Thread, grown: Vec<GrownPage>, found: Found) {
        for GrownPage { number, more } in grown {
            let Some(known @ &KnownPage { owner, begin_ns, .. }) = self.lookup.page(number) else { continue };
            let before = thread.accesses.pages.at(number);
            // Its first counts have waited for it to be known.
            let is_first = found.waited && *before == more;
            let since_ns = if is_first { found.polled.since_ns.min(begin_ns) } else { found.polled.since_ns };
            let [reads, writes] = [0, 1].map(|kind| {
                let (reported, too_early) = thread.accesses.balance.page(self.strict, kind, more[kind]);
                before[kind] -= too_early;
                reported
            });
            if (reads, writes) == (0, 0) {
                continue;
            }
            let polled = Polled { since_ns, ..found.polled };
            let had = self.lookup.had(number, since_ns, polled.until_ns);
            let is_shared = whose(owner, had.as_ref()) == Whose::Several;
            self.lookup.sampler.borrow_mut().used(thread.process, number, reads + writes, is_shared);
            // What was left to this poll has the time of the one that found it.
            let mut fresh = [reads, writes];
            let carried: Vec<_> = thread.held.carried(number, fresh).collect();
            for (polled, part) in carried {
                fresh = [fresh[0] - part[0], fresh[1] - part[1]];
                self.report_page(session, thread, known, CountedPage::of(number, found.number, polled, part));
            }
            if fresh != [0, 0] {
                self.report_page(session, thread, known, CountedPage::of(number, found.number, polled, fresh));
            }
        }
    }

    fn report_page(&self, session: &mut Session, thread: &mut Thread, known: &KnownPage, counted: CountedPage) {
        let CountedPage { number, time_ns, reads, writes, .. } = counted;
        let (process, id, node) = (self.lookup.process.id, thread.id, thread.node);
        let (page, home) = (known.page, known.class.0);
        let used = UsedPage { process, thread: id, time_ns, node, home, page, reads, writes };
        session.count_page(Of::Accesses, &used);
        if session.records_every_object() {
            let waiting = thread.unattributed.waiting.entry(number).or_default();
            waiting.add(time_ns, |time_ns| session.bin_of(time_ns), [reads, writes]);
        } else {
            thread.unattributed.counted.push(CountedPage { class: known.class, ..counted });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_get_what_they_lack() {
        let page = |number, reads, writes| GrownPage { number, more: [reads, writes] };
        let mut pages = vec![page(1, 7, 0), page(2, 9, 0), page(3, 0, 0)];
        let mut known = ByNumber::default();
        (*known.at(4), *known.at(5)) = ([0, 50], [900, 60]);
        fill_up(&mut pages, [10, 20], &known);
        let found: Vec<_> = pages.iter().map(|page| (page.number, page.more)).collect();
        assert_eq!(found, [(1, [7, 0]), (2, [19, 0]), (3, [0, 0]), (5, [0, 20])]);
        fill_up(&mut pages, [0, 0], &known);
        assert_eq!(sum(&pages), [26, 20]);
    }
}
