// Call paths that are known by construction: each digit of a path, in base 7, is a step, and at its end a block is
// allocated whose size tells the path (way "blocks"), or the page of a pool is touched whose place tells it (way
// "touches"). Steps are made alike where they may be mistaken for each other: plain_a and plain_b have frames of one
// size and one caller. Way "shown" allocates a few, and prints what the program itself says of its stack: offsets in
// the executable.
#include <alloca.h>
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <execinfo.h>
#include <sys/mman.h>
#ifdef __clang__
#define NI __attribute__((noinline))
#else
#define NI __attribute__((noinline, noclone))
#endif
enum { STEPS = 7, PAGE = 4096, LARGE = 1 << 15 };
static enum { BLOCKS, TOUCHES, SHOWN } way;
static char *pool;
static unsigned left;
static volatile long path_of_signal;
extern char __executable_start;

static NI void next(unsigned path, unsigned rest);

static NI void leaf(unsigned path) {
    if (way == TOUCHES) {
        pool[(size_t)path * PAGE] = 1;
        return;
    }
    char *block = (char *)malloc(LARGE + path * 16);
    asm volatile("" : : "r"(block) : "memory");
    if (way == SHOWN) {
        void *frames[64];
        int count = backtrace(frames, 64);
        printf("%u:", path);
        for (int i = 0; i < count; i++) printf(" %lx", (unsigned long)((char *)frames[i] - &__executable_start));
        puts("");
    }
    free(block);
}
// The same frames, one return address apart.
static NI void plain_a(unsigned path, unsigned rest) {
    next(path, rest);
    asm volatile("nop # a");
}
static NI void plain_b(unsigned path, unsigned rest) {
    next(path, rest);
    asm volatile("nop # b");
}
// The frame's size is not known before.
static NI void with_alloca(unsigned path, unsigned rest) {
    volatile char *room = (volatile char *)alloca(16 + rest % 5 * 16);
    room[0] = 1;
    next(path, rest);
    asm volatile("" : : "r"(room));
}
static NI void with_array(unsigned path, unsigned rest) {
    volatile char room[200];
    room[rest % 200] = 1;
    next(path, rest);
    asm volatile("" : : "r"(room));
}
static NI void recursive(unsigned path, unsigned rest, int depth) {
    if (depth) recursive(path, rest, depth - 1);
    else next(path, rest);
    asm volatile("");
}
// Leaves no frame where the compiler makes it a jump.
static NI void by_tail(unsigned path, unsigned rest) { return next(path, rest); }
struct Last {
    unsigned path, rest;
    NI ~Last() {
        next(path, rest);
        asm volatile("");
    }
};
static NI void thrower() { throw 1; }
static NI void while_unwinding(unsigned path, unsigned rest) {
    try {
        Last last{path, rest};
        thrower();
    } catch (int) {
        asm volatile("");
    }
}
static NI void next(unsigned path, unsigned rest) {
    if (!rest) return leaf(path);
    unsigned digit = rest % STEPS;
    rest /= STEPS;
    switch (digit) {
    case 0: plain_a(path, rest); break;
    case 1: plain_b(path, rest); break;
    case 2: with_alloca(path, rest); break;
    case 3: with_array(path, rest); break;
    case 4: recursive(path, rest, 2); break;
    case 5: by_tail(path, rest); break;
    default: while_unwinding(path, rest);
    }
    asm volatile("");
}
static void on_signal(int) {
    next((unsigned)path_of_signal, (unsigned)path_of_signal);
    asm volatile("");
}
static NI int compare(const void *a, const void *) {
    unsigned path = *(const unsigned *)a;
    if (left++ == 0) next(path, path);
    return 0;
}
// Paths begin in a handler of a signal, in a function that the C library calls, or in main.
static NI void in_signal(unsigned path) {
    path_of_signal = path;
    raise(SIGUSR1);
}
static NI void in_library(unsigned path) {
    unsigned two[2] = {path, path};
    left = 0;
    qsort(two, 2, sizeof *two, compare);
}
int main(int, char **arguments) {
    way = !strcmp(arguments[1], "blocks") ? BLOCKS : !strcmp(arguments[1], "touches") ? TOUCHES : SHOWN;
    unsigned from = (unsigned)atoi(arguments[2]), count = (unsigned)atoi(arguments[3]);
    signal(SIGUSR1, on_signal);
    if (way == TOUCHES) {
        size_t bytes = (size_t)(from + count) * PAGE;
        pool = (char *)mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        madvise(pool, bytes, MADV_NOHUGEPAGE);
        printf("%lx\n", (unsigned long)pool / PAGE);
    }
    for (unsigned path = from; path < from + count; path++) {
        if (path % 16 == 5) in_signal(path);
        else if (path % 16 == 11) in_library(path);
        else next(path, path);
    }
}
