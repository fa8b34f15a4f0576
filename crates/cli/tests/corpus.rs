//! Programs of this host under the exact engine: the same output, the same status. What is not installed is left out
//! and said. `cargo test` runs those that are quick; `make corpus` (NUMALENS_CORPUS=all) runs all;
//! `NUMALENS_CORPUS=redis,nginx` those.

mod support;

use std::process::{Command, Output, Stdio};
use support::{Lab, native};

/// A program of the corpus.
struct Entry {
    name: &'static str,
    /// The commands that it needs.
    needs: &'static [&'static str],
    /// For `sh -c`, in an empty directory. It must print the same each time. Long ones are files in `corpus/`.
    script: &'static str,
    quick: bool,
}

const fn quick(name: &'static str, needs: &'static [&'static str], script: &'static str) -> Entry {
    Entry { name, needs, script, quick: true }
}

const fn long(name: &'static str, needs: &'static [&'static str], script: &'static str) -> Entry {
    Entry { name, needs, script, quick: false }
}

const CORPUS: &[Entry] = &[
    quick("ls", &[], "ls -l /usr/lib | wc -l; ls /nonexistent; echo $?"),
    quick("sort", &[], "seq 1 5000 | sort -r | sort -n | md5sum"),
    quick(
        "awk",
        &["awk"],
        "awk 'BEGIN { for (i = 0; i < 30000; i++) a[i % 77] += i; for (i = 0; i < 77; i++) print a[i] }'",
    ),
    quick("sed", &[], "seq 1 2000 | sed -n 's/^\\(.\\)\\(.*\\)$/\\2\\1/p' | sha256sum"),
    quick("dd", &[], "dd if=/dev/zero bs=64k count=50 2>/dev/null | sha1sum"),
    quick("timeout", &[], "timeout 0.2 sleep 60; echo $?"),
    quick("factor", &[], "factor 1000000007 600851475143; expr 6 '*' 7; printf '%05.2f\\n' 3.14159"),
    quick("env", &[], "env -i A=1 B=2 env"),
    quick(
        "bash-jobs",
        &["bash"],
        "bash -c 'for i in 1 2 3; do (exit $i) & wait $!; echo $?; done; trap \"echo usr\" USR1; kill -USR1 $$; echo end'",
    ),
    quick(
        "bash-pipes",
        &["bash"],
        "bash -c 'coproc cat; echo hi >&${COPROC[1]}; read x <&${COPROC[0]}; echo $x; diff <(echo a) <(echo b)'; echo $?",
    ),
    quick(
        "tar",
        &["tar"],
        "mkdir d; seq 1 1000 > d/a; tar cf - d | tar tf -; tar cf a.tar d && rm -r d && tar xf a.tar && md5sum d/a",
    ),
    quick("gzip", &["gzip"], "seq 1 20000 | gzip -9 | gzip -d | md5sum"),
    quick("bc", &["bc"], "echo 'scale=60; a(1)*4' | bc -l"),
    quick(
        "perl",
        &["perl"],
        "perl -e 'my %h; $h{$_ % 97} .= \"x\" for 1..5000; print join(\",\", map { length $h{$_} } sort keys %h), \"\\n\"; if (!fork) { exit 3 } wait; print $? >> 8, \"\\n\"'",
    ),
    quick("busybox", &["busybox"], "busybox sh -c 'echo a | busybox md5sum; busybox seq 1 5'"),
    quick(
        "sqlite",
        &["sqlite3"],
        "sqlite3 :memory: 'create table t(a); with recursive c(x) as (select 1 union all select x+1 from c where x<2000) insert into t select x from c; select sum(a), count(*) from t;'",
    ),
    quick(
        "git",
        &["git"],
        "git init -q . && echo a > f && git add f && git -c user.name=n -c user.email=e commit -q -m m && git log --format=%s; git status --short",
    ),
    quick(
        "make",
        &["make"],
        "printf 'all: a b\\na b:\\n\\t@echo $@\\n' > Makefile; make -s; make -s nothing 2>/dev/null; echo $?",
    ),
    quick("find", &["find"], "mkdir -p x/y/z; touch x/1 x/y/2; find x | sort | xargs ls -d"),
    quick(
        "openssl",
        &["openssl"],
        "seq 1 5000 | openssl dgst -sha512; seq 1 5000 | openssl enc -aes-256-ctr -pbkdf2 -k x -S 0102030405060708 | md5sum",
    ),
    quick(
        "cat-pipe-signal",
        &[],
        "yes | head -3; sh -c 'kill -9 $$'; echo $?; sh -c 'kill -SEGV $$' 2>/dev/null; echo $?",
    ),
    quick("jq", &["jq"], "jq -n '[range(2000)] | add'"),
    long("xz", &["xz"], "seq 1 60000 | xz -T2 -6 | xz -d | md5sum"),
    long("zstd", &["zstd"], "seq 1 60000 | zstd -T2 -19 | zstd -d | md5sum"),
    long("bzip2", &["bzip2"], "seq 1 60000 | bzip2 | bzip2 -d | md5sum"),
    long(
        "python-threads",
        &["python3"],
        "python3 -c 'import threading; r = []; t = [threading.Thread(target=lambda n=n: r.append(sum(range(n * 1000)))) for n in range(20)]; [x.start() for x in t]; [x.join() for x in t]; print(sorted(r))'",
    ),
    long(
        "python-processes",
        &["python3"],
        "python3 -c 'import multiprocessing as m; p = m.Pool(3); print(p.map(abs, range(-50, 50)))'",
    ),
    long(
        "python-children",
        &["python3"],
        "python3 -c 'import subprocess, sys; print([subprocess.run([sys.executable, \"-c\", \"print(%d)\" % i], capture_output=True).stdout for i in range(3)])'",
    ),
    long(
        "gcc",
        &["gcc"],
        "printf '#include <stdio.h>\\nint main(void) { puts(\"hi\"); return 5; }' > a.c; gcc -O2 -g a.c -o a && ./a; echo $?",
    ),
    long(
        "g++",
        &["g++"],
        "printf '#include <map>\\n#include <iostream>\\nint main() { std::map<int, int> m; for (int i = 0; i < 100; i++) m[i] = i; try { throw 5; } catch (int x) { std::cout << x + m.size(); } }' > a.cc; g++ -O1 a.cc -o a && ./a",
    ),
    long(
        "openmp",
        &["gcc"],
        "printf '#include <stdio.h>\\nint main(void) { static int a[100000]; long s = 0;\\n#pragma omp parallel for reduction(+:s)\\nfor (int i = 0; i < 100000; i++) { a[i] = i; s += a[i]; } printf(\"%%ld\", s); }' > a.c; gcc -O2 -fopenmp a.c -o a && OMP_NUM_THREADS=4 ./a",
    ),
    long(
        "fortran",
        &["gfortran"],
        "printf 'program p\\nreal(8) :: a(1000)\\ninteger :: i\\ndo i = 1, 1000\\na(i) = sqrt(real(i, 8))\\nend do\\nprint *, sum(a)\\nend program' > a.f90; gfortran -O2 a.f90 -o a && ./a",
    ),
    long(
        "rust",
        &["rustc"],
        "echo 'fn main() { let v: Vec<u64> = (0..1000).collect(); let s: u64 = std::thread::scope(|s| v.chunks(100).map(|c| s.spawn(move || c.iter().sum::<u64>())).collect::<Vec<_>>().into_iter().map(|t| t.join().unwrap()).sum()); println!(\"{s}\"); }' > a.rs; rustc -O a.rs && ./a",
    ),
    long(
        "go",
        &["go"],
        "printf 'package main\\nimport \"fmt\"\\nfunc main() { c := make(chan int); for i := 0; i < 50; i++ { go func(i int) { s := []int{}; for j := 0; j < 2000; j++ { s = append(s, j) }; c <- len(s) + i }(i) }; t := 0; for i := 0; i < 50; i++ { t += <-c }; fmt.Println(t) }' > a.go; GOCACHE=$PWD/c GO111MODULE=off go build -o a a.go && ./a",
    ),
    long(
        "ghc",
        &["ghc"],
        "echo 'import Control.Concurrent; main = do { v <- newEmptyMVar; mapM_ (\\i -> forkIO (putMVar v $! sum [1..i*1000])) [1..8 :: Int]; xs <- mapM (const (takeMVar v)) [1..8 :: Int]; print (sum xs) }' > a.hs; ghc -v0 -O1 -threaded a.hs && ./a +RTS -N2",
    ),
    long(
        "node",
        &["node"],
        "node -e 'const { Worker } = require(\"worker_threads\"); for (let i = 0; i < 3; i++) new Worker(\"let s = 0; for (let i = 0; i < 1e6; i++) s += i; require(\\\"worker_threads\\\").parentPort.postMessage(s)\", { eval: true }).on(\"message\", m => console.log(m))'",
    ),
    long(
        "java",
        &["java", "javac"],
        "echo 'public class H { public static void main(String[] a) throws Exception { var m = new java.util.HashMap<Integer, String>(); for (int i = 0; i < 100000; i++) m.put(i % 5000, \"x\" + i); Thread[] t = new Thread[3]; long[] s = new long[3]; for (int k = 0; k < 3; k++) { int q = k; t[k] = new Thread(() -> { for (int i = 0; i < 300000; i++) s[q] += i * q; }); t[k].start(); } for (Thread x : t) x.join(); System.gc(); try { Object o = null; o.hashCode(); } catch (NullPointerException e) { System.out.println(\"npe\"); } System.out.println(m.size() + \" \" + s[2]); } }' > H.java; javac H.java && java H && java -XX:+UseParallelGC H",
    ),
    long("strace", &["strace"], "strace -o /dev/null echo traced"),
    long("gdb", &["gdb"], "gdb -batch -ex 'print 6*7' 2>/dev/null"),
    long("cmake", &["cmake"], "cmake -E echo hello; cmake -E md5sum /dev/null"),
    long("imagemagick", &["convert"], "convert -size 64x64 gradient:red-blue -resize 32x32 -depth 8 rgb:- | md5sum"),
    long("ffmpeg", &["ffmpeg"], "ffmpeg -v error -f lavfi -i testsrc=d=1:s=64x48:r=5 -f rawvideo - | md5sum"),
    long("redis", &["redis-server", "redis-benchmark"], include_str!("corpus/redis.sh")),
    long("nginx", &["nginx", "ab"], include_str!("corpus/nginx.sh")),
    long("postgres", &["postgres", "pgbench"], include_str!("corpus/postgres.sh")),
    long("numpy", &["python3"], include_str!("corpus/numpy.sh")),
    long("cpython", &["python3"], include_str!("corpus/cpython.sh")),
    long("stress-ng", &["stress-ng"], include_str!("corpus/stress.sh")),
    long("a-thousand", &["python3"], include_str!("corpus/many.sh")),
    long("make-jobs", &["make", "gcc", "objdump"], include_str!("corpus/make.sh")),
    long("git-history", &["git"], include_str!("corpus/git.sh")),
    long("sqlite-file", &["sqlite3"], include_str!("corpus/sqlite.sh")),
    long(
        "gawk",
        &["gawk"],
        "seq 1 30000 | gawk '{ a[$1 % 97] += $1 } END { n = asort(a); for (i = 1; i <= n; i += 16) printf \"%d \", a[i]; print strftime(\"%Y\", 0, 1) }'",
    ),
    long(
        "lua",
        &["lua5.4"],
        "lua5.4 -e 'local t = {} for i = 1, 50000 do t[#t + 1] = tostring(i * 7919 % 50021) end table.sort(t) print(t[1], t[777], #table.concat(t), pcall(error, \"x\")) local c = coroutine.wrap(function() for i = 1, 3 do coroutine.yield(i) end end) print(c(), c(), c())'",
    ),
    long(
        "openssl-keys",
        &["openssl"],
        "openssl genrsa -out k 2048 2>/dev/null && echo hello > m && openssl dgst -sha256 -sign k -out s m && openssl rsa -in k -pubout -out p 2>/dev/null && openssl dgst -sha256 -verify p -signature s m; openssl req -x509 -key k -subj /CN=n -days 1 -out c && openssl verify -CAfile c c; openssl prime 1000003",
    ),
    long(
        "diff-patch",
        &["diff", "patch"],
        "seq 1 3000 > a; sed 's/7/seven/' a > b; diff -u a b > d; echo $?; cp a c; patch -s c d; cmp b c; echo $?; wc -l < d",
    ),
    long(
        "binutils",
        &["gcc", "objdump", "readelf"],
        "echo 'int main(void) { return 42; }' > a.c; gcc -g -O1 -static a.c -o a; ./a; echo $?; readelf -h a | grep Machine; nm a | grep -c ' T '; objdump -d a | grep -c call; strip a; ./a; echo $?; size a | wc -l; strings -n 12 a | sort | md5sum",
    ),
    long(
        "ffmpeg-encode",
        &["ffmpeg"],
        "ffmpeg -v error -threads 2 -f lavfi -i testsrc=d=2:s=160x120:r=10 -c:v mpeg4 -f avi -fflags +bitexact -flags:v +bitexact a.avi; ffmpeg -v error -i a.avi -vf scale=80:60 -f framemd5 - | tail -n 3",
    ),
    long(
        "node-jit",
        &["node"],
        "node -e 'function f(n) { return n < 2 ? n : f(n - 1) + f(n - 2) } const a = Array.from({ length: 1e5 }, (_, i) => i * 7919 % 100003).sort((x, y) => x - y); console.log(f(24), a[777], new Set(a.map(x => x % 10)).size, JSON.stringify(JSON.parse(JSON.stringify(a))).length, crypto.createHash(\"sha256\").update(a.join()).digest(\"hex\"))'",
    ),
    long(
        "perl-fork",
        &["perl"],
        "perl -e '$| = 1; for my $i (1 .. 20) { my $p = fork // die; if (!$p) { exit $i } waitpid $p, 0; $s += $? >> 8 } print \"$s\\n\"; local $SIG{ALRM} = sub { die \"late\\n\" }; eval { alarm 1; 1 while 1 }; print $@; my %h; $h{$_ % 1009} .= chr(65 + $_ % 26) for 1 .. 50000; print length join \"\", map { $h{$_} } sort keys %h'",
    ),
    long(
        "cpp-exceptions",
        &["g++"],
        "printf '#include <thread>\\n#include <vector>\\n#include <atomic>\\n#include <stdexcept>\\n#include <cstdio>\\nstd::atomic<int> n; void f(int d) { if (!d) throw std::runtime_error(\"x\"); f(d - 1); } int main() { std::vector<std::thread> t; for (int i = 0; i < 8; i++) t.emplace_back([] { for (int i = 0; i < 500; i++) try { f(i %% 20); } catch (std::exception&) { n++; } }); for (auto& x : t) x.join(); std::printf(\"%%d\", n.load()); }' > a.cc; g++ -O2 -pthread a.cc -o a && ./a",
    ),
    long("erlang", &["erl", "erlc"], include_str!("corpus/erlang.sh")),
    long("sbcl", &["sbcl"], include_str!("corpus/sbcl.sh")),
    long(
        "ruby",
        &["ruby"],
        "ruby -e 'h = Hash.new(0); 50000.times { |i| h[i % 977] += i }; puts h.values.sum; p (1..4).map { |k| Thread.new { (1..20000).sum { |x| x * k } } }.map(&:value); pid = fork { exit 3 }; Process.wait pid; p $?.exitstatus; GC.start; puts \"aab\".gsub(/a+/, \"b\")'",
    ),
    long(
        "ocaml",
        &["ocaml", "ocamlopt"],
        "echo 'let () = let h = Hashtbl.create 10 in for i = 0 to 200000 do Hashtbl.replace h (i mod 977) i done; Printf.printf \"%d\\n\" (Hashtbl.fold (fun _ v a -> v + a) h 0); (try ignore (let rec f n = 1 + f n in f 0) with Stack_overflow -> print_endline \"deep\"); Gc.full_major ()' > t.ml; ocaml t.ml; ocamlopt t.ml -o t && ./t; echo $?",
    ),
    long(
        "luajit",
        &["luajit"],
        "luajit -e 'local t = {} for i = 1, 1000000 do t[i % 977] = (t[i % 977] or 0) + i end local s = 0 for k, v in pairs(t) do s = s + v end print(s, pcall(error, \"x\"))'",
    ),
    long(
        "guile",
        &["guile"],
        "guile --no-auto-compile -c '(define h (make-hash-table)) (do ((i 0 (+ i 1))) ((= i 50000)) (hash-set! h (modulo i 977) i)) (display (hash-fold (lambda (k v a) (+ v a)) 0 h)) (newline)'",
    ),
    long(
        "php",
        &["php"],
        "echo '<?php $h = []; for ($i = 0; $i < 200000; $i++) { $h[$i % 977] = ($h[$i % 977] ?? 0) + $i; } echo array_sum($h), \" \", strlen(preg_replace(\"/a+/\", \"b\", str_repeat(\"aab\", 10000))), \"\\n\";' > t.php; php t.php; php -d opcache.enable_cli=1 -d opcache.jit_buffer_size=64M -d opcache.jit=tracing t.php",
    ),
    long(
        "swi-prolog",
        &["swipl"],
        "swipl -g 'numlist(1, 50000, L), sum_list(L, S), write(S), nl, catch(atom_length(_, _), error(E, _), (write(E), nl)), halt(2)'; echo $?",
    ),
];

/// The quick ones; with NUMALENS_CORPUS all, or those that it names.
fn is_wanted(entry: &Entry) -> bool {
    match std::env::var("NUMALENS_CORPUS").as_deref() {
        Ok("all") => true,
        Ok(names) => names.split(',').any(|name| name == entry.name),
        Err(_) => entry.quick,
    }
}

/// Whether a command is on the PATH, or where Debian keeps those that it leaves out of it.
fn installed(command: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let postgres = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let further = postgres.map(|version| version.path().join("bin")).chain(["/usr/sbin".into()]);
    std::env::split_paths(&path).chain(further).any(|folder| folder.join(command).is_file())
}

/// Runs a command in an empty folder.
fn run_in(lab: &Lab, mut command: Command) -> Output {
    command.current_dir(lab.path()).stdin(Stdio::null()).env("LC_ALL", "C").output().unwrap()
}

/// What is different when the program is recorded.
fn difference(entry: &Entry) -> Option<String> {
    let (alone, recorded, profiles) = (Lab::exact(), Lab::exact(), Lab::exact());
    let command = ["sh", "-c", entry.script];
    let mut by_itself = native(command[0]);
    by_itself.args(&command[1..]);
    let native = run_in(&alone, by_itself);
    let mut recorder = profiles.recorder(&[]);
    recorder.args(command);
    let recorded = run_in(&recorded, recorder);
    let text = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
    (native.status != recorded.status || native.stdout != recorded.stdout).then(|| {
        format!(
            "{}: {} instead of {}\n--- recorded\n{}--- alone\n{}--- said\n{}",
            entry.name,
            recorded.status,
            native.status,
            text(&recorded),
            text(&native),
            String::from_utf8_lossy(&recorded.stderr)
        )
    })
}

#[test]
fn programs_do_what_they_do_alone() {
    let mut different = Vec::new();
    for entry in CORPUS.iter().filter(|entry| is_wanted(entry)) {
        if let Some(missing) = entry.needs.iter().find(|command| !installed(command)) {
            eprintln!("left out: {} ({missing} is not installed)", entry.name);
            continue;
        }
        let begun = std::time::Instant::now();
        different.extend(difference(entry));
        eprintln!("{}: {:.1} s", entry.name, begun.elapsed().as_secs_f64());
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}
