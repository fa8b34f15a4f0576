/* Memory that all threads use at random, while it is replaced, given up, handed to a child and moved: regions THREADS
   UPDATES. One thread places it, so that it is the same each time where it is. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORDS = 1 << 21 };
static long threads, updates;
static volatile uint64_t *array;
static int reads;

static void *work(void *argument) {
    uint64_t random = (uintptr_t)argument * 0x9e3779b97f4a7c15ull + 1, sum = 0;
    for (long update = 0; update < updates; update++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        if (reads)
            sum += array[random % WORDS];
        else
            array[random % WORDS] += random;
    }
    return (void *)sum;
}

static void all(void) {
    pthread_t started[64];
    for (long thread = 0; thread < threads; thread++) pthread_create(started + thread, 0, work, (void *)(thread + 1));
    for (long thread = 0; thread < threads; thread++) pthread_join(started[thread], 0);
}

int main(int count, char **arguments) {
    if (count < 3) return 1;
    threads = atol(arguments[1]), updates = atol(arguments[2]);
    array = malloc(WORDS * sizeof *array);
    memset((void *)array, 1, WORDS * sizeof *array);
    all(), all();
    free((void *)array);
    /* At the same place, mostly. */
    array = malloc(WORDS * sizeof *array);
    memset((void *)array, 1, WORDS * sizeof *array);
    all();
    /* Half of it goes and comes again. */
    madvise((void *)(((uintptr_t)array + 4095) & ~4095ul), WORDS * 4, MADV_DONTNEED);
    memset((void *)array, 1, WORDS * sizeof *array);
    all();
    fflush(stdout);
    if (!fork()) {
        reads = 1;
        all();
        _exit(0);
    }
    int status;
    wait(&status);
    /* Mapped, and moved elsewhere. */
    array = mmap(0, WORDS * sizeof *array, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset((void *)array, 1, WORDS * sizeof *array);
    all();
    array = mremap((void *)array, WORDS * sizeof *array, 2 * WORDS * sizeof *array, MREMAP_MAYMOVE);
    all();
    printf("%d\n", status);
}
