/* Between two breakpoints this program walks through the kinds of code that unwinding has to cope with. A test steps
   through it, instruction by instruction, and knows the true stack at each from the calls and returns it saw. */
#include <alloca.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NOINLINE __attribute__((noinline, noclone))

static volatile long sink;

NOINLINE static void leaf(long x) { sink = x * 3; }

NOINLINE static void realigned(size_t size) {
    _Alignas(64) volatile char area[64];
    volatile char *rest = alloca(size);
    area[0] = 1;
    rest[0] = area[0];
    leaf((long)rest);
}

static int compare(const void *a, const void *b) {
    leaf(*(const long *)a);
    return *(const long *)a < *(const long *)b ? -1 : *(const long *)a > *(const long *)b;
}

static void on_signal(int number) { leaf(number); }

NOINLINE static long recurse(long depth) {
    volatile char local[40];
    local[depth % 40] = 1;
    return depth ? recurse(depth - 1) + local[0] : (leaf(depth), 0);
}

NOINLINE static void indirect(void (*callee)(long)) { callee(7); sink++; }

int main(int argc, char **argv) {
    (void)argv;
    char *big = malloc(3000 + argc);
    long values[7] = {5, 3, 9, 1, 2, 8, 4};
    struct timespec now;
    signal(SIGUSR1, on_signal);
    __asm__ volatile("int3");
    memset(big, argc, 3000);
    sink = strlen(strchr("a:bc", ':'));
    realigned(argc + 10);
    qsort(values, 7, sizeof *values, compare);
    sink = recurse(12);
    indirect(leaf);
    clock_gettime(CLOCK_MONOTONIC, &now);
    raise(SIGUSR1);
    free(big);
    __asm__ volatile("int3");
    return 0;
}
