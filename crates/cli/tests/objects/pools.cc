// Small blocks of an allocator of the program's own, two to 64 bytes: in memory that goes with all of them, that moves,
// and that is read before it is written.
#include "numalens.h"
#include <cstdlib>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAIRS = 3000, STEP = 64, POOL = 1 << 20 };

__attribute__((noinline)) static void writes(char *at, int count) {
    for (int i = 0; i < count; i++) ((volatile long *)at)[i] = i;
}
__attribute__((noinline)) static void reads(char *at, int count) {
    for (int i = 0; i < count; i++) (void)((volatile long *)at)[i];
}
#define MAP() (char *)mmap(0, POOL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
#define PAIR(pool, pair) (pool + pair * STEP)
#define EACH for (int pair = 0; pair < PAIRS; pair++)

int main() {
    char *freed = (char *)malloc(POOL); // EXPECT freed
    EACH numalens_alloc(PAIR(freed, pair), 24); // EXPECT freed one
    EACH numalens_alloc(PAIR(freed, pair) + 32, 32); // EXPECT freed other
    EACH writes(PAIR(freed, pair), 3);
    EACH writes(PAIR(freed, pair) + 32, 4);
    EACH if (pair % 2) numalens_free(PAIR(freed, pair));
    EACH if (pair % 2) reads(PAIR(freed, pair), 3);
    free(freed);

    char *unmapped = MAP(); // EXPECT unmapped
    EACH numalens_alloc(PAIR(unmapped, pair), 32); // EXPECT unmapped one
    EACH writes(PAIR(unmapped, pair), 2);
    EACH reads(PAIR(unmapped, pair) + 32, 4);
    munmap(unmapped, POOL);

    char *moved = MAP(); // EXPECT moved
    unsigned long node = 2;
    EACH numalens_alloc(PAIR(moved, pair), 32); // EXPECT moved one
    EACH numalens_alloc(PAIR(moved, pair) + 32, 32); // EXPECT moved other
    EACH writes(PAIR(moved, pair), 3);
    EACH writes(PAIR(moved, pair) + 32, 1);
    if (syscall(SYS_mbind, moved, POOL, 2 /* MPOL_BIND */, &node, 64ul, 2 /* MPOL_MF_MOVE */)) return 1;
    EACH writes(PAIR(moved, pair), 4);
    EACH writes(PAIR(moved, pair) + 32, 2);
    EACH numalens_free(PAIR(moved, pair));
    EACH numalens_free(PAIR(moved, pair) + 32);

    char *read = MAP(); // EXPECT read
    EACH numalens_alloc(PAIR(read, pair), 32); // EXPECT read one
    EACH numalens_alloc(PAIR(read, pair) + 32, 32); // EXPECT read other
    EACH reads(PAIR(read, pair), 3);
    EACH reads(PAIR(read, pair) + 32, 2);
    EACH writes(PAIR(read, pair), 1);
    EACH writes(PAIR(read, pair) + 32, 4);
    EACH numalens_free(PAIR(read, pair));
    return 0;
}
