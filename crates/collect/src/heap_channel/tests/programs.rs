//! Every interposed function, threads, children, sampling.

use super::*;

/// Runs a C program under the library with every allocation recorded.
fn run_source(name: &str, source: &str, compiler: &str, flags: &[&str]) -> Option<(BTreeMap<String, u64>, Vec<Seen>)> {
    let directory = tempfile::tempdir().expect("directory");
    let program = compile(directory.path(), name, source, compiler, flags)?;
    let mut channel = HeapChannel::create(&everything()).expect("channel");
    let command = observed(&channel, program);
    let (output, events) = run(&mut channel, command);
    assert_eq!(channel.losses(), HeapLosses::default());
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    Some((printed(&output), events))
}

const FAMILY: &str = r#"
#define _GNU_SOURCE
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <errno.h>
static void say(const char *name, const void *p) { printf("%s=%lx\n", name, (unsigned long)p); }
#define TELL(name, expression) do { errno = 4242; void *p = (expression); if (errno != 4242) abort(); say(name, p); free(p); } while (0)
int main(void) {
    setvbuf(stdout, malloc(1 << 16), _IOFBF, 1 << 16);
    say("main", main);
    TELL("malloc", malloc(70001));
    TELL("calloc", calloc(70002, 1));
    TELL("reallocarray", reallocarray(NULL, 70004, 1));
    TELL("aligned_alloc", aligned_alloc(256, 70144));
    TELL("memalign", memalign(4096, 70006));
    TELL("valloc", valloc(70007));
    TELL("pvalloc", pvalloc(70008));
    void *p = NULL;
    if (posix_memalign(&p, 64, 70005)) abort();
    say("posix_memalign", p);
    p = realloc(p, 140003);
    say("realloc", p);
    errno = 0;
    if (realloc(p, PTRDIFF_MAX) || errno != ENOMEM) abort();
    free(p);
    errno = 4242;
    free(NULL);
    if (errno != 4242) abort();
    errno = 0;
    if (malloc(PTRDIFF_MAX) || errno != ENOMEM) abort();
    errno = 0;
    if (calloc(SIZE_MAX / 2, 3) || errno != ENOMEM) abort();
    p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    say("mmap", p);
    void *q = mremap(p, 8192, 1 << 20, MREMAP_MAYMOVE);
    say("mremap", q);
    munmap(q, 1 << 20);
    if (mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED || errno != EINVAL) abort();
    void *volatile kept = malloc(70009);
    say("kept", kept);
    return 0;
}
"#;

fn check_family((said, events): (BTreeMap<String, u64>, Vec<Seen>)) {
    let sized = |name: &str, call: Call, size: u64| {
        let event =
            events.iter().find(|event| event.kind == "alloc" && event.numbers[1] == size && event.call == Some(call));
        let event = event.unwrap_or_else(|| panic!("{name} of {size} is not told"));
        assert_eq!(event.numbers, [said[name], size, size, 0], "{name}");
        assert!(
            event.ip > said["main"] && event.ip < said["main"] + 4096,
            "{name} was called by main, not {:x}",
            event.ip
        );
        assert!(event.stack >= 64 && event.stack % 8 == 0, "{name}: {} bytes of stack", event.stack);
    };
    sized("malloc", Call::Malloc, 70001);
    sized("calloc", Call::Calloc, 70002);
    sized("reallocarray", Call::Realloc, 70004);
    sized("aligned_alloc", Call::Aligned, 70144);
    sized("memalign", Call::Aligned, 70006);
    sized("valloc", Call::Aligned, 70007);
    sized("pvalloc", Call::Aligned, 73728);
    sized("posix_memalign", Call::Aligned, 70005);
    sized("realloc", Call::Realloc, 140003);
    sized("mmap", Call::Mmap, 8192);
    sized("kept", Call::Malloc, 70009);
    for name in ["malloc", "calloc", "posix_memalign", "realloc", "pvalloc"] {
        assert!(of(&events, "free").iter().any(|event| event.numbers == [said[name]]), "{name} is released");
    }
    let [kept] = of(&events, "kept")[..] else { panic!("one realloc that fails") };
    assert_eq!(kept.numbers, [said["realloc"]]);
    let allocations: Vec<_> = of(&events, "alloc");
    assert!(!of(&events, "free").iter().any(|event| event.numbers == [said["kept"]]
        && allocations.iter().filter(|made| made.numbers[0] == said["kept"]).count() == 1));
    assert_eq!(of(&events, "mremap")[0].numbers, [said["mmap"], 8192, said["mremap"], 1 << 20]);
    assert!(of(&events, "munmap").iter().any(|event| event.numbers == [said["mremap"], 1 << 20]));
    let [exit] = of(&events, "exit")[..] else { panic!("one exit") };
    assert_eq!(exit.numbers, [u64::MAX, 1]);
    let [start] = of(&events, "start")[..] else { panic!("one start") };
    assert_eq!(start.numbers, [u64::from(std::process::id())]);
}

#[test]
fn the_malloc_family_and_mappings() {
    if let Some(result) = run_source("family", FAMILY, "cc", &[]) {
        check_family(result);
    }
}

#[test]
fn the_same_with_musl() {
    let source = FAMILY.replace("TELL(\"pvalloc\", pvalloc(70008));", "TELL(\"pvalloc\", valloc(73728));");
    if let Some(result) = run_source("family-musl", &source, "musl-gcc", &[]) {
        check_family(result);
    }
}

#[test]
fn new_is_told_from_malloc() {
    let source = r#"
        #include <cstdio>
        #include <new>
        struct alignas(256) Wide { char bytes[70144]; };
        int main() {
            char *volatile a = new char[70001];
            char *volatile b = new (std::nothrow) char[70002];
            std::printf("array=%lx\nnothrow=%lx\n", (unsigned long)a, (unsigned long)b);
            delete[] a;
            delete[] b;
            Wide *volatile w = new Wide;
            delete w;
        }"#;
    let Some((said, events)) = run_source("new", source, "c++", &["-std=c++17"]) else { return };
    let made = |size: u64| {
        let made: Vec<_> = of(&events, "alloc").into_iter().filter(|event| event.numbers[1] == size).collect();
        assert_eq!(made.len(), 1, "one allocation of {size}, not two");
        made[0]
    };
    assert_eq!((made(70001).call, made(70001).numbers[0]), (Some(Call::New), said["array"]));
    assert_eq!((made(70002).call, made(70002).numbers[0]), (Some(Call::New), said["nothrow"]));
    assert_eq!(made(70144).call, Some(Call::Aligned));
    assert!(of(&events, "free").iter().any(|event| event.numbers == [said["array"]]));
}

const THREADS: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
static pthread_barrier_t barrier;
static pthread_key_t key;
static void at_end(void *p) { free(p); void *volatile q = malloc(60001); free(q); }
static void *work(void *argument) {
    pthread_setspecific(key, malloc(60000));
    for (int i = 0; i < 100; i++) { void *volatile p = malloc(50000 + (long)argument); free(p); }
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    if (argument == (void *)3) pthread_exit((void *)9);
    return argument;
}
int main(void) {
    pthread_t threads[8];
    pthread_barrier_init(&barrier, NULL, 9);
    pthread_key_create(&key, at_end);
    printf("work=%lx\nmain_tid=%lx\n", (unsigned long)work, (unsigned long)syscall(SYS_gettid));
    for (long i = 0; i < 8; i++) pthread_create(&threads[i], NULL, work, (void *)i);
    pthread_barrier_wait(&barrier);
    cpu_set_t one;
    CPU_ZERO(&one);
    int cpu = 0;
    cpu_set_t all;
    sched_getaffinity(0, sizeof all, &all);
    while (!CPU_ISSET(cpu, &all)) cpu++;
    CPU_SET(cpu, &one);
    if (pthread_setaffinity_np(threads[5], sizeof one, &one)) abort();
    if (sched_setaffinity(0, sizeof one, &one)) abort();
    printf("mask=%lx\n", *(unsigned long *)&one);
    pthread_barrier_wait(&barrier);
    for (long i = 0; i < 8; i++) {
        void *result;
        pthread_join(threads[i], &result);
        if (result != (void *)(i == 3 ? 9 : i)) abort();
    }
    return 0;
}
"#;

fn check_threads((said, events): (BTreeMap<String, u64>, Vec<Seen>)) {
    let starts = of(&events, "thread");
    assert_eq!(starts.len(), 8);
    for start in &starts {
        assert_eq!(start.numbers, [said["main_tid"], said["work"]]);
        let of_thread: Vec<_> = events.iter().filter(|event| event.tid == start.tid).collect();
        let count = |kind: &str| of_thread.iter().filter(|event| event.kind == kind).count();
        assert!(count("alloc") >= 102, "the destructor's included: {}", count("alloc"));
        let large = of_thread.iter().filter(|event| event.kind == "alloc" && event.numbers[1] >= 50000).count();
        assert!(large == 102 && count("free") >= large, "{large} made, {} released", count("free"));
        let placed: Vec<_> = of_thread.iter().filter(|event| event.kind == "placed").collect();
        assert!(!placed.is_empty() && placed[0].numbers[0] == u64::from(start.tid) && placed[0].numbers[1] == 0);
    }
    let pinned: Vec<_> = of(&events, "placed")
        .into_iter()
        .filter(|event| {
            u64::from(event.tid) == said["main_tid"]
                && event.numbers[2] == said["mask"]
                && event.numbers[3..].iter().all(|&word| word == 0)
        })
        .collect();
    let targets: Vec<_> = pinned.iter().map(|event| event.numbers[0]).collect();
    assert!(targets.contains(&said["main_tid"]), "main pinned itself: {targets:?}");
    assert!(
        targets.iter().any(|&tid| starts.iter().any(|start| u64::from(start.tid) == tid)),
        "and a thread: {targets:?}"
    );
}

#[test]
fn threads_their_places_and_their_end() {
    if let Some(result) = run_source("threads", THREADS, "cc", &["-pthread"]) {
        check_threads(result);
    }
}

#[test]
fn threads_with_musl() {
    if let Some(result) = run_source("threads-musl", THREADS, "musl-gcc", &["-pthread"]) {
        check_threads(result);
    }
}

#[test]
fn policies() {
    let source = r#"
        #include <stdio.h>
        #include <errno.h>
        #include <stdlib.h>
        #include <sys/mman.h>
        #include <sys/syscall.h>
        #include <unistd.h>
        long set_mempolicy(int, const unsigned long *, unsigned long);
        long mbind(void *, unsigned long, int, const unsigned long *, unsigned long, unsigned);
        long migrate_pages(int, unsigned long, const unsigned long *, const unsigned long *);
        long move_pages(int, unsigned long, void **, const int *, int *, int);
        int main(void) {
            unsigned long node0 = 1;
            void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            *(char *)p = 1;
            printf("p=%lx\n", (unsigned long)p);
            int node = 0, status = -1;
            long failed = set_mempolicy(3, &node0, 64) | set_mempolicy(0, NULL, 0) | mbind(p, 4096, 2, &node0, 64, 0)
                        | migrate_pages(0, 64, &node0, &node0) | move_pages(0, 1, &p, NULL, &status, 0) | move_pages(0, 1, &p, &node, &status, 0);
            failed |= syscall(SYS_mbind, p, 4096, 4, NULL, 0, 0) | syscall(SYS_set_mempolicy, 0, NULL, 0);
            printf("failed=%lx\n", failed ? (unsigned long)errno : 0);
            if (syscall(SYS_getpid) != getpid() || syscall(SYS_set_mempolicy, 77, &node0, 64) != -1) abort();
            if (set_mempolicy(77, &node0, 64) != -1 || errno != EINVAL && errno != ENOSYS) abort();
            return 0;
        }"#;
    // As libnuma does: exported wrappers of the system calls, which must still be the ones that are called.
    let library = r#"
        #include <unistd.h>
        #include <sys/syscall.h>
        long set_mempolicy(int a, void *b, long c) { return syscall(SYS_set_mempolicy, a, b, c); }
        long mbind(void *a, long b, int c, void *d, long e, unsigned f) { return syscall(SYS_mbind, a, b, c, d, e, f); }
        long migrate_pages(int a, long b, void *c, void *d) { return syscall(SYS_migrate_pages, a, b, c, d); }
        long move_pages(int a, long b, void *c, void *d, void *e, int f) { return syscall(SYS_move_pages, a, b, c, d, e, f); }"#;
    let directory = tempfile::tempdir().expect("directory");
    let Some(library) = compile(directory.path(), "libpolicies.so", library, "cc", &["-shared", "-fPIC"]) else {
        return;
    };
    let library = library.to_string_lossy();
    let Some((said, events)) = run_source("policies", source, "cc", &[&library]) else { return };
    if said["failed"] == nix::errno::Errno::ENOSYS as u64 {
        println!("skipped: this kernel has no memory policies");
        return;
    }
    assert_eq!(said["failed"], 0);
    let numbers = |kind| of(&events, kind).iter().map(|event| event.numbers.clone()).collect::<Vec<_>>();
    let pid = u64::from(events[0].pid);
    assert_eq!(numbers("policy"), [vec![3, 0, 1], vec![0, 0], vec![0, 0]]);
    assert_eq!(numbers("mbind"), [vec![said["p"], 4096, 2, 1], vec![said["p"], 4096, 4]]);
    assert_eq!(numbers("migrate"), [vec![pid]]);
    assert_eq!(numbers("move"), [vec![pid, 1]]);
}

#[test]
fn children_of_every_kind() {
    let source = r#"
        #define _GNU_SOURCE
        #include <fcntl.h>
        #include <spawn.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        #include <sys/wait.h>
        #include <unistd.h>
        extern char **environ;
        static void wait_for(int pid) { int status; if (waitpid(pid, &status, 0) != pid || status) abort(); }
        int main(int argc, char **argv) {
            if (argc > 1) {
                if (getenv("LD_PRELOAD") || getenv("NUMALENS_CHANNEL")) abort();
                void *volatile p = malloc(90000 + atoi(argv[1]));
                return 0;
            }
            char *self = realpath("/proc/self/exe", NULL), number[4], *words[] = {self, number, NULL}, *none[] = {NULL};
            int pid;
            for (int way = 0; way < 12; way++) {
                sprintf(number, "%d", way);
                if (way < 8) {
                    pid = way % 2 ? vfork() : fork();
                    if (!pid) {
                        if (way == 0) execve(self, words, environ);
                        if (way == 1) execv(self, words);
                        if (way == 2) execvp(self, words);
                        if (way == 3) execvpe(self, words, none);
                        if (way == 4) execl(self, self, number, (char *)NULL);
                        if (way == 5) execlp(self, self, number, (char *)NULL);
                        if (way == 6) execle(self, self, number, (char *)NULL, none);
                        if (way == 7) fexecve(open(self, O_RDONLY), words, environ);
                        _exit(1);
                    }
                    wait_for(pid);
                } else if (way == 8) {
                    if (posix_spawn(&pid, self, NULL, NULL, words, environ)) abort();
                    wait_for(pid);
                } else if (way == 9) {
                    if (posix_spawnp(&pid, self, NULL, NULL, words, none)) abort();
                    wait_for(pid);
                } else {
                    char command[5000];
                    sprintf(command, "exec '%s' %s", self, number);
                    if (way == 10 && system(command)) abort();
                    if (way == 11 && pclose(popen(command, "r"))) abort();
                }
            }
            if (getenv("LD_PRELOAD") || getenv("NUMALENS_CHANNEL")) abort();
            pid = fork();
            if (!pid) { void *volatile p = malloc(91000); _exit(0); }
            wait_for(pid);
            pid = vfork();
            if (!pid) { execl("/does/not/exist", "x", (char *)NULL); _exit(0); }
            wait_for(pid);
            if (execl("/does/not/exist", "x", (char *)NULL) != -1) abort();
            execl(self, self, "77", (char *)NULL);
            return 1;
        }"#;
    let Some((_, events)) = run_source("children", source, "cc", &[]) else { return };
    for way in (0..12).chain([77, 1000]) {
        let made = of(&events, "alloc").into_iter().filter(|event| event.numbers[1] == 90000 + way).count();
        assert_eq!(made, 1, "way {way}");
    }
    let main = of(&events, "start")[0].pid;
    let child =
        of(&events, "alloc").into_iter().find(|event| event.numbers[1] == 91000).expect("the forked child's").pid;
    assert_ne!(child, main);
    assert!(of(&events, "fork").iter().any(|event| event.pid == child && event.numbers == [u64::from(main)]));
    assert!(of(&events, "exit").iter().any(|event| event.pid == child && event.numbers == [0, 1]));
    // A child of vfork lives in its parent's memory: neither its exit nor its exec is the parent's.
    let of_main = |kind: &str| of(&events, kind).into_iter().filter(|event| event.pid == main).count();
    assert_eq!((of_main("exec"), of_main("exec failed"), of_main("exit")), (2, 1, 1));
    assert_eq!(of(&events, "exec failed")[0].numbers, [2]);
}

#[test]
fn sampling_is_unbiased() {
    let source = r#"
        #include <stdlib.h>
        #include <stdio.h>
        int main(void) {
            unsigned long total = 0;
            static void *volatile kept[64];
            for (unsigned i = 0; i < 1000000; i++) {
                unsigned size = 16 + i % 32 * 16;
                free(kept[i % 64]);
                kept[i % 64] = malloc(size);
                total += size;
            }
            printf("total=%lx\n", total);
            return 0;
        }"#;
    let directory = tempfile::tempdir().expect("directory");
    let Some(program) = compile(directory.path(), "sampling", source, "cc", &[]) else { return };
    // A rate without limit, so that the mean stays.
    let shape = Shape { lanes_log2: 0, note_slots_log2: 14, wide_slots_log2: 13 };
    let options = HeapOptions {
        shape,
        mean: 64 << 10,
        sampled_per_second: u32::MAX,
        handshake: Some(Duration::from_secs(5)),
        ..HeapOptions::default()
    };
    let mut channel = HeapChannel::create(&options).expect("channel");
    let command = observed(&channel, program);
    let (output, events) = run(&mut channel, command);
    assert_eq!(channel.losses(), HeapLosses::default());
    let total = printed(&output)["total"] as f64;
    let sampled: Vec<_> = of(&events, "alloc").into_iter().filter(|event| event.numbers[3] == 1).collect();
    let estimate: u64 = sampled.iter().map(|event| event.numbers[2]).sum();
    // About 4150 samples: one standard deviation is 1.6 %.
    assert!((estimate as f64 / total - 1.0).abs() < 0.1, "{estimate} for {total}, {} samples", sampled.len());
    let live = sampled.len() - of(&events, "free").len();
    assert!(live < 10, "{live} of 64 left alive are known, of {}", sampled.len());
}

#[test]
fn the_copied_stack_holds_the_callers_frames() {
    let source = r#"
        #include <stdlib.h>
        #include <stdio.h>
        static __attribute__((noinline)) void *deep(volatile long marker) { void *volatile p = malloc(80000); return (void *)(marker + (long)p); }
        int main(void) { printf("r=%lx\n", (unsigned long)deep(0x1122334455667788) & 0); return 0; }"#;
    let Some((_, events)) = run_source("deep", source, "cc", &["-fno-omit-frame-pointer"]) else { return };
    let made = of(&events, "alloc").into_iter().find(|event| event.numbers[1] == 80000).expect("told");
    assert!(made.bytes.chunks_exact(8).any(|word| word == 0x1122_3344_5566_7788_u64.to_ne_bytes()));
}
