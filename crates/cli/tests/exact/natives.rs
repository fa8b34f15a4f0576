//! Programs do what they do alone.

use super::*;

/// Output and status are those of the program alone.
#[track_caller]
fn same_as_native(source: &str, flags: &[&str], arguments: &[&str]) {
    let lab = Lab::exact();
    let program = lab.build(&format!("exact/{source}"), flags);
    let native = output(native(&program).args(arguments).current_dir(lab.path()));
    let recorded = record(&lab, &[], &[&[program.as_str()], arguments].concat());
    let said = &recorded.outcome.stderr;
    assert_eq!(recorded.said(), native.stdout, "{source} {arguments:?}: {said}");
    assert_eq!(recorded.outcome.status, native.status, "{source} {arguments:?}: {said}");
}

#[test]
fn handlers_of_signals_and_faults_change_no_count() {
    let lab = Lab::exact();
    let faults = lab.build("exact/faults.c", &["-O2"]);
    let native = output(&mut native(&faults));
    let recorded = record(&lab, &[], &[&faults]);
    assert_eq!(recorded.outcome.stdout, native.stdout);
    assert_eq!(recorded.outcome.status, native.status);
}

#[test]
fn status_output_and_children_are_the_programs() {
    let lab = Lab::exact();
    let script = "echo one; /bin/echo two | cat; (exit 4); echo $?; exit 7";
    let recorded = record(&lab, &[], &["/bin/sh", "-c", script]);
    assert_eq!(recorded.outcome.code(), Some(7));
    assert_eq!(recorded.said(), "one\ntwo\n4\n");
    assert!(recorded.outcome.stderr.is_empty(), "{}", &recorded.outcome.stderr);
}

#[test]
fn signals_and_traps_of_all_kinds_come_as_they_should() {
    same_as_native("traps.c", &["-O1"], &[]);
    same_as_native("traps.c", &["-O1", "-static"], &[]);
    same_as_native("traps.c", &["musl-gcc", "-O1"], &[]);
}

#[test]
fn jumps_into_nowhere_are_the_programs_faults() {
    same_as_native("nowhere.c", &["-O1"], &[]);
    same_as_native("nowhere.c", &["-O1", "-static"], &[]);
}

#[test]
fn filters_of_system_calls_judge_the_program_alone() {
    for arguments in [&[][..], &["forbidden"], &["strict"]] {
        same_as_native("seccomp.c", &["-O1"], arguments);
    }
}

/// The loader of a dynamic program reads the counter, and ends natively too where that is forbidden from the beginning.
#[test]
fn programs_may_forbid_themselves_the_counter_that_times_are_read_from() {
    same_as_native("counter.c", &["-O1", "-pthread"], &[]);
    same_as_native("counter.c", &["-O1", "-pthread", "-static"], &[]);
    same_as_native("counter.c", &["musl-gcc", "-O1", "-pthread"], &[]);
}

#[test]
fn limits_of_address_space_are_the_programs() {
    same_as_native("limits.c", &["-O1"], &[]);
    let lab = Lab::exact();
    let recorded = record(&lab, &[], &["/bin/sh", "-c", "ulimit -v 500000; ulimit -v; sh -c 'ulimit -v; echo on'"]);
    assert_eq!(recorded.said(), "500000\n500000\non\n");
}

#[test]
fn all_memory_can_be_locked() {
    same_as_native("locked.c", &["-O1"], &[]);
}

#[test]
fn calls_at_fixed_addresses_of_the_kernel_work() {
    same_as_native("vsyscall.c", &["-O1", "-w"], &[]);
}

#[test]
fn returns_of_all_kinds_go_where_they_should() {
    same_as_native("returns.c", &["-O1", "-mno-red-zone"], &[]);
    same_as_native("returns.c", &["-O1", "-mno-red-zone", "-no-pie"], &[]);
    same_as_native("returns.c", &["-O1", "-mno-red-zone"], &["unhandled"]);
    same_as_native("far.c", &["-O1", "-mno-red-zone"], &[]);
}

#[test]
fn calls_of_32_bit_programs_do_what_they_do_natively() {
    same_as_native("old_calls.c", &["-O1", "-w"], &[]);
    same_as_native("old_calls.c", &["-O1", "-w", "-static"], &[]);
}

#[test]
fn clone3_makes_all_kinds_of_tasks() {
    same_as_native("clone3.c", &["-O1", "-pthread"], &[]);
    same_as_native("clone3.c", &["-O1", "-pthread", "-static"], &[]);
}

#[test]
fn flags_that_functions_hand_over_arrive() {
    same_as_native("handed_flags.c", &["-O1", "-pthread"], &[]);
    same_as_native("handed_flags.c", &["-O1", "-pthread", "-static"], &[]);
}

#[test]
fn many_threads_and_many_execs_are_followed() {
    same_as_native("many_threads.c", &["-O1", "-pthread"], &[]);
    same_as_native("many_threads.c", &["-O1", "-pthread", "-static"], &[]);
    same_as_native("many_threads.c", &["musl-gcc", "-O1", "-pthread"], &[]);
    same_as_native("execs.c", &["-O1"], &["30"]);
}

#[test]
fn the_environment_is_the_programs_and_starting_others_takes_no_memory() {
    same_as_native("environment.c", &["-O1", "-DLOADED"], &[]);
    same_as_native("environment.c", &["-O1", "-static"], &[]);
    same_as_native("environment.c", &["-O1", "-static-pie"], &[]);
    same_as_native("environment.c", &["musl-gcc", "-O1", "-DLOADED"], &[]);
    same_as_native("environment.c", &["musl-gcc", "-O1", "-static"], &[]);
}

#[test]
fn code_may_change_while_many_threads_execute_it() {
    same_as_native("jit.c", &["-O1", "-pthread"], &[]);
}

#[test]
fn what_is_kept_of_pages_that_are_gone_is_given_back() {
    same_as_native("churn.c", &["-O1"], &[]);
}

#[test]
fn forked_children_have_threads_of_their_own() {
    same_as_native("fork_threads.c", &["-O1", "-pthread"], &[]);
    same_as_native("fork_threads.c", &["-O1", "-pthread", "-static"], &[]);
    same_as_native("fork_threads.c", &["musl-gcc", "-O1", "-pthread"], &[]);
}

#[test]
fn alignment_checks_are_for_the_programs_own_accesses() {
    same_as_native("alignment.c", &["-O1"], &[]);
}
