//! What a program must not notice.

use super::*;

/// Runs a command natively and under the library: output, errors and status are the same.
fn same_as_native(program: &str, arguments: &[&str]) -> Vec<Seen> {
    // Removing what is not there makes Command sort the environment as adding to it does.
    let native = Command::new(program).args(arguments).env_remove("NUMALENS_CHANNEL").stdin(Stdio::null()).output();
    let native = match native {
        Ok(native) => native,
        Err(error) => {
            println!("skipped: {program} cannot be run: {error}");
            return Vec::new();
        }
    };
    let mut channel = HeapChannel::create(&everything()).expect("channel");
    let mut command = observed(&channel, program);
    command.args(arguments);
    let (output, events) = run(&mut channel, command);
    assert_eq!(output.status, native.status, "{program} {arguments:?}: {output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&native.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&native.stdout));
    assert!(of(&events, "start").len() == 1 || events.len() > 1, "{program} was not observed");
    events
}

#[test]
fn the_environment_is_the_users() {
    for (program, arguments) in [
        ("env", &[][..]),
        ("env", &["-i", "A=1", "env"]),
        ("sh", &["-c", "env; printenv LD_PRELOAD; echo $NUMALENS_CHANNEL; A=b env | grep -v '^_='"]),
        ("bash", &["-c", "env -i bash -c 'env; env | cat'; exit 3"]),
    ] {
        same_as_native(program, arguments);
    }
}

#[test]
fn the_loader_lists_the_users_libraries_only() {
    // Addresses change from run to run.
    same_as_native("sh", &["-c", "LD_TRACE_LOADED_OBJECTS=1 /bin/sh | sed 's/ (0x.*//'"]);
}

/// The library is in the collector's /proc/PID/fd, which another user may not open.
#[test]
fn what_runs_as_another_user_hears_nothing_of_the_library() {
    if !Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n") {
        eprintln!("only root can become another user");
        return;
    }
    let become_nobody = "setpriv --reuid=nobody --regid=nogroup --clear-groups";
    same_as_native(
        "sh",
        &["-c", &format!("{become_nobody} sh -c 'id -u; env | grep -v ^_=; id -u | cat' 2>&1; echo $?")],
    );
}

#[test]
fn a_preload_of_the_users_stays() {
    let directory = tempfile::tempdir().expect("directory");
    let source = "int numalens_test_preloaded(void) { return 1; }";
    let Some(theirs) = compile(directory.path(), "theirs.so", source, "cc", &["-shared", "-fPIC"]) else { return };
    let script = "echo $LD_PRELOAD; env | grep LD_PRELOAD; grep -c theirs.so /proc/self/maps | head -c 1";
    let native = Command::new("sh").args(["-c", script]).env("LD_PRELOAD", &theirs).output().expect("sh");
    let mut channel = HeapChannel::create(&everything()).expect("channel");
    let mut command = Command::new("sh");
    command.args(["-c", script]).envs(channel.environment(Some(theirs.as_os_str())));
    let (output, events) = run(&mut channel, command);
    assert_eq!(String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&native.stdout));
    assert_eq!(output.stderr, native.stderr);
    assert!(of(&events, "start").len() >= 3, "sh and its children are observed");
}

#[test]
fn interpreters_and_compilers_work_as_ever() {
    let script = "import os, sys, subprocess, json, threading\n\
        print(sorted(k for k in os.environ if k in ('LD_PRELOAD', 'NUMALENS_CHANNEL')))\n\
        t = [threading.Thread(target=lambda: json.dumps(list(range(10000)))) for _ in range(4)]\n\
        [x.start() for x in t]; [x.join() for x in t]\n\
        print(subprocess.run(['sh', '-c', 'echo $LD_PRELOAD; exit 7'], capture_output=True))\n\
        print(os.system('true'), os.popen('echo hi').read())\n\
        sys.exit(5)";
    same_as_native("python3", &["-c", script]);
    same_as_native("bash", &["-c", "for i in 1 2 3; do echo $i | cat; done | sort -r; (exit 4)"]);
    let directory = tempfile::tempdir().expect("directory");
    let file = directory.path().join("hello.c");
    fs::write(&file, "#include <stdio.h>\nint main(void) { puts(\"hello\"); return 0; }\n").expect("file");
    let name = file.to_string_lossy();
    let events = same_as_native("gcc", &["-O1", "-S", "-o", "-", &name]);
    assert!(events.is_empty() || of(&events, "start").len() >= 2, "gcc and cc1 are observed");
    same_as_native("gcc", &["/does/not/exist.c"]);
}

#[test]
fn a_child_that_outlives_the_collector_starts_quietly() {
    let directory = tempfile::tempdir().expect("directory");
    let [go, log] = ["go", "log"].map(|name| directory.path().join(name));
    let made = Command::new("mkfifo").arg(&go).status().expect("mkfifo");
    assert!(made.success());
    let script = format!("read line < '{}'; env true; ls -d / ; exit 3", go.display());
    let mut channel =
        HeapChannel::create(&HeapOptions { handshake: Some(Duration::from_secs(1000)), ..HeapOptions::default() })
            .expect("channel");
    let mut command = observed(&channel, "bash");
    let errors = fs::File::create(&log).expect("log");
    let child = command.args(["-c", &script]).stdout(Stdio::null()).stderr(errors).spawn().expect("bash");
    let mut is_up = false;
    while !is_up {
        channel.wait(Duration::from_millis(2));
        channel.drain(&mut |event| is_up |= matches!(event, HeapEvent::ProcessStart { .. }));
    }
    // The shell waits for the line until the channel is gone.
    drop(channel);
    fs::write(&go, "\n").expect("fifo");
    let output = child.wait_with_output().expect("bash");
    assert_eq!(output.status.code(), Some(3), "it does not wait for an answer either");
    assert_eq!(fs::read_to_string(&log).expect("log"), "");
}

#[test]
fn without_a_listener_the_library_is_silent() {
    let mut channel = HeapChannel::create(&everything()).expect("channel");
    let mut command = observed(&channel, "env");
    command.env("NUMALENS_CHANNEL", "/does/not/exist:/does/not/exist");
    let (output, events) = run(&mut channel, command);
    assert!(output.status.success() && events.is_empty());
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    channel.header().version.store(u32::MAX, Ordering::SeqCst);
    let command = observed(&channel, "env");
    let (output, events) = run(&mut channel, command);
    assert!(output.status.success() && events.is_empty(), "another version");
}
