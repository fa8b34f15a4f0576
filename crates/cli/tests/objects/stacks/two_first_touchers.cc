// Two callers (told apart by a comment, or the compiler makes them one) with one stack pointer, saved registers and
// return address: 64 pages are touched by first, 576 by second.
#include <cstdio>
#include <cstdlib>
#define NI __attribute__((noinline))
static char *pool;
static size_t at;
NI static void touch() {
    for (int i = 0; i < 64; i++) {
        pool[at] = 1;
        at += 4096;
    }
}
NI static void middle() {
    touch();
    asm volatile("");
}
NI static void first() {
    middle();
    asm volatile("# first");
}
NI static void second() {
    middle();
    asm volatile("# second");
}
NI static void both() {
    first();
    for (int i = 0; i < 9; i++) second();
    asm volatile("");
}
int main() {
    pool = (char *)aligned_alloc(4096, 64 << 20);
    both();
    printf("%d\n", pool[0]);
}
