// Updates of random words of an array by all threads: each thread comes to each page. What a recording keeps for a
// thread and page counts, and what remains when the program has ended. random_pages MIB THREADS UPDATES
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t *array;
static uint64_t words, updates;

static void *update(void *argument) {
    uint64_t x = ((uintptr_t)argument + 1) * 0x9e3779b97f4a7c15u;
    for (uint64_t i = 0; i < updates; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        array[x % words] += x;
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    words = strtoull(argv[1], 0, 10) << 17, updates = strtoull(argv[3], 0, 10);
    long threads = atol(argv[2]);
    pthread_t *started = calloc(threads, sizeof *started);
    array = malloc(words * sizeof *array);
    if (!array || !started) return 1;
    for (uint64_t i = 0; i < words; i += 512) array[i] = i;
    for (long i = 0; i < threads; i++)
        if (pthread_create(started + i, 0, update, (void *)i)) return 1;
    for (long i = 0; i < threads; i++) pthread_join(started[i], 0);
    printf("%lu\n", array[words / 3]);
}
