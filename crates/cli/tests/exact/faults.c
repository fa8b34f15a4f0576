// Handlers: of faults with the right address, of a timer, on an alternate stack, nested, left by siglongjmp.
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static sigjmp_buf back;
static void *volatile address;
static volatile long ticks, nested;
static char *volatile stack_seen;

static void fault(int signal, siginfo_t *info, void *context) {
    address = info->si_addr;
    siglongjmp(back, 1);
}
static void tick(int signal) { ticks++; }
static void open_page(int signal, siginfo_t *info, void *context) {
    mprotect((void *)((long)info->si_addr & ~4095L), 4096, PROT_READ | PROT_WRITE);
}
static void inner(int signal) { nested++; }
static void outer(int signal) { raise(SIGUSR2); nested += 10; }
static void on_stack(int signal) { char here; stack_seen = &here; }

int main(void) {
    struct sigaction action = {.sa_sigaction = fault, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, 0);
    int right = 0;
    for (long i = 0; i < 200; i++)
        if (!sigsetjmp(back, 1)) *(volatile int *)(0x1000 + i * 8) = 1;
        else right += address == (void *)(0x1000 + i * 8);
    printf("%d faults at the right address\n", right);

    action.sa_sigaction = open_page;
    sigaction(SIGSEGV, &action, 0);
    volatile char *closed = mmap(0, 100 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 100; i++) closed[i * 4096] += i;
    int sum = 0;
    for (int i = 0; i < 100; i++) sum += closed[i * 4096];
    printf("%d after faults that were mended\n", sum);

    signal(SIGALRM, tick);
    struct itimerval every = {{0, 1000}, {0, 1000}};
    setitimer(ITIMER_REAL, &every, 0);
    unsigned long x = 1;
    double d = 1;
    static long table[4096];
    for (long i = 0; ticks < 100; i++) {
        x = x * 6364136223846793005ul + 1;
        d = d * 0.999 + 1;
        table[x >> 52] += i;
    }
    every.it_value.tv_usec = every.it_interval.tv_usec = 0;
    setitimer(ITIMER_REAL, &every, 0);
    printf("ticks %d\n", ticks >= 100);

    signal(SIGUSR1, outer);
    signal(SIGUSR2, inner);
    for (int i = 0; i < 100; i++) raise(SIGUSR1);
    printf("nested %ld\n", nested);

    stack_t alternate = {.ss_sp = malloc(65536), .ss_size = 65536};
    sigaltstack(&alternate, 0);
    action.sa_handler = on_stack;
    action.sa_flags = SA_ONSTACK | SA_RESETHAND;
    sigaction(SIGUSR1, &action, 0);
    raise(SIGUSR1);
    char *from = alternate.ss_sp;
    sigaction(SIGUSR1, 0, &action);
    printf("alternate %d reset %d\n", stack_seen > from && stack_seen < from + 65536, action.sa_handler == SIG_DFL);

    signal(SIGTRAP, inner);
    nested = 0;
    __asm__ volatile("int3");
    raise(SIGTRAP);
    printf("traps %ld\n", nested);

    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        signal(SIGSEGV, SIG_DFL);
        *(volatile int *)8 = 1;
        _exit(1);
    }
    int status;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    printf("child %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status));
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    sigprocmask(SIG_BLOCK, &set, 0);
    nested = 0;
    raise(SIGUSR2);
    printf("blocked %ld\n", nested);
    sigprocmask(SIG_UNBLOCK, &set, 0);
    printf("unblocked %ld\n", nested);
    fflush(stdout);
    signal(SIGTERM, SIG_DFL);
    raise(SIGTERM);
    return 0;
}
