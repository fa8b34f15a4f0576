//! Memory that is mapped several times, and pages of other processes.

use super::*;

/// What a policy is set to through one mapping, and where pages are moved, holds for all that map the memory.
#[test]
fn shared_memory_has_policies_and_homes_of_its_own() {
    let lab = Lab::exact();
    let program = lab.build("machine/shared.c", &["-O1", "-g", "-lnuma"]);
    let said = |how: &str| record(&lab, &["--machine", "4x2"], &[&program, how]).outcome.stdout;
    assert_eq!(
        said("mappings"),
        "by the other: policy 2 of nodes 4\n\
         placed by the other: 2 2 2 2 2 2 2 2\n\
         a piece: policy 1 of nodes 8\n\
         before the piece: policy 2 of nodes 4\n\
         behind the piece: policy 2 of nodes 4\n\
         taken away by the other: policy 0 of nodes 0\n\
         the piece as well: policy 0 of nodes 0\n\
         interleaved by the place in the memory: in turn\n\
         a stored file: policy 2 of nodes 4\n\
         a stored file by the other: policy 0 of nodes 0\n\
         interleaved by the thread: in turn\n"
    );
    assert_eq!(
        said("processes"),
        "attached: policy 2 of nodes 8\n\
         attached: 3\n\
         the segment here: -2\n\
         the segment here, touched: 3 3 3 3 3 3 3 3\n\
         said by the child: policy 2 of nodes 2\n\
         not said by the child: policy 0 of nodes 0\n"
    );
    assert_eq!(
        said("moves"),
        "placed: 0 0 0 0 0 0 0 0\n\
         moved: 0\n\
         by the other: 1 1 1 1 1 1 1 1\n\
         moved: 0, Permission denied\n\
         moved: 0, on 2\n\
         by the other: 2 2 2 2 2 2 2 2\n\
         bound by the other: 3 3 3 3 3 3 3 3\n\
         migrated: 0\n\
         migrated: 0 0 0 0 0 0 0 0\n\
         migrated: 0 0 0 0 0 0 0 0\n"
    );
}

/// Accesses by the local and the remote node that a function has made.
fn reads_of(recorded: &Recorded, function: &str) -> (u64, u64) {
    let report = recorded.report();
    let row = report["functions"].as_array().unwrap().iter().find(|row| row["function"] == function).unwrap().clone();
    let of = |class: &str| row["classes"][class].as_u64().unwrap();
    (of("local"), of("remote"))
}

/// A process that waits in a system call while another one moves pages that both have counts them where they are from
/// then on.
#[test]
fn pages_that_another_process_moves_are_counted_where_they_are() {
    let lab = Lab::exact();
    let shared = lab.build("machine/shared.c", &["-O1", "-g", "-lnuma"]);
    let recorded = record(&lab, &["--machine", "4x2"], &[&shared, "another"]);
    assert_eq!(recorded.said(), "moved: 0\nmoved from outside: 0 0 0 0 0 0 0 0\n");
    assert_eq!(reads_of(&recorded, "read_all"), (8000, 8000));

    // The same of memory that it has for itself.
    let others = lab.build("machine/others.c", &["-O1", "-g", "-lnuma"]);
    let recorded = record(&lab, &["--machine", "4x2"], &[&others, "another"]);
    assert_eq!(
        recorded.said(),
        "another process: 3 3 3 3 3 3 3 3\n\
         its memory: prefer:3 N3=8\n\
         its first half: bind:1 N1=4\n\
         its second half: interleave:3 N3=4\n\
         what it shares: bind:2\n\
         moved: 0, on 2\n\
         moved: 2 2 2 2 2 2 2 2\n\
         its memory, moved: prefer:3 N2=8\n\
         migrated: 0\n\
         migrated: 3 3 3 3 3 3 3 3\n\
         what was elsewhere: 1 1 1 1 3 3 3 3\n\
         as it sees itself: 3 3 3 3 3 3 3 3\n\
         nobody: -1, No such process\n\
         not recorded: -1, Operation not permitted\n"
    );
    assert_eq!(reads_of(&recorded, "read_all"), (16_000, 8000));
}

/// Whoever asks, or moves pages on, at the moment when their process takes notice of an earlier move.
#[test]
fn moves_are_known_at_once_and_none_is_lost() {
    let lab = Lab::exact();
    let program = lab.build("machine/others.c", &["-O1", "-g", "-lnuma"]);
    let recorded = record(&lab, &["--machine", "4x2"], &[&program, "often"]);
    assert_eq!(recorded.said(), "often: elsewhere in 0 turns\n");
    assert_eq!(reads_of(&recorded, "read_all"), (0, 8000));
}

/// The kernel moves what it can before it finds that nobody wants to know, and puts pages back where the thread's
/// policy has their addresses.
#[test]
fn pages_are_moved_as_the_kernel_moves_them() {
    let lab = Lab::exact();
    let program = lab.build("machine/others.c", &["-O1", "-g", "-lnuma"]);
    let recorded = record(&lab, &["--machine", "4x2"], &[&program]);
    assert_eq!(
        recorded.said(),
        "no status: -1, Bad address\n\
         no status: 1 1 1 0 0 0 0 0\n\
         no status, asked: -1, Bad address\n\
         back to the thread's: in turn, as before\n\
         back to no policy: 0 0 0 0 0 0 0 0\n"
    );
}

/// Segments and files to which numactl gives policies have them for the programs that come later.
#[test]
fn numactl_gives_policies_to_memory() {
    let lab = Lab::exact();
    let program = lab.build("machine/shared.c", &["-O1", "-g", "-lnuma"]);
    let key = lab.at("key");
    std::fs::write(&key, "").unwrap();
    let memory = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
    memory.as_file().set_len(8 * 4096).unwrap();
    let (key, memory) = (&key, memory.path().to_str().unwrap());
    let text = format!(
        "numactl --length=32k --shm {key} --membind=2 && {program} look {key} && ipcrm -M $({program} key {key})\n\
         numactl --length=16k --file {memory} --membind=1 && numactl --offset=16k --length=16k --file {memory} --interleave=3 && {program} look {memory}"
    );
    let said = script(&["--machine", "4x2"], &text);
    let wanted = "numactl: policy 2 of nodes 4\nnumactl: 2 2 2 2 2 2 2 2\n\
                  numactl: policy 2 of nodes 2\nnumactl: 1 1 1 1 3 3 3 3\n";
    assert_eq!(said, wanted);
}

/// The process that wrote a page has placed it, and whoever reads it from another node waits.
#[test]
fn shared_memory_is_where_the_first_process_placed_it() {
    let lab = Lab::exact();
    let program = lab.build("machine/common.c", &["-O1", "-g"]);
    let file = lab.at("common.memory");
    for (machine, how) in
        ["2x2", "real"].into_iter().flat_map(|machine| ["fork", "file", "sysv"].map(|how| (machine, how)))
    {
        let recorded = record(&lab, &["--machine", machine], &[&program, how, &file]);
        assert_eq!(recorded.said(), "read\n", "{how}");
        let report = recorded.report();
        let functions = report["functions"].as_array().unwrap();
        let named = |name: &str| functions.iter().find(|row| row["function"] == name).unwrap().clone();
        let (reads, writes) = (named("read_all"), named("write_all"));
        assert_eq!((&reads["accesses"], &writes["accesses"]), (&(256 * 100).into(), &256.into()), "{machine} {how}");
        assert_eq!((&reads["first_touch"], &writes["first_touch"]), (&0.into(), &256.into()), "{machine} {how}");
        if machine != "real" {
            assert_eq!(reads["classes"]["remote"], 256 * 100, "{how}: {reads}");
            assert_eq!(writes["classes"]["local"], 256, "{how}: {writes}");
        }
    }
}
