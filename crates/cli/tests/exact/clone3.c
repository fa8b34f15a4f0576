/* clone3 in all its forms: a fork, with a pidfd, without handlers of signals, with a stack, a child that borrows the
 * memory, threads; what the kernel refuses. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/sched.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef CLONE_CLEAR_SIGHAND
#define CLONE_CLEAR_SIGHAND 0x100000000ull
#endif

static void handle(int signal) { (void)signal; }

static int handlers(void) {
    struct sigaction now[3];
    sigaction(SIGUSR1, 0, &now[0]), sigaction(SIGSEGV, 0, &now[1]), sigaction(SIGUSR2, 0, &now[2]);
    return (now[0].sa_handler != SIG_DFL) + 2 * (now[1].sa_handler != SIG_DFL) + 4 * (now[2].sa_handler == SIG_IGN);
}

static void process(const char *name, uint64_t flags, uint64_t signal) {
    int fd = -1;
    pid_t told = 0;
    struct clone_args how = {.flags = flags, .exit_signal = signal};
    if (flags & CLONE_PIDFD) how.pidfd = (uint64_t)(uintptr_t)&fd;
    if (flags & CLONE_PARENT_SETTID) how.parent_tid = (uint64_t)(uintptr_t)&told;
    long child = syscall(SYS_clone3, &how, sizeof how);
    if (!child) _exit(40 + handlers());
    int error = errno, status = 0;
    if (child < 0) {
        printf("%s: %s\n", name, strerror(error));
        return;
    }
    waitpid(child, &status, __WALL);
    printf("%s: %d, pidfd %d, told %d\n", name, WEXITSTATUS(status), fd >= 0, told == child);
    if (fd >= 0) close(fd);
}

/* On a stack of its own: with memory of its own, borrowed, or as a thread. The child writes a word there and ends. */
static volatile int *word;
__attribute__((noinline)) static long on_a_stack(struct clone_args *how) {
    long result;
    __asm__ volatile("syscall\n\ttest %%rax, %%rax\n\tjnz 1f\n\tmov %[word], %%rax\n\tmov %%rsp, %%rdi\n\t"
        "movl $9, (%%rax)\n\tmov $60, %%eax\n\t"
                     "and $15, %%edi\n\tadd $3, %%edi\n\tsyscall\n\tud2\n1:"
                     : "=a"(result) : "0"((long)SYS_clone3), "D"(how), "S"(sizeof *how), [word] "r"(word) : "rcx",
                     "r11", "memory", "cc");
    return result;
}

static void *body(void *argument) { return (char *)argument + 1; }

int main() {
    signal(SIGUSR1, handle), signal(SIGSEGV, handle), signal(SIGUSR2, SIG_IGN);
    process("fork", 0, SIGCHLD);
    process("pidfd", CLONE_PIDFD | CLONE_PARENT_SETTID, SIGCHLD);
    process("clear", CLONE_CLEAR_SIGHAND, SIGCHLD);
    process("both, quiet", CLONE_CLEAR_SIGHAND | CLONE_PIDFD, 0);
    process("vfork", CLONE_VFORK, SIGCHLD);
    process("clear and share", CLONE_CLEAR_SIGHAND | CLONE_SIGHAND | CLONE_VM, SIGCHLD);
    process("thread that signals", CLONE_THREAD | CLONE_SIGHAND | CLONE_VM, SIGCHLD);
    word = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char *stack = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t forms[] = {0, CLONE_VM, CLONE_VM | CLONE_VFORK, CLONE_VM | CLONE_VFORK | CLONE_CLEAR_SIGHAND};
    for (int form = 0; form < 4; form++) {
        struct clone_args how = {.flags = forms[form], .exit_signal = SIGCHLD, .stack = (uintptr_t)stack,
            .stack_size = 65536 - 8};
        *word = 0;
        int status = 0;
        long child = on_a_stack(&how);
        waitpid(child, &status, 0);
        printf("on a stack: %d, status %d, handlers %d\n", *word, WEXITSTATUS(status), handlers());
    }
    uint64_t tids = CLONE_CHILD_CLEARTID | CLONE_CHILD_SETTID;
    struct clone_args thread = {.flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | tids,
                                .stack = (uintptr_t)stack, .stack_size = 65536,
                                    .child_tid = (uint64_t)(uintptr_t)(word + 8)};
    *word = 0, word[8] = 1;
    printf("thread %d", on_a_stack(&thread) > 0);
    while (!*word || word[8]) {}
    printf(": %d\n", *word);
    struct clone_args bad = {.stack = 4096, .exit_signal = SIGCHLD};
    printf("no size: %ld", syscall(SYS_clone3, &bad, sizeof bad)), printf(" %d", errno);
    printf(", short: %ld", syscall(SYS_clone3, &bad, 32ul)), printf(" %d", errno);
    printf(", nowhere: %ld", syscall(SYS_clone3, 8l, sizeof bad)), printf(" %d", errno);
    struct { struct clone_args known; uint64_t more[2]; } longer = {.known = {.exit_signal = SIGCHLD}, .more = {0, 1}};
    printf(", too long: %ld", syscall(SYS_clone3, &longer, sizeof longer)), printf(" %d\n", errno);
    /* And as the C library has it. */
    pthread_t many[8];
    for (long i = 0; i < 8; i++) pthread_create(&many[i], 0, body, (void *)i);
    long sum = 0;
    for (int i = 0; i < 8; i++) {
        void *got;
        pthread_join(many[i], &got), sum += (long)got;
    }
    pid_t spawned;
    char *arguments[] = {"sh", "-c", "kill -USR1 $$; exit 1", 0};
    int status = 0;
    fflush(stdout);
    if (!posix_spawn(&spawned, "/bin/sh", 0, 0, arguments, 0)) waitpid(spawned, &status, 0);
    printf("library: %ld, spawned: signal %d\n", sum, WTERMSIG(status));
}
