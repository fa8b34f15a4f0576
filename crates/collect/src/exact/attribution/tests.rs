//! The estimator against programs that are simulated: how often is the truth in the interval?

use super::*;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % n.max(1)
    }
}

const POLL_NS: u64 = 10_000_000;
const WHO: Who = Who { thread: ThreadId(0), node: None, class: (None, false) };

/// How often each object is accessed, on each page, from one poll to the next.
type Uses = Vec<Vec<(u32, Vec<(u32, u64)>)>>;

/// What a recording of it finds: by object the estimate, and what is uncertain. Sums are checked.
fn record(uses: &Uses, draws: u64, random: &mut Random) -> (FxHashMap<ObjectId, u64>, Bounds) {
    let (mut window, mut bounds) = (Window::default(), Bounds::default());
    let (mut found, mut all, mut divided) = (FxHashMap::<ObjectId, u64>::default(), 0, 0);
    for (poll, pages) in uses.iter().enumerate() {
        let since_ns = poll as u64 * POLL_NS;
        let of_page = |page: &(u32, Vec<(u32, u64)>)| page.1.iter().map(|&(_, n)| n).sum::<u64>();
        let of_poll: u64 = pages.iter().map(of_page).sum();
        for _ in 0..draws {
            let mut at = random.below(of_poll);
            let accesses =
                pages.iter().flat_map(|(page, objects)| objects.iter().map(move |&(object, n)| (*page, object, n)));
            for (page, object, n) in accesses {
                if at < n {
                    let time_ns = since_ns + 1 + random.below(POLL_NS - 1);
                    let (thread, class) = (WHO.thread, WHO.class);
                    window.add_sample(
                        page,
                        SampledAccess {
                            time_ns,
                            thread,
                            class,
                            object: ObjectId(object),
                            accesses: 1,
                            came: Came::Soon,
                        },
                    );
                    break;
                }
                at -= n;
            }
        }
        for page in pages {
            let n = of_page(page);
            all += n;
            window.count(SharedCounts {
                page: page.0,
                who: WHO,
                poll: poll as u64,
                since_ns,
                until_ns: since_ns + POLL_NS,
                time_ns: since_ns,
                counts: [n - n / 3, n / 3],
                page_owners: page.1.iter().map(|&(object, _)| ObjectId(object)).collect(),
                open: false,
                drawable: true,
            });
        }
        if window.is_full() || poll + 1 == uses.len() {
            window.attribute(&mut bounds, |part| {
                let n = part.counts[0] + part.counts[1];
                divided += n;
                assert!(part.object.is_none() == (part.samples == 0) && u64::from(part.samples) <= n);
                if let Some(object) = part.object {
                    *found.entry(object).or_default() += n;
                }
            });
        }
    }
    assert_eq!(divided, all, "parts are all that was counted");
    (found, bounds)
}

/// As the reports have it: Wilson's interval.
fn interval(estimate: u64, bound: &Bound) -> (f64, f64) {
    let divided = bound.divided.max(estimate) as f64;
    let (p, n, z2) = (estimate as f64 / divided.max(1.0), divided * divided / bound.squares.max(1.0), 3.8415);
    let (centre, half) = ((p * n + z2 / 2.0) / (n + z2), (z2 * (p * (1.0 - p) * n + z2 / 4.0)).sqrt() / (n + z2));
    ((centre - half).clamp(0.0, p) * divided, (centre + half).clamp(p, 1.0) * divided + bound.untold as f64)
}

/// How often the truth is in the interval, in percent, and how wide that is in the mean, as a part of the truth.
fn coverage(mut program: impl FnMut(&mut Random) -> Uses, draws: u64) -> (f64, f64) {
    let (mut random, mut hits, mut all, mut widths) = (Random(7), 0.0, 0.0, 0.0);
    for _ in 0..100 {
        let uses = program(&mut random);
        let mut truth: FxHashMap<u32, u64> = FxHashMap::default();
        for &(object, n) in uses.iter().flatten().flat_map(|(_, objects)| objects) {
            *truth.entry(object).or_default() += n;
        }
        let (found, bounds) = record(&uses, draws, &mut random);
        for (object, n) in truth {
            let object = ObjectId(object);
            let estimate = found.get(&object).copied().unwrap_or(0);
            let (low, high) = interval(estimate, &bounds.objects[&object]);
            hits += f64::from(u8::from(low <= n as f64 && n as f64 <= high));
            widths += (high - low) / n as f64;
            all += 1.0;
        }
    }
    (hits * 100.0 / all, widths / all)
}

#[test]
fn objects_that_have_pages_one_after_the_other() {
    let (percent, width) = coverage(
        |random| {
            (0..40)
                .map(|poll: u32| (0..8).map(|page| (page, vec![(poll / 5 % 3, 1 + random.below(100_000))])).collect())
                .collect()
        },
        5,
    );
    assert!(percent >= 95.0 && width < 0.3, "{percent} % covered, {width} wide");
}

#[test]
fn objects_beside_each_other() {
    let program = |pages: u32| {
        move |random: &mut Random| -> Uses {
            let page = |page: u32, random: &mut Random| {
                (page, vec![(0, 1 + random.below(60_000)), (1, 1 + random.below(20_000)), (2 + page % 2, 5000)])
            };
            (0..60).map(|_| (0..pages).map(|number| page(number, random)).collect()).collect()
        }
    };
    for pages in [1, 8, 400] {
        let (percent, width) = coverage(program(pages), 5);
        assert!(percent >= 95.0 && width < 1.2, "{pages} pages: {percent} % covered, {width} wide");
    }
}

#[test]
fn bursts_and_phases() {
    let (percent, width) = coverage(
        |random| {
            let page = |page: u32, poll: u32, random: &mut Random| {
                let (one, much) = (poll / 4 % 2, 1 << random.below(12));
                (page, vec![(one, 100 * much), (1 - one, much)])
            };
            (0..60).map(|poll| (0..6).map(|number| page(number, poll, random)).collect()).collect()
        },
        5,
    );
    assert!(percent >= 95.0 && width < 1.5, "{percent} % covered, {width} wide");
}

#[test]
fn samples_that_began_what_was_not_under_way_make_intervals_wider() {
    let skewed = |later: u64| {
        let (mut window, mut bounds) = (Window::default(), Bounds::default());
        let (since_ns, until_ns, time_ns, poll, page) = (0, 100, 100, 1, 1);
        let (counts, open, drawable, page_owners) = ([1000, 0], false, true, vec![ObjectId(1)]);
        window.count(SharedCounts {
            page,
            who: WHO,
            poll,
            since_ns,
            until_ns,
            time_ns,
            counts,
            page_owners,
            open,
            drawable,
        });
        let object = ObjectId(1);
        let access =
            |came| SampledAccess { time_ns: 50, thread: WHO.thread, class: WHO.class, object, accesses: 1, came };
        (0..10).for_each(|_| window.add_sample(1, access(Came::Soon)));
        (0..later).for_each(|_| window.add_sample(1, access(Came::Later)));
        let mut samples = 0;
        window.attribute(&mut bounds, |part| samples += part.samples);
        assert_eq!(samples, 10, "those divide nothing");
        bounds.objects[&object].skewed
    };
    // One of ten, a half, and all.
    assert_eq!([0, 3, 10, 30, 90].map(skewed), [0, 111, 500, 1000, 1000]);
}

#[test]
fn what_nobody_could_draw_is_reported_as_such() {
    let (mut window, mut bounds) = (Window::default(), Bounds::default());
    let (a, b) = (ObjectId(1), ObjectId(2));
    let counts = |page, drawable| SharedCounts {
        page,
        who: WHO,
        poll: 1,
        since_ns: 0,
        until_ns: 100,
        time_ns: 100,
        counts: [90, 10],
        page_owners: vec![a, b],
        open: page == 2,
        drawable,
    };
    let access = |time_ns| SampledAccess {
        time_ns,
        thread: WHO.thread,
        class: WHO.class,
        object: a,
        accesses: 1,
        came: Came::Soon,
    };
    window.count(counts(1, true));
    window.count(counts(2, false));
    window.add_sample(1, access(50));
    window.add_sample(2, access(150));
    let mut parts = Vec::new();
    window.attribute(&mut bounds, |part| parts.push((part.object, part.counts)));
    assert_eq!(parts, [(Some(a), [90, 10]), (None, [90, 10])]);
    let bound = Bound { divided: 100, squares: 10_000.0 * UNEVEN, untold: 100, skewed: 0 };
    assert_eq!((bounds.objects[&a], bounds.objects[&b]), (bound, bound));
    assert_eq!(bounds.pages.get(&1), None);
    assert_eq!(bounds.pages[&2].untold, 100);
    // An access is kept for the poll that counts it.
    let later = SharedCounts { poll: 2, since_ns: 100, until_ns: 200, page_owners: vec![a], ..counts(2, false) };
    window.count(later);
    parts.clear();
    window.attribute(&mut bounds, |part| parts.push((part.object, part.counts)));
    assert_eq!(parts, [(Some(a), [90, 10])]);
}
