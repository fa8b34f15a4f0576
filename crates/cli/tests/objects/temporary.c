// Blocks that live for a moment, one after the other in the same memory, each of whole pages: in loops, lent to another
// thread, growing where they are or not at all, handed out by an allocator of the program's own; small blocks lie there
// in between, and children are forked. Argument: rounds. Writes how often each was read and written.
#include "numalens.h"
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, BYTES = 64 * PAGE, LONGS = BYTES / 8, SMALLS = 200 };

static pthread_barrier_t lends, returns;
static volatile long *lent;
static long rounds;
static volatile size_t too_much = (size_t)1 << 60;

static __attribute__((noinline)) void write_all(volatile long *block, long longs) {
    for (long i = 0; i < longs; i++) block[i] = i;
}

static __attribute__((noinline)) long read_all(volatile long *block, long longs) {
    long sum = 0;
    for (long i = 0; i < longs; i++) sum += block[i];
    return sum;
}

// Whose memory the next block has: nobody's that is told.
static __attribute__((noinline)) void use_small_ones(void) {
    char *blocks[SMALLS];
    for (int i = 0; i < SMALLS; i++) {
        blocks[i] = (char *)malloc(500);
        for (int byte = 0; byte < 500; byte++) ((volatile char *)blocks[i])[byte] = 1;
    }
    for (int i = 0; i < SMALLS; i++) free(blocks[i]);
}

static void *borrow(void *unused) {
    for (long round = 0; round < rounds; round++) {
        pthread_barrier_wait(&lends);
        read_all(lent, LONGS);
        // Stays on its last page, with what it has counted there.
        pthread_barrier_wait(&returns);
    }
    return unused;
}

int main(int count, char **arguments) {
    (void)count;
    rounds = atol(arguments[1]);
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    free(malloc(64 << 20));
    pthread_t borrower;
    pthread_barrier_init(&lends, NULL, 2);
    pthread_barrier_init(&returns, NULL, 2);
    pthread_create(&borrower, NULL, borrow, NULL);
    char *pool = (char *)aligned_alloc(PAGE, 2 * BYTES);  // EXPECT pool
    for (long round = 0; round < rounds; round++) {
        volatile long *block = (long *)aligned_alloc(PAGE, BYTES);  // EXPECT first
        write_all(block, LONGS);
        for (int time = 0; time < 3; time++) read_all(block, LONGS);
        free((void *)block);
        use_small_ones();
        block = (long *)aligned_alloc(PAGE, BYTES);  // EXPECT second
        write_all(block, LONGS);
        free((void *)block);
        lent = (long *)aligned_alloc(PAGE, BYTES);  // EXPECT borrowed
        pthread_barrier_wait(&lends);
        pthread_barrier_wait(&returns);
        free((void *)lent);
        use_small_ones();
        block = (long *)aligned_alloc(PAGE, BYTES / 2);  // EXPECT short
        write_all(block, LONGS / 2);
        long *there = (long *)block;
        block = (long *)realloc(there, BYTES);  // EXPECT long
        if (block != there) return 1;
        read_all(block, LONGS);
        free((void *)block);
        block = (long *)aligned_alloc(PAGE, BYTES);  // EXPECT stays
        write_all(block, LONGS);
        if (round % 2 ? realloc((void *)block, too_much) : reallocarray((void *)block, too_much, 16)) return 1;
        read_all(block, LONGS);
        free((void *)block);
        numalens_alloc(pool + PAGE, BYTES);  // EXPECT told
        write_all((long *)(pool + PAGE), LONGS);
        numalens_free(pool + PAGE);
        read_all((long *)(pool + PAGE), LONGS);
        if (round % 4 == 0) {
            pid_t child = fork();
            if (child == 0) {
                free(malloc(BYTES));
                _exit(0);
            }
            waitpid(child, NULL, 0);
        }
    }
    pthread_join(borrower, NULL);
    printf("first %ld %ld\nsecond 0 %ld\nborrowed %ld 0\nshort 0 %ld\nlong %ld 0\nstays %ld %ld\ntold 0 %ld\npool %ld 0\n", 3 * rounds * LONGS, rounds * LONGS, rounds * LONGS,
           rounds * LONGS, rounds * LONGS / 2, rounds * LONGS, rounds * LONGS, rounds * LONGS, rounds * LONGS, rounds * LONGS);
}
