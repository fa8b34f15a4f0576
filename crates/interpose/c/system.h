/* What the interposer needs of the kernel, without the target's libc: nothing here touches errno. */
#ifndef NUMALENS_SYSTEM_H
#define NUMALENS_SYSTEM_H

#include <stddef.h>
#include <stdint.h>

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define EXPORT __attribute__((visibility("default")))
#define COLD __attribute__((noinline, cold))

enum {
    SYS_READ = 0, SYS_OPEN = 2, SYS_CLOSE = 3, SYS_FSTAT = 5, SYS_MMAP = 9, SYS_MPROTECT = 10, SYS_MUNMAP = 11, SYS_MREMAP = 25,
    SYS_MADVISE = 28, SYS_NANOSLEEP = 35, SYS_GETPID = 39, SYS_KILL = 62, SYS_GETRLIMIT = 97, SYS_GETEUID = 107, SYS_GETPPID = 110,
    SYS_PRCTL = 157, SYS_GETTID = 186, SYS_FUTEX = 202, SYS_SCHED_SETAFFINITY = 203, SYS_SCHED_GETAFFINITY = 204,
    SYS_CLOCK_GETTIME = 228, SYS_EXIT_GROUP = 231, SYS_MBIND = 237, SYS_SET_MEMPOLICY = 238, SYS_MIGRATE_PAGES = 256,
    SYS_MOVE_PAGES = 279, SYS_PKEY_MPROTECT = 329,
};

static inline long sys6(long n, long a, long b, long c, long d, long e, long f) {
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall" : "=a"(result)
                     : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
    return result;
}
#define sys3(n, a, b, c) sys6((n), (long)(a), (long)(b), (long)(c), 0, 0, 0)

struct timespec64 { int64_t seconds, nanoseconds; };

/* What identifies a file, and its owner. */
struct file_identity { uint64_t device, inode; uint32_t owner; };
static inline int file_identity(const char *path, struct file_identity *found) {
    long fd = sys3(SYS_OPEN, path, 02000000 /* O_CLOEXEC, read only */, 0);
    if (fd < 0) return 0;
    uint64_t status[18] = {0};
    long result = sys3(SYS_FSTAT, fd, status, 0);
    sys3(SYS_CLOSE, fd, 0, 0);
    found->device = status[0];
    found->inode = status[1];
    found->owner = (uint32_t)(status[3] >> 32); /* struct stat: device, inode, links, mode and owner */
    return result == 0;
}

static inline size_t length(const char *text) {
    size_t n = 0;
    while (text[n]) n++;
    return n;
}

static inline int begins(const char *text, const char *start) {
    while (*start)
        if (*text++ != *start++) return 0;
    return 1;
}

#endif
