// Blocks of whole pages that move between their accesses: to another address, to other nodes; or that are given up.
// Writes how often each was written.
#include "numalens.h"
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 32, BYTES = PAGES * PAGE, LONGS = BYTES / 8, ROUNDS = 10, MOVE = 2 };

static __attribute__((noinline)) void use(volatile long *block, int times) {
    for (int time = 0; time < times; time++)
        for (long i = 0; i < LONGS; i++) block[i] = i;
}

static void move_to(char *block, int node) {
    void *pages[PAGES];
    int nodes[PAGES], status[PAGES];
    for (int i = 0; i < PAGES; i++) {
        pages[i] = block + i * PAGE;
        nodes[i] = node;
    }
    syscall(SYS_move_pages, 0, PAGES, pages, nodes, status, MOVE);
}

int main(void) {
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    for (int round = 0; round < ROUNDS; round++) {
        char *pool = (char *)mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        numalens_alloc(pool, BYTES);  // EXPECT before
        use((long *)pool, 3);
        numalens_free(pool);
        char *moved = (char *)mremap(pool, BYTES, 2 * BYTES, MREMAP_MAYMOVE);
        numalens_alloc(moved, BYTES);  // EXPECT after
        use((long *)moved, 2);
        numalens_free(moved);
        munmap(moved, 2 * BYTES);
        char *block = (char *)aligned_alloc(PAGE, BYTES);  // EXPECT here
        use((long *)block, 4);
        free(block);
        move_to(block, 1 + round % 3);
        block = (char *)aligned_alloc(PAGE, BYTES);  // EXPECT there
        use((long *)block, 5);
        move_to(block, 0);
        use((long *)block, 1);
        free(block);
        block = (char *)aligned_alloc(PAGE, BYTES);  // EXPECT fresh
        madvise(block, BYTES, MADV_DONTNEED);
        use((long *)block, 1);
        free(block);
        madvise(block, BYTES, MADV_DONTNEED);
    }
    long once = (long)ROUNDS * LONGS;
    printf("before %ld\nafter %ld\nhere %ld\nthere %ld\nfresh %ld\n", 3 * once, 2 * once, 4 * once, 6 * once, once);
}
