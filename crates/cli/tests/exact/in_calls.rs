//! Pages that the kernel places in calls: they belong to the thread that makes the call.

use super::*;
use numalens_profile::tables::{PlacedPages, Thread};

#[test]
fn what_the_kernel_places_is_the_callers() {
    let lab = Lab::exact();
    let program = lab.build("exact/in_calls.c", &["-O1", "-g", "-pthread"]);
    let recorded = record(&lab, &[], &[&program]);
    assert!(recorded.outcome.status.success(), "{:?}", recorded.outcome);
    let profile = recorded.profile();
    let threads: Vec<Thread> = profile.rows().unwrap();
    let pages: Vec<PlacedPages> = profile.rows().unwrap();
    let said = recorded.said();
    assert_eq!(said.lines().count(), 16, "{said}");
    for (number, line) in said.lines().enumerate() {
        let words: Vec<&str> = line.split(' ').collect();
        let [call, tid, first, count] = words[..] else { panic!("{line}") };
        let (tid, first, count): (u32, u64, u64) =
            (tid.parse().unwrap(), u64::from_str_radix(first, 16).unwrap(), count.parse().unwrap());
        let caller = threads.iter().find(|thread| thread.tid == tid).unwrap();
        let (mut callers, mut rows) = (0, Vec::new());
        for row in &pages {
            let (from, to) = (row.page.0.max(first), (row.page.0 + row.count).min(first + count));
            if from >= to {
                continue;
            }
            let is_so = row.call.map(|call| call.word()) == Some(call)
                && row.thread == Some(caller.thread)
                && row.home == row.node
                && row.home.is_some()
                && row.process == caller.process
                && row.site.is_some()
                && row.stack.is_some();
            callers += if is_so { to - from } else { 0 };
            rows.push(row);
        }
        assert_eq!(callers, count, "{number}: {line}: {rows:#?}");
    }
}

#[test]
fn input_that_one_thread_reads_for_all_is_advised_on() {
    let lab = Lab::exact();
    let input = lab.at("data");
    std::fs::write(&input, vec![0u8; 4 << 20]).unwrap();
    let program = lab.build("exact/input.c", &["-O1", "-g", "-pthread"]);
    let recorded = record(&lab, &[], &[&program, &input]);
    assert_eq!(recorded.outcome.stdout, "0\n");
    let source = &text_of("exact/input.c");
    let report = recorded.report();
    let lines = report["lines"].as_array().unwrap();
    let work = lines.iter().find(|row| row["line"] == line_of(source, "/* WORK */")).unwrap();
    let share =
        |class: &str| work["classes"][class].as_u64().unwrap() as f64 / work["accesses"].as_u64().unwrap() as f64;
    assert!((share("remote") - 0.75).abs() < 0.01 && (share("local") - 0.25).abs() < 0.01, "{work:#}");
    let advice = recorded.advice();
    let first = &advice["findings"][0];
    assert_eq!(first["pattern"], "serial-initialisation", "{first:#}");
    assert_eq!(first["evidence"]["first_toucher"]["call"], "in a call of the kernel (read)", "{first:#}");
    assert_eq!(first["where"]["line"], line_of(source, "/* INPUT */"), "{first:#}");
}
