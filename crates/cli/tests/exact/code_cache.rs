//! Translations that are kept change no count, no output, and are used.

use super::schemes::{SiteCounts, tables};
use super::*;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// A recording with a cache in the lab's folder: what it printed, its tables, how many fragments were translated and
/// how many persisted.
struct Kept {
    output: Vec<u8>,
    tables: (SiteCounts, Vec<(u32, u64, u64)>, u64),
    translated: u64,
    persisted: u64,
}

#[track_caller]
fn record_with_cache(lab: &Lab, options: &[&str], command: &[&str]) -> Kept {
    let mut recorder = recorder_in_place(lab, options);
    let output = recorder.args(command).env("XDG_CACHE_HOME", lab.at("cache")).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    let profile = Profile::open(&lab.profile()).unwrap();
    let count = |how: &str| profile.meta.extra["fragments"][how].as_u64().unwrap();
    Kept { output: output.stdout, tables: tables(lab), translated: count("translated"), persisted: count("persisted") }
}

/// The files of the cache, the largest first: those of files of code.
fn cache_files(lab: &Lab) -> Vec<PathBuf> {
    let list = |folder: PathBuf| std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = list(lab.path().join("cache/numalens/code")).flat_map(list);
    let mut files: Vec<_> = files.filter(|path| !path.ends_with("recent")).collect();
    files.sort_by_key(|path| std::cmp::Reverse(path.metadata().unwrap().len()));
    files
}

/// Records until nothing new is kept: what one recording has no time for is left to the next.
fn fill_cache(lab: &Lab, command: &[&str]) -> Kept {
    let mut last = record_with_cache(lab, &[], command);
    for _ in 0..20 {
        let next = record_with_cache(lab, &[], command);
        let is_full = next.persisted == last.persisted;
        last = next;
        if is_full && last.persisted > last.translated {
            break;
        }
    }
    last
}

#[test]
fn what_is_kept_counts_what_is_translated() {
    let lab = Lab::exact();
    let text = lab.at("text");
    let lines: String = (0..20_000u32).map(|i| format!("{:08x} {}\n", i.wrapping_mul(2_654_435_761), i % 77)).collect();
    std::fs::write(&text, lines).unwrap();
    for command in
        [&["gzip", "-6", "-c", &text][..], &["sort", "--parallel=1", &text], &["sed", "-e", "s/1/one/", &text]]
    {
        let both = || (record_with_cache(&lab, &["--no-code-cache"], command), fill_cache(&lab, command));
        let (without, kept) = with_ids_alike(both);
        assert_eq!(without.persisted, 0);
        assert!(kept.persisted > 10 * kept.translated.max(1) / 2, "{} of {}", kept.persisted, kept.translated);
        assert!(kept.output == without.output, "the output of {command:?}");
        assert_eq!(kept.tables.2, without.tables.2, "executed instructions of {command:?}");
        assert_eq!(kept.tables.0, without.tables.0, "the sites of {command:?}");
        assert_eq!(kept.tables.1, without.tables.1, "the pages of {command:?}");
    }
    let list = json(&mut numalens_with(&lab, &["cache", "list"]));
    let files = list["files"].as_array().unwrap();
    assert!(files.iter().any(|file| file["path"].as_str().unwrap().ends_with("libc.so.6")), "{list}");
    assert_eq!(std::fs::metadata(&cache_files(&lab)[0]).unwrap().permissions().mode() & 0o077, 0);
    run(&mut numalens_with(&lab, &["cache", "clear"]));
    assert!(cache_files(&lab).is_empty());
}

fn numalens_with(lab: &Lab, arguments: &[&str]) -> Command {
    let mut command = numalens(arguments);
    command.env("XDG_CACHE_HOME", lab.at("cache"));
    command
}

/// Without a cache on disk: what is persisted is what the first processes have shown.
#[test]
fn later_processes_of_a_recording_use_what_the_first_translated() {
    let lab = Lab::exact();
    let script = "i=0; while [ $i -lt 60 ]; do /bin/true; i=$((i + 1)); done";
    let kept = record_with_cache(&lab, &[], &["/bin/sh", "-c", script]);
    assert!(kept.persisted > kept.translated, "{} of {}", kept.persisted, kept.translated);
}

/// The same inode, other code: a caller whose callee needs another register than before.
#[test]
fn a_file_that_has_changed_is_another_file() {
    let lab = Lab::exact();
    let program = lab.at("changes");
    for (number, body) in ["return x + 1;", "return x * y + 1;", "return y - x;"].into_iter().enumerate() {
        let source = format!(
            "#include <stdio.h>\n__attribute__((noinline)) long f(long x, long y) {{ {body} }}\nint main(int c, char **v) \
             {{ long s = 0; for (long i = 0; i < 100000; i++) s += f(i, s + c); printf(\"%ld\\n\", s); return 0; }}\n"
        );
        let made = lab.at("made");
        std::fs::write(lab.at("changes.c"), source).unwrap();
        run(Command::new("gcc").args(["-O2", &lab.at("changes.c"), "-o", &made]));
        // In place.
        std::fs::write(&program, std::fs::read(&made).unwrap()).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let native = output(&mut native(&program)).stdout;
        let kept = fill_cache(&lab, &[&program]);
        assert_eq!(String::from_utf8_lossy(&kept.output), native, "{number}: {body}");
    }
}

#[test]
fn a_damaged_cache_harms_nobody() {
    let lab = Lab::exact();
    let command = ["/bin/echo", "all is well"];
    fill_cache(&lab, &command);
    let files: Vec<_> = cache_files(&lab).into_iter().map(|path| (std::fs::read(&path).unwrap(), path)).collect();
    assert!(files.len() > 2);
    // Everything behind the header is damaged here and there, then the header, then there is half, then nothing.
    let everywhere = |whole: &[u8]| {
        let mut bytes = whole.to_vec();
        (100..bytes.len()).step_by(97).for_each(|at| bytes[at] ^= 0x40);
        bytes
    };
    let in_front = |whole: &[u8]| [&[whole[0] ^ 1], &whole[1..]].concat();
    let half = |whole: &[u8]| whole[..whole.len() / 2].to_vec();
    type Damage<'d> = &'d dyn Fn(&[u8]) -> Vec<u8>;
    let damages: [Damage<'_>; 4] = [&everywhere, &in_front, &half, &|_| Vec::new()];
    for damage in damages {
        let (sound, damaged) = with_ids_alike(|| {
            let write = |damage: &dyn Fn(&[u8]) -> Vec<u8>| {
                files.iter().for_each(|(whole, path)| std::fs::write(path, damage(whole)).unwrap());
                record_with_cache(&lab, &[], &command)
            };
            (write(&|whole| whole.to_vec()), write(damage))
        });
        assert_eq!(damaged.output, b"all is well\n");
        assert_eq!(damaged.tables.0, sound.tables.0);
    }
    // Nor one that others could have written, or that cannot be written.
    std::fs::set_permissions(lab.at("cache/numalens/code"), std::fs::Permissions::from_mode(0o777)).unwrap();
    let alone = record_with_cache(&lab, &[], &command);
    assert!(alone.persisted < alone.translated, "{} of {}", alone.persisted, alone.translated);
    std::fs::remove_dir_all(lab.at("cache")).unwrap();
    std::fs::write(lab.at("cache"), "").unwrap();
    assert_eq!(record_with_cache(&lab, &[], &command).output, b"all is well\n");
}
