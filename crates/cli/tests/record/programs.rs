//! Programs do the same under numalens as alone, and their profiles are sound.

use super::*;
use numalens_profile::tables::{Process, Thread};
use std::process::Command;

/// Runs `program` alone and recorded: same output, same errors, same status.
#[track_caller]
fn same(program: &[&str], adapt: impl Fn(&mut Command)) -> numalens_profile::Profile {
    let lab = Lab::new();
    let mut alone = native(program[0]);
    adapt(alone.args(&program[1..]).current_dir(lab.path()));
    let mut recorded = lab.recorder(&[]);
    adapt(recorded.args(program));
    let (alone, recorded) = (run(&mut alone), run(&mut recorded));
    assert_eq!(alone, recorded, "{program:?}");
    lab.sound()
}

#[track_caller]
fn same_if_installed(program: &[&str]) {
    if installed(program[0]) {
        same(program, |_| {});
    } else {
        eprintln!("skipped: {} is not installed", program[0]);
    }
}

const PYTHON: &str = "
import threading, multiprocessing, sys
def work(n): return sum(bytearray(range(256)) * n)
if __name__ == '__main__':
    found = []
    threads = [threading.Thread(target=lambda: found.append(work(400))) for _ in range(4)]
    [t.start() for t in threads]; [t.join() for t in threads]
    with multiprocessing.get_context('fork').Pool(2) as pool: found += pool.map(work, range(9))
    print(found); print('to the other', file=sys.stderr); sys.exit(4)
";

#[test]
fn scripts_and_pipelines() {
    need_recording!();
    same_if_installed(&["python3", "-c", PYTHON]);
    same_if_installed(&["perl", "-e", "if (fork) { wait; print \"$?\\n\"; die \"over\\n\" } exit 5"]);
    same_if_installed(&["bash", "-c", "set -o pipefail; seq 2000 | grep 7 | sort -r | (head -3; exit 5)"]);
    if installed("xz") {
        same(&["sh", "-c", "head -c 300000 /dev/zero | xz -1 -T2 | xz -d | cksum"], |_| {});
    }
}

#[test]
fn the_environment_is_the_users() {
    need_recording!();
    same(&["env"], |_| {});
    same(&["env"], |command| {
        command.env("LD_PRELOAD", "libpthread.so.0").env("ODD", "a=b\n c");
    });
    same(&["env"], |command| {
        command.env("GARBLED", <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"\xff\xfe"));
    });
}

#[test]
fn closed_descriptors_are_nobodys() {
    need_recording!();
    let lab = Lab::new();
    let recorder = lab.recorder(&[]);
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec \"$0\" \"$@\" <&- >&-"]).arg(recorder.get_program()).args(recorder.get_args());
    let outcome = run(shell.args(["sh", "-c", "cat; exit 3"]));
    assert_eq!((outcome.code(), outcome.stdout.as_str(), outcome.stderr.as_str()), (Some(3), "", ""));
    lab.sound();
}

#[test]
fn compilers_and_what_they_make() {
    need_recording!();
    let lab = Lab::new();
    let place = |name: &str| lab.at(name);
    std::fs::write(place("wrong.c"), "int main(void) { return missing; }").unwrap();
    same(&["cc", &place("wrong.c")], |_| {});
    let source = "#include <stdio.h>\nint main(void) { static int many[100000]; long sum = 0;\n#pragma omp parallel for reduction(+:sum) num_threads(4)\nfor (int i = 0; i < 100000; i++) sum += many[i] = i;\nprintf(\"%ld\\n\", sum); return 2; }";
    std::fs::write(place("omp.c"), source).unwrap();
    if Command::new("cc").args(["-fopenmp", "-o", &place("omp"), &place("omp.c")]).status().unwrap().success() {
        same(&[&place("omp")], |_| {});
    }
    let languages = [
        (
            "go",
            "go.go",
            "package main\nimport (\"fmt\"; \"sync\"; \"os\")\nfunc main() { var w sync.WaitGroup; m := make([]int, 9); for i := range m { w.Add(1); go func(i int) { defer w.Done(); m[i] = len(make([]byte, i<<16)) }(i) }; w.Wait(); fmt.Println(m); os.Exit(3) }\n",
            &["build", "-o"][..],
        ),
        (
            "ghc",
            "hs.hs",
            "import qualified Data.Map as M\nmain :: IO ()\nmain = print (M.foldr (+) 0 (M.fromList (zip [1 .. 20000 :: Int] [2 ..])))\n",
            &["-v0", "-threaded", "-o"][..],
        ),
    ];
    for (compiler, file, source, arguments) in languages {
        std::fs::write(place(file), source).unwrap();
        let binary = place(&format!("{file}.out"));
        let mut command = Command::new(compiler);
        command.args(arguments).args([&binary, &place(file)]).env("GOCACHE", place("cache")).current_dir(lab.path());
        match command.status() {
            Ok(status) if status.success() => drop(same(&[&binary], |_| {})),
            other => eprintln!("skipped: {compiler}: {other:?}"),
        }
    }
    std::fs::write(place("Hello.java"), "class Hello { public static void main(String[] a) throws Exception { Thread t = new Thread(() -> System.out.println(new int[1 << 20].length)); t.start(); t.join(); System.exit(9); } }").unwrap();
    same_if_installed(&["java", &place("Hello.java")]);
}

#[test]
fn awkward_programs() {
    need_recording!();
    let kinds = ["closes", "unmaps", "fork", "vfork", "spawn", "clone", "handlers", "seccomp"];
    for kind in kinds {
        same(&[awkward(), kind], |_| {});
    }
    if is_root() {
        // Another user must be able to go there.
        same(&[awkward(), "nobody"], |_| {});
    }
}

#[test]
fn a_static_program_is_recorded_without_its_heap() {
    need_recording!();
    let program = awkward_static();
    let profile = same(&[program, "fork"], |_| {});
    let processes = profile.rows::<Process>().unwrap();
    assert_eq!(processes.len(), 5, "{processes:?}");
    assert!(processes.iter().all(|process| !process.heap_observed));
}

#[test]
fn many_threads_and_many_processes() {
    need_recording!();
    let profile = same(&[awkward(), "threads"], |_| {});
    assert_eq!(profile.rows::<Thread>().unwrap().len(), 301);
    let lab = Lab::new();
    let (_, profile) = lab.record(&[], &["sh", "-c", "i=0; while [ $i -lt 200 ]; do /bin/true; i=$((i+1)); done"]);
    let processes = profile.rows::<Process>().unwrap();
    assert_eq!(processes.len(), 201);
    assert!(processes.iter().all(|process| process.end != "running"));
}

#[test]
fn an_exec_chain_is_one_process() {
    need_recording!();
    let lab = Lab::new();
    let (outcome, profile) = lab.record(&[], &["sh", "-c", "exec env exec=1 sh -c 'exec echo done'"]);
    assert_eq!(outcome.stdout, "done\n");
    let processes = profile.rows::<Process>().unwrap();
    assert_eq!(processes.len(), 1);
    assert_eq!(processes[0].command, "echo done");
}

#[test]
fn children_can_be_left_out() {
    need_recording!();
    let lab = Lab::new();
    let (_, profile) = lab.record(&["--no-follow"], &[awkward(), "fork"]);
    assert_eq!((profile.rows::<Process>().unwrap().len(), profile.rows::<Thread>().unwrap().len()), (1, 1));
}
