// Where programs and threads are that others start, bind or replace, at moments in which they are neither the old nor
// the new.
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static char *self;

static cpu_set_t only(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    return set;
}

// The CPU that a thread is bound to; negative: several.
static int bound(int tid) {
    cpu_set_t set;
    if (sched_getaffinity(tid, sizeof set, &set) || CPU_COUNT(&set) != 1) return -1;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &set)) return cpu;
    return -1;
}

static void bind_to(int tid, int cpu) {
    cpu_set_t set = only(cpu);
    if (sched_setaffinity(tid, sizeof set, &set)) perror("sched_setaffinity");
}

static void *executes(void *what) {
    bind_to(0, 5);
    execl(self, self, "show", what, NULL);
    return NULL;
}

// By a thread that is not the first.
static void from_thread(void) {
    if (fork() == 0) {
        pthread_t thread;
        pthread_create(&thread, NULL, executes, "by another thread");
        pthread_join(thread, NULL);
        _exit(1);
    }
    wait(NULL);
}

// A child that has not run yet.
static void forked(void) {
    int wrong = 0;
    for (int i = 0; i < 40; i++) {
        int go[2], status;
        if (pipe(go)) abort();
        pid_t child = fork();
        if (child == 0) {
            char byte;
            if (read(go[0], &byte, 1) != 1) _exit(2);
            _exit(bound(0) != i % 8);
        }
        bind_to(child, i % 8);
        wrong += bound(child) != i % 8;
        if (write(go[1], "", 1) != 1) abort();
        waitpid(child, &status, 0);
        wrong += status != 0;
        close(go[0]), close(go[1]);
    }
    printf("forked: %d wrong\n", wrong);
}

static volatile int tid, stop;

static void *sets_policies(void *unused) {
    tid = syscall(SYS_gettid);
    unsigned long nodes[2] = {2, 4};
    for (int i = 0; !stop; i++) syscall(SYS_set_mempolicy, 2, &nodes[i & 1], 65);
    return (void *)(long)bound(0);
}

// A thread that changes where its pages go.
static void while_policies_change(void) {
    pthread_t thread;
    void *last;
    int wrong = 0;
    pthread_create(&thread, NULL, sets_policies, NULL);
    while (!tid) sched_yield();
    for (int i = 0; i < 500; i++) {
        bind_to(tid, i % 8);
        wrong += bound(tid) != i % 8;
    }
    bind_to(tid, 3);
    stop = 1;
    pthread_join(thread, &last);
    printf("while policies change: %d wrong, at last %ld\n", wrong, (long)last);
}

// A program that has not begun yet.
static void spawned(void) {
    int wrong = 0;
    for (int i = 0; i < 20; i++) {
        int go[2], status;
        pid_t child;
        char cpu[2] = {'0' + i % 8, 0}, *arguments[] = {self, "wait", cpu, NULL};
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        if (pipe2(go, O_CLOEXEC)) abort();
        posix_spawn_file_actions_adddup2(&actions, go[0], 0);
        posix_spawn(&child, self, &actions, NULL, arguments, environ);
        bind_to(child, i % 8);
        close(go[0]), close(go[1]);
        waitpid(child, &status, 0);
        wrong += status != 0;
    }
    printf("spawned: %d wrong\n", wrong);
}

// Nobody has their files after them.
static void ended(void) {
    int open = 0;
    for (int i = 0; i < 40; i++) {
        int end[2];
        if (pipe(end)) abort();
        if (fork() == 0) {
            pthread_t thread;
            pthread_create(&thread, NULL, executes, NULL);
            _exit(0);
        }
        wait(NULL);
        close(end[1]);
        struct pollfd hung_up = {.fd = end[0]};
        open += poll(&hung_up, 1, 5000) != 1;
        close(end[0]);
    }
    printf("ended: %d open\n", open);
}

static void by_path_alone(void) {
    if (fork() == 0) {
        bind_to(0, 6);
        char *arguments[] = {self, "show", "by its path alone", NULL};
        int file = open(self, O_PATH | O_CLOEXEC);
        syscall(SYS_execveat, file, "", arguments, environ, AT_EMPTY_PATH);
        _exit(1);
    }
    wait(NULL);
    char *arguments[] = {self, NULL};
    syscall(SYS_execveat, 0, NULL, arguments, environ, AT_EMPTY_PATH);
}

// Files that it writes are not what is noted of it.
static void with_small_files(void) {
    if (fork() == 0) {
        struct rlimit limit = {4096, 4096};
        setrlimit(RLIMIT_FSIZE, &limit);
        bind_to(0, 7);
        execl(self, self, "show", "with small files", NULL);
        _exit(1);
    }
    wait(NULL);
}

static void spread(void) {
    for (int i = 0; i < 6; i++) {
        pid_t child;
        char *arguments[] = {self, "node", NULL};
        posix_spawn(&child, self, NULL, NULL, arguments, environ);
        waitpid(child, NULL, 0);
    }
}

int main(int count, char **words) {
    self = realpath("/proc/self/exe", NULL);
    const char *what = count > 1 ? words[1] : "";
    if (!strcmp(what, "show")) {
        if (count > 2) printf("%s: %d\n", words[2], bound(0));
        return 0;
    }
    if (!strcmp(what, "wait")) {
        char byte;
        return read(0, &byte, 1) != 0 || bound(0) != atoi(words[2]);
    }
    if (!strcmp(what, "node")) {
        unsigned cpu, node;
        getcpu(&cpu, &node);
        printf("%u ", node);
        return 0;
    }
    if (!strcmp(what, "spread")) {
        spread();
        return 0;
    }
    setvbuf(stdout, NULL, _IONBF, 0);
    from_thread();
    forked();
    while_policies_change();
    spawned();
    ended();
    by_path_alone();
    with_small_files();
    return 0;
}
