// A child that is stopped before it has run. Meanwhile its parent has another block where the child's memory has
// nothing yet.
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, LONGS = PAGE / (int)sizeof(long), SMALL = 30, LARGE = 200, BLOCKS = 1000 };

static __attribute__((noinline)) void writes(volatile long *block, int pages) {
    for (int i = 0; i < pages * LONGS; i++) block[i] = i;
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

int main(void) {
    // All blocks come from one heap, one behind the other.
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    mallopt(M_TOP_PAD, 4 << 20);
    long *before = (long *)aligned_alloc(PAGE, SMALL * PAGE);  // EXPECT before
    writes(before, SMALL);
    pid_t child = fork();
    if (child == 0) {
        // Of most small blocks nothing is told.
        for (int i = 0; i < BLOCKS; i++) *(volatile long *)malloc(300) = i;
        _exit(0);
    }
    kill(child, SIGSTOP);
    free(before);
    long *meanwhile = (long *)aligned_alloc(PAGE, LARGE * PAGE);  // EXPECT meanwhile
    long rounds = 0;
    // For longer than it takes until what was counted is read.
    for (double begin = seconds(); seconds() < begin + 0.3; rounds++) writes(meanwhile, LARGE);
    kill(child, SIGCONT);
    waitpid(child, 0, 0);
    printf("before %d\nmeanwhile %ld\n", SMALL * LONGS, rounds * LARGE * LONGS);
    return before == meanwhile ? 0 : 1;
}
