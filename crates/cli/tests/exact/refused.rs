//! What cannot be run or observed is told.

use super::*;

#[test]
fn a_program_that_cannot_be_observed_is_refused_before_it_runs() {
    let lab = Lab::exact();
    let foreign = lab.at("foreign");
    let mut header = [0u8; 64];
    header[..7].copy_from_slice(b"\x7fELF\x01\x01\x01");
    header[18] = 3;
    std::fs::write(&foreign, header).unwrap();
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(&foreign, std::fs::Permissions::from_mode(0o755)).unwrap();
    let recorded = record(&lab, &[], &[&foreign]);
    assert_eq!(recorded.outcome.code(), Some(125));
    let said = &recorded.outcome.stderr;
    assert!(said.contains("64-bit x86") && said.contains("--engine sample"), "{said}");
    assert!(!recorded.path.exists());
}

#[test]
fn commands_that_do_not_exist_fail_as_they_should() {
    let lab = Lab::exact();
    assert_eq!(record(&lab, &[], &["/nonexistent/program"]).outcome.code(), Some(127));
    assert_eq!(record(&lab, &[], &["/etc/passwd"]).outcome.code(), Some(126));
    assert_eq!(record(&lab, &["--duration", "1"], &["/bin/true"]).outcome.code(), Some(2));
}

#[test]
fn what_cannot_be_observed_says_why() {
    let lab = Lab::exact();
    let program = lab.build("exact/far.c", &["-O1", "-mno-red-zone"]);
    let recorded = record(&lab, &[], &[&program, "32"]);
    let said = &recorded.outcome.stderr;
    assert_eq!(recorded.outcome.code(), Some(125), "{said}");
    assert!(said.contains("cannot be observed: it goes on in 32-bit code"), "{said}");
}
