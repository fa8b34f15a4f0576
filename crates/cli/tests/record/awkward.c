/* Programs that do what recorders trip over: awkward KIND. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
#define SIZE (256L << 10)

static char *block(void) {
    char *memory = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) exit(9);
    memset(memory, 1, SIZE);
    return memory;
}

static void *busy(void *unused) {
    char *memory = malloc(1 << 16);
    memset(memory, 1, 1 << 16);
    free(memory);
    return unused;
}

/* Works until its input ends. */
static void *until_the_end(void *unused) {
    char byte;
    volatile char *memory = block();
    fcntl(0, F_SETFL, O_NONBLOCK);
    while (read(0, &byte, 1) != 0) {
        for (long at = 0; at < SIZE; at += 64) memory[at]++;
        usleep(500);
    }
    return unused;
}

static volatile sig_atomic_t profiled, repaired;
static char *guarded;

static void on_profile(int number) { profiled = number; }

static void on_fault(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    mprotect((void *)((long)info->si_addr & ~4095L), 4096, PROT_READ | PROT_WRITE);
    repaired++;
}

static char state_of(int pid) {
    char path[64], state = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *stat = fopen(path, "r");
    if (!stat || fscanf(stat, "%*d (%*[^)]) %c", &state) != 1) exit(9);
    fclose(stat);
    return state;
}

static void on_term(int number) {
    if (write(1, "asked\n", 6) == 6) _exit(number - 8);
}

int main(int arguments, char **argument) {
    if (arguments < 2) return 2;
    const char *kind = argument[1];
    if (!strcmp(kind, "serve")) { /* says who it is, then works until its input ends */
        signal(SIGTERM, on_term);
        printf("%d\n", getpid());
        fflush(stdout);
        pthread_t other[3];
        for (int i = 0; i < 3; i++) pthread_create(&other[i], 0, until_the_end, 0);
        for (int i = 0; i < 3; i++) pthread_join(other[i], 0);
    } else if (!strcmp(kind, "threads")) {
        pthread_t other[300];
        for (int i = 0; i < 300; i++)
            if (pthread_create(&other[i], 0, busy, 0)) return 9;
        for (int i = 0; i < 300; i++) pthread_join(other[i], 0);
    } else if (!strcmp(kind, "closes")) {
        for (int fd = 3; fd < 1024; fd++) close(fd);
        free(block() ? malloc(100000) : 0);
    } else if (!strcmp(kind, "nobody")) {
        if (chdir("/") || setgid(65534) || setuid(65534)) return 9;
        block();
    } else if (!strcmp(kind, "unmaps")) {
        for (int i = 0; i < 300; i++) munmap(block(), SIZE);
    } else if (!strcmp(kind, "fork")) {
        char *memory = block();
        for (int i = 0; i < 4; i++)
            if (fork() == 0) {
                memset(memory, i, SIZE);
                _exit(0);
            }
        while (wait(0) > 0) {}
    } else if (!strcmp(kind, "vfork")) {
        pid_t child = vfork();
        if (child == 0) {
            execlp("true", "true", (char *)0);
            _exit(127);
        }
        waitpid(child, 0, 0);
    } else if (!strcmp(kind, "spawn")) {
        char *words[] = {"echo", "spawned", 0};
        pid_t child;
        if (posix_spawnp(&child, "echo", 0, 0, words, environ)) return 9;
        waitpid(child, 0, 0);
    } else if (!strcmp(kind, "clone")) {
        char *memory = block();
        long child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        if (child == 0) {
            memory[0] = 2;
            syscall(SYS_exit_group, 0);
        }
        waitpid((pid_t)child, 0, 0);
    } else if (!strcmp(kind, "handlers")) {
        struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
        sigaction(SIGSEGV, &action, 0);
        signal(SIGPROF, on_profile);
        struct itimerval often = {{0, 1000}, {0, 1000}};
        setitimer(ITIMER_PROF, &often, 0);
        guarded = block();
        mprotect(guarded, SIZE, PROT_NONE);
        for (long at = 0; at < SIZE; at += 4096) guarded[at] = 1;
        while (!profiled) guarded[0]++;
        printf("%d repaired\n", repaired);
    } else if (!strcmp(kind, "seccomp")) {
        char *memory = block();
        puts("strict");
        fflush(stdout);
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)) return 9;
        memory[0]++;
        syscall(SYS_exit, 6);
    } else if (!strcmp(kind, "daemon")) {
        if (fork() == 0) {
            setsid();
            if (fork() == 0) {
                block();
                puts("daemon");
                fflush(stdout);
            }
            _exit(0);
        }
        wait(0);
    } else if (!strcmp(kind, "lingers")) { /* a process in the background says who it is when the command is gone, and goes on */
        int command = getpid();
        if (fork()) _exit(0);
        setsid();
        dup2(open("/dev/null", O_RDWR), 2);
        while (kill(command, 0) == 0) usleep(1000);
        printf("%d\n", getpid());
        fflush(stdout);
        until_the_end(0);
    } else if (!strcmp(kind, "die")) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        block();
        int number = atoi(argument[2]);
        if (number == SIGSEGV) *(volatile int *)8 = 1;
        if (number == SIGABRT) abort();
        raise(number);
    } else if (!strcmp(kind, "stall")) { /* touches pages while its parent stands still */
        long pages = atol(argument[2]);
        volatile char *memory = mmap(0, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED || madvise((void *)memory, pages * 4096, MADV_NOHUGEPAGE)) return 9;
        kill(getppid(), SIGSTOP);
        while (state_of(getppid()) != 'T') sched_yield();
        for (long page = 0; page < pages; page++) memory[page * 4096] = 1;
        kill(getppid(), SIGCONT);
        printf("%lx\n", (long)memory / 4096);
    } else {
        return 2;
    }
    puts("ended");
    return 0;
}
