//! What papers found in programs is found in their re-implementations in targets/: the same diagnosis, of counted
//! accesses on a virtual machine. Their figures are of other machines, and of whole programs: directions are compared,
//! and what follows from the pattern alone.

use super::*;

/// A recorded target; None: its compiler is missing.
#[track_caller]
fn recorded(target: &str, options: &[&str]) -> Option<Recorded> {
    let program = targets::program(target)?;
    Some(Lab::exact().recorded(&[], &[&[program.to_str().unwrap()], options].concat()).succeeded())
}

impl Recorded {
    #[track_caller]
    fn whole_report(&self) -> Value {
        self.json(&["report", "--top", "10000"])
    }

    #[track_caller]
    fn remedies(&self) -> Vec<String> {
        let advice = self.advice();
        let findings = advice["findings"].as_array().unwrap();
        findings.iter().map(|finding| finding["remedy"].as_str().unwrap().to_string()).collect()
    }
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// The part in percent of all remote accesses that the object on top has.
fn remote_of_first(report: &Value) -> f64 {
    let objects = report["objects"].as_array().unwrap();
    let remote = |object: &Value| number(&object["accesses"]) * object["remote_share"].as_f64().unwrap_or(0.0);
    remote(&objects[0]) * 100.0 / objects.iter().map(remote).sum::<f64>()
}

/// MemProf: of FaceRec's 193 matrices one has 98 % of the remote accesses, written first and then read by all threads:
/// replicated (42 %).
#[test]
fn facerec_has_one_matrix_that_all_read() {
    let facerec = recorded("read_mostly_table", &["--size", "8", "--scale", "1"]).unwrap();
    let report = facerec.whole_report();
    assert!(remote_of_first(&report) > 90.0, "{:#}", report["objects"]);
    assert_eq!(facerec.remedies()[0], "replicate");
}

/// MemProf: of Streamcluster's 1000 objects one has 80 % of the remote accesses, read and written by all: interleaved
/// (161 %).
#[test]
fn streamcluster_has_one_array_that_all_write() {
    let streamcluster = recorded("shared_read_write", &["--size", "8", "--scale", "0.1"]).unwrap();
    assert!(remote_of_first(&streamcluster.whole_report()) > 80.0);
    assert_eq!(streamcluster.remedies()[0], "interleave");
}

/// MemProf: Psearchy's remote accesses are to private variables: allocated locally (8.2 %).
#[test]
fn psearchy_has_its_private_data_elsewhere() {
    let psearchy = recorded("main_allocates_private", &["--size", "8", "--scale", "0.1"]).unwrap();
    assert!(number(&psearchy.whole_report()["summary"]["application_exclusivity"]) > 90.0);
    assert_eq!(psearchy.remedies()[0], "local-allocation");
}

/// MemProf: what Apache accesses remotely the threads of one process share, and no function stands out: each process on
/// a node of its own (20 %; from 75 to 10 % remote).
#[test]
fn apache_shares_within_processes() {
    let apache = recorded("fork_share_within", &["--pin", "--size", "8", "--scale", "1"]).unwrap();
    assert_eq!(apache.remedies()[0], "co-locate-threads");
    let pinned = recorded("fork_share_within_fixed", &["--size", "8", "--scale", "1"]).unwrap();
    let remote = |recorded: &Recorded| 100.0 - number(&recorded.whole_report()["summary"]["local_share"]);
    let [apache, pinned] = [remote(&apache), remote(&pinned)];
    assert!(apache > 40.0 && pinned < 10.0, "{apache} % remote, {pinned} % with its own node for each");
}

/// HashSieve: all pairs of threads communicate alike; the mean exclusivity is 62.2 %, below the 80 % of most programs;
/// 92 % of the pages lie on one node, which serves 47 % of the accesses; interleaving took 21 % less time, pages by
/// locality 5 %, threads by communication less than 7 %.
#[test]
fn hashsieve_is_irregular_and_interleaving_wins() {
    let hashsieve = recorded("hash_sieve", &["--size", "8", "--scale", "0.1", "--threads", "8"]).unwrap();
    let report = hashsieve.whole_report();
    assert!(number(&report["communication"]["structure"]) < 20.0, "{:#}", report["communication"]);
    let summary = &report["summary"];
    let exclusivity = number(&summary["application_exclusivity"]);
    assert!((45.0..80.0).contains(&exclusivity), "{exclusivity}");
    assert!(number(&summary["imbalance"]) > 47.0 * 4.0 - 100.0, "{summary:#}");
    assert_eq!(hashsieve.remedies()[0], "interleave");

    // The shared vectors alone, as private pools are right where they are: no placement of pages makes them local, and
    // all that spreads them relieves the node.
    let of_vectors = report["objects"][0]["object"].as_u64().unwrap().to_string();
    let simulated = hashsieve.json(&["simulate", "--object", &of_vectors]);
    let row = |policy: &str, column: &str| {
        let rows = simulated["simulation"].as_array().unwrap();
        number(&rows.iter().find(|row| row["policy"] == policy).unwrap()[column])
    };
    assert!(row("interleave", "memory_time") < 79.0, "{simulated:#}");
    assert!(row("interleave", "imbalance") < 10.0 && row("first-touch", "imbalance") > 250.0, "{simulated:#}");
    for by_locality in ["parallel-first-touch", "local", "mixed"] {
        let more = row(by_locality, "local_share") - row("first-touch", "local_share");
        assert!(more < 10.0, "{by_locality} makes {more} % more local");
    }
    // Threads placed otherwise gain nothing: everybody shares with everybody.
    let compact = hashsieve.json(&["simulate", "--placement", "compact", "--policy", "first-touch"]);
    let rows = compact["simulation"].as_array().unwrap();
    let time = number(&rows.iter().find(|row| row["placement"] == "compact").unwrap()["memory_time"]);
    assert!((time - 100.0).abs() < 7.0, "{compact:#}");
}

/// Hydro: buffers allocated in a loop that is not parallel, and tiles allocated in another order than they are used in;
/// both repaired in the allocating loop, after which the access matrix was diagonal.
#[test]
fn hydro_allocates_in_another_order_than_it_uses() {
    let hydro = recorded("hydro_tiles", &["--size", "8", "--scale", "0.1"]).unwrap();
    let report = hydro.whole_report();
    assert!(
        number(&report["summary"]["local_share"]) < 40.0
            && number(&report["summary"]["application_exclusivity"]) > 90.0
    );
    // Tiles lie on all nodes: not one hot node is what is wrong.
    assert!(number(&report["summary"]["imbalance"]) < 150.0, "{:#}", report["summary"]);
    assert_eq!(hydro.remedies()[0], "local-allocation");
    let fixed = recorded("hydro_tiles_fixed", &["--size", "8", "--scale", "0.1"]).unwrap();
    assert!(number(&fixed.whole_report()["summary"]["local_share"]) > 95.0);
    assert_eq!(fixed.remedies(), Vec::<String>::new());
}

/// sumEuler, data parallel: one region is hot, with 81 % of the accesses; 29.6 % are local; 97 % of what the main
/// thread allocates is in one region; divide and conquer has no such list.
#[test]
fn sumeuler_has_a_hot_region() {
    let Some(euler) = recorded("sum_euler", &["--size", "8", "--scale", "0.1"]) else { return };
    let summary = euler.whole_report()["summary"].clone();
    assert_eq!(number(&summary["hot_region"]["node"]), 0.0, "{summary:#}");
    assert!(number(&summary["hot_region"]["share"]) > 30.0, "{summary:#}");
    let busiest = &summary["balance"];
    assert!(number(&busiest["node"]) == 0.0 && number(&busiest["share"]) > 50.0, "{summary:#}");
    let divided =
        recorded("sum_euler_fixed", &["--size", "8", "--scale", "0.1"]).unwrap().whole_report()["summary"].clone();
    assert!(number(&divided["hot_region"]["share"]) * 2.0 < number(&summary["hot_region"]["share"]), "{divided:#}");
}

/// Shared libraries: text on one node is fetched from all; a library of 20 MB is slower from afar by 14 %, one that
/// caches hold is not; replication is the best remedy of those compared.
#[test]
fn a_big_library_lies_on_one_node() {
    let big = recorded("big_library", &["--scale", "0.05"]).unwrap();
    let report = big.whole_report();
    let module = &report["code_placement"][0];
    assert!(module["module"].as_str().unwrap().ends_with("liblibrary_text.so"), "{module:#}");
    assert!(number(&module["remote_share"]) > 50.0, "{module:#}");
    let advice = big.json(&["advise"]);
    let finding = &advice["findings"][0];
    assert_eq!(finding["remedy"], "replicate-text", "{advice:#}");
    let gain = |key: &str| number(&finding["gain"][key]);
    assert!(gain("low") <= 12.9 && gain("high") >= 12.9 && gain("memory_time_percent") < 14.0, "{finding:#}");
    // Of a few functions, which stay in caches.
    let small = recorded("big_library", &["--size", "0.03", "--rounds", "2000"]).unwrap();
    assert!(!small.remedies().contains(&"replicate-text".to_string()));
}
