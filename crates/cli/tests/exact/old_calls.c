/* System calls of 32-bit programs by `int 0x80` in 64-bit code: what they do to memory, processes and signals. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static long old(long number, long a, long b, long c, long d, long e) {
    register long r8 __asm__("r8") = 0x1111, r11 __asm__("r11") = 0x2222;
    __asm__ volatile("int $0x80" : "+a"(number), "+r"(r8), "+r"(r11) : "b"(a), "c"(b), "d"(c), "S"(d), "D"(e)
        : "memory", "r9", "r10");
    return number;
}

enum { EXIT = 1, FORK, READ, WRITE, EXECVE = 11, GETPID = 20, BRK = 45, SIGNAL = 48, SIGACTION = 67, MMAP = 90,
    MUNMAP = 91, CLONE = 120, MPROTECT = 125,
       SIGPROCMASK = 126, MREMAP = 163, RT_SIGACTION = 174, SIGALTSTACK = 186, VFORK = 190, MMAP2 = 192, MADVISE = 219,
           CLOSE_RANGE = 436 };
#define ANONYMOUS (MAP_PRIVATE | MAP_ANONYMOUS)

static volatile int in_the_child;
static char *low;

/* One thread of its own stack, by clone. It ends by exit, as a 32-bit thread does. */
__attribute__((noinline)) static long begin(char *stack) {
    long result;
    __asm__ volatile("int $0x80\n\ttest %%eax, %%eax\n\tjnz 1f\n\tmovl $5, %[word]\n\tmov $1, %%eax\n\t"
        "xor %%ebx, %%ebx\n\tint $0x80\n\tud2\n1:"
                     : "=a"(result), [word] "+m"(in_the_child)
                     : "0"((long)CLONE), "b"((long)(0x50f00 | 0x200000)), "c"(stack), "d"(0L), "S"(0L), "D"(low + 4088)
                     : "memory", "cc", "r8", "r9", "r10", "r11");
    return result;
}

int main(int count, char **arguments) {
    if (count > 1) return printf("executed: %s %s\n", arguments[1], getenv("OLD")), 0;
    printf("getpid %d, unknown %ld\n", old(GETPID, 0, 0, 0, 0, 0) == getpid(), old(9999, 0, 0, 0, 0, 0));
    low = (char *)old(MMAP2, 0, 65536, PROT_READ | PROT_WRITE | PROT_EXEC, ANONYMOUS, -1);
    printf("below 4 GiB %d\n", (uintptr_t)low < 1ul << 32 && (uintptr_t)low > 4096);
    strcpy(low, "by write\n"), fflush(stdout), old(WRITE, 1, (long)low, 9, 0, 0);
    /* Code there, made anew after a call has given it up. */
    for (int round = 0; round < 3; round++) {
        unsigned char code[] = {0xb8, (unsigned char)round, 0, 0, 0, 0xc3};
        memcpy(low + 8192, code, sizeof code);
        printf("mprotect %ld, code %d\n", old(MPROTECT, (long)low + 8192, 4096, PROT_READ | PROT_EXEC, 0, 0),
            ((int (*)(void))(low + 8192))());
        if (round == 1) old(MUNMAP, (long)low + 8192, 4096, 0, 0, 0), old(MMAP2, (long)low + 8192, 4096, 7,
            ANONYMOUS | MAP_FIXED, -1);
        else old(MPROTECT, (long)low + 8192, 4096, 7, 0, 0);
    }
    uint32_t six[] = {0, 8192, PROT_READ | PROT_WRITE, ANONYMOUS, (uint32_t)-1, 0};
    memcpy(low + 256, six, sizeof six);
    char *second = (char *)old(MMAP, (long)low + 256, 0, 0, 0, 0);
    second[5000] = 3;
    char *moved = (char *)old(MREMAP, (long)second, 8192, 1 << 20, MREMAP_MAYMOVE, 0);
    printf("mmap, mremap: %d, madvise %ld", moved[5000], old(MADVISE, (long)moved, 8192, MADV_DONTNEED, 0, 0));
    printf(": %d, brk %d\n", moved[5000], (void *)old(BRK, 0, 0, 0, 0, 0) == (void *)syscall(SYS_brk, 0));
    fflush(stdout);
    for (int form = 0; form < 3; form++) {
        long child = form == 0 ? old(FORK, 0, 0, 0, 0, 0) : form == 1 ? old(VFORK, 0, 0, 0, 0, 0) : old(CLONE, SIGCHLD,
            0, 0, 0, 0);
        if (!child) old(EXIT, 7 + form, 0, 0, 0, 0);
        int status = 0;
        waitpid(child, &status, 0);
        printf("child %d\n", WEXITSTATUS(status));
    }
    begin(low + 32768);
    while (!in_the_child || *(volatile int *)(low + 4088)) {}
    printf("thread %d\n", in_the_child);
    uint32_t ignored[] = {1, 0, 0, 0, 0}, was[5];
    memcpy(low + 512, ignored, sizeof ignored);
    printf("sigaction %ld", old(RT_SIGACTION, SIGUSR1, (long)low + 512, 0, 8, 0)), raise(SIGUSR1);
    printf(" %ld", old(RT_SIGACTION, SIGUSR1, 0, (long)low + 600, 8, 0)), memcpy(was, low + 600, sizeof was);
    printf(" %u, signal %ld %ld\n", was[0], old(SIGNAL, SIGUSR2, 1, 0, 0, 0), old(SIGNAL, SIGUSR2, 0, 0, 0, 0));
    *(uint32_t *)(low + 512) = 1 << (SIGTERM - 1);
    printf("sigprocmask %ld", old(SIGPROCMASK, SIG_BLOCK, (long)low + 512, (long)low + 600, 0, 0)), raise(SIGTERM);
    sigset_t mask;
    sigprocmask(SIG_SETMASK, 0, &mask);
    printf(" %d, sigaltstack %ld %u\n", sigismember(&mask, SIGTERM), old(SIGALTSTACK, 0, (long)low + 600, 0, 0, 0),
        *(uint32_t *)(low + 604));
    fflush(stdout);
    strcpy(low + 1024, "/proc/self/exe"), strcpy(low + 1100, "again"), strcpy(low + 1200, "OLD=env");
    uint32_t strings[] = {(uint32_t)(uintptr_t)low + 1024, (uint32_t)(uintptr_t)low + 1100, 0},
        variables[] = {(uint32_t)(uintptr_t)low + 1200, 0};
    memcpy(low + 1300, strings, sizeof strings), memcpy(low + 1400, variables, sizeof variables);
    printf("no exec: %ld\n", old(EXECVE, (long)low + 1024, (long)low + 1300, (long)low + 1400, 0, 0));
}
