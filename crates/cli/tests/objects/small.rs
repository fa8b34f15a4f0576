//! Blocks that share pages: every access attributed, or some of them.

use super::*;

/// Reads and writes of each object of `words.cc`, every access attributed, and how often its finding compares.
fn every_word(lab: &Lab, linked: &str, rounds: u64, more: &[&str]) -> (BTreeMap<String, (u64, u64)>, u64) {
    let options: Vec<&str> = ["--objects", "exact"].into_iter().chain(more.iter().copied()).collect();
    let recorded = record_with(lab, "words.cc", &["-O1", "-g", "-pthread", linked], &options, &[&rounds.to_string()]);
    let said = recorded.said();
    let compared = said.split_whitespace().next().unwrap().parse().unwrap();
    let rows = objects(&recorded, "words.cc");
    let counts = rows.into_iter().map(|(name, row)| {
        assert!(row["intervals"].get("accesses").is_none(), "{name} is exact: {row}");
        (name, (number(&row["reads"]), number(&row["writes"])))
    });
    (counts.collect(), compared)
}

#[test]
fn small_blocks_are_used_as_often_as_arithmetic_says() {
    for linked in ["-pie", "-static", "-static-pie"] {
        small_blocks_are_used(linked);
    }
}

fn small_blocks_are_used(linked: &str) {
    let lab = Lab::exact();
    let [(once, compared_once), (thrice, compared)] =
        [1, 3].map(|rounds| every_word(&lab, linked, rounds, if rounds == 3 { &["--lines"] } else { &[] }));
    // Of the keys of a bucket those that were inserted later come first.
    let chains: u64 = (0..1000).map(|key| 2 * ((999 - key) / 256) + 2).sum();
    for (rows, rounds) in [(&once, 1), (&thrice, 3)] {
        let wanted = [
            ("list", (rounds * 10 * 2 * 1000, 2000)),
            ("other", (rounds * 3 * 2 * 1000, 1000)),
            ("buckets", (1000 + rounds * 1000, 256 + 1000)),
            ("entry", (rounds * chains, 3000)),
            ("former", (5000 + 2000, 3000)),
            ("latter", (7000 + 1000, 2000)),
            ("grown", (0, 1000)),
            ("hits", (0, 700)),
            ("misses", (300, 0)),
        ];
        for (name, counts) in wanted {
            assert_eq!(rows.get(name), Some(&counts), "{linked}: {name}, {rounds}");
        }
        assert!(!rows.contains_key("objects that share a page, not told apart"), "{rows:?}");
    }
    // Each node on the way down: its key and the pointer to the next; and at the end the key of what was found.
    let finds = 2 * 1000;
    let compared = compared - compared_once;
    assert_eq!(thrice["tree"].0 - once["tree"].0, 2 * (compared - finds) + finds);
    assert_eq!(thrice["tree"].1, once["tree"].1);
}

#[test]
fn small_blocks_of_a_pool_that_goes_or_moves_have_what_arithmetic_says() {
    let lab = Lab::exact();
    let options = ["--objects", "exact"];
    let recorded = record_with(&lab, "pools.cc", &["-O1", "-g"], &options, &[]);
    let rows = objects(&recorded, "pools.cc");
    let pairs = 3000;
    for (name, reads, writes) in [
        ("freed", pairs / 2 * 3, 0),
        ("freed one", 0, pairs * 3),
        ("freed other", 0, pairs * 4),
        ("unmapped", pairs * 4, 0),
        ("unmapped one", 0, pairs * 2),
        ("moved one", 0, pairs * 7),
        ("moved other", 0, pairs * 3),
        ("read one", pairs * 3, pairs),
        ("read other", pairs * 2, pairs * 4),
    ] {
        let row = rows.get(name).unwrap_or_else(|| panic!("no object {name}: {:?}", rows.keys()));
        assert_eq!((number(&row["reads"]), number(&row["writes"])), (reads, writes), "{name}");
    }
    for name in ["moved", "read"] {
        let accesses = rows.get(name).map_or(0, |row| number(&row["accesses"]));
        assert_eq!(accesses, 0, "{name}");
    }
}

#[test]
fn what_is_sampled_lies_within_its_interval() {
    let lab = Lab::exact();
    let flags = ["-O1", "-g"];
    let of_a_round = [("often", 20 * 750 * 10), ("seldom", 20 * 750 * 3)];
    let recorded = record_with(&lab, "halves.cc", &flags, &["--objects", "exact"], &["2"]);
    let exact = objects(&recorded, "halves.cc");
    for (name, reads) in of_a_round {
        assert_eq!(
            (&exact[name]["reads"], &exact[name]["writes"]),
            (&(2 * reads).into(), &(20 * 750).into()),
            "{name}"
        );
    }
    let rounds = 2000;
    let recorded = record_with(&lab, "halves.cc", &flags, &[], &[&rounds.to_string()]);
    let sampled = objects(&recorded, "halves.cc");
    // Pages of which no access was looked at.
    let unknown = sampled.get("objects that share a page, not told apart").map_or(0, |row| number(&row["accesses"]));
    for (name, reads) in of_a_round {
        let row = &sampled[name];
        // None of its accesses on shared pages was looked at: then there is no interval, and they are among the
        // unknown.
        let told = row["accesses"].as_f64().unwrap();
        let [low, high] = [0, 1].map(|end| row["intervals"]["accesses"][end].as_f64().unwrap_or(told));
        // Six standard deviations, of which the interval has 1.96 to each side.
        let accesses = rounds * reads + 20 * 750;
        let wrong = number(&row["accesses"]).abs_diff(accesses).saturating_sub(unknown);
        let most = (high - low) / 2.0 / 1.96 * 6.0;
        assert!(wrong as f64 <= most, "{name}: {accesses} accesses, {unknown} unknown, {row}");
    }
}

#[test]
fn what_was_accessed_in_memory_that_is_gone_is_its_objects() {
    let lab = Lab::exact();
    for flags in [["-O1", "-g"].as_slice(), &["-O1", "-g", "-static"]] {
        let recorded = record_with(&lab, "gone.cc", flags, &["--objects", "exact"], &[]);
        let found = objects(&recorded, "gone.cc");
        let n = 1 << 16;
        for (tag, reads, writes) in [
            ("unmapped", 0, n),
            ("in halves", n / 2, n),
            ("moved", n, n),
            ("given up", 2 * n, n),
            ("freed", 3 * n, 3 * n),
        ] {
            let row = &found[tag];
            assert_eq!([&row["reads"], &row["writes"]].map(number), [reads, writes], "{tag}: {row}");
        }
    }
}

#[test]
fn exact_objects_are_refused_where_they_cannot_be() {
    let mut command = numalens(&["record", "--objects", "exact", "--engine", "sample", "--", "true"]);
    assert!(failure(&mut command, 2).contains("need the exact engine"));
}
