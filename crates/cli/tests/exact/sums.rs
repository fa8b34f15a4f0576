//! A large recording has sums of its page accesses, and says with them what all facts say.

use super::*;
use numalens_profile::tables::{PageAccess, PageSum, SummedWait};

#[test]
fn a_large_recording_says_the_same_with_its_sums_and_without() {
    let lab = Lab::exact();
    let program = lab.build("exact/sums.c", &["-O1", "-g", "-pthread"]);
    let recorded = record(&lab, &[], &[&program]);
    let profile = recorded.profile();
    let facts = profile.count::<PageAccess>().unwrap();
    assert!(facts >= 200_000, "{facts}");
    let sums = profile.count::<PageSum>().unwrap();
    assert!((1..2000).contains(&sums), "{sums}");
    assert!(profile.count::<SummedWait>().unwrap() > 0);
    let path = recorded.path.to_str().unwrap();
    let said = || {
        let of = |args: &[&str]| {
            let outcome = Outcome::from(numalens(args).output().unwrap());
            outcome.succeeded().stdout
        };
        [
            of(&["report", path]),
            of(&["report", "--section", "all", "--format", "json", path]),
            of(&["advise", "--format", "json", path]),
        ]
    };
    let with = said();
    profile.replace(Vec::<PageSum>::new()).unwrap();
    assert_eq!(said(), with);
}
