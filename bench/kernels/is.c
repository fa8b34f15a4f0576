// Sorting of integers by counting, OpenMP, after NPB's IS: a histogram of each thread, and scattered stores.
// Verifies itself: the keys come out in order.
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEYS = 1 << 22, RANGE = 1 << 16, MOST_THREADS = 256 };

int main(int argc, char **argv) {
    int passes = argc > 1 ? atoi(argv[1]) : 1;
    uint32_t *keys = malloc(sizeof *keys * KEYS), *sorted = malloc(sizeof *keys * KEYS);
    uint32_t *counts[MOST_THREADS] = {0};
    if (!keys || !sorted || omp_get_max_threads() > MOST_THREADS) return 1;
    uint64_t random = 88172645463325252u;
    for (int i = 0; i < KEYS; i++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        keys[i] = (uint32_t)((random & 0xffff) + (random >> 16 & 0xffff)) / 2;
    }
    for (int pass = 0; pass < passes; pass++) {
        keys[pass % KEYS] = (uint32_t)pass % RANGE;
#pragma omp parallel
        {
            int me = omp_get_thread_num(), threads = omp_get_num_threads();
            size_t from = (size_t)KEYS * me / threads, to = (size_t)KEYS * (me + 1) / threads;
            if (!counts[me]) counts[me] = malloc(sizeof(uint32_t) * RANGE);
            uint32_t *mine = counts[me];
            memset(mine, 0, sizeof(uint32_t) * RANGE);
            for (size_t i = from; i < to; i++) mine[keys[i]]++;
#pragma omp barrier
#pragma omp single
            {
                uint32_t before = 0;
                for (int key = 0; key < RANGE; key++)
                    for (int thread = 0; thread < threads; thread++) {
                        uint32_t count = counts[thread][key];
                        counts[thread][key] = before;
                        before += count;
                    }
            }
            for (size_t i = from; i < to; i++) sorted[mine[keys[i]]++] = keys[i];
        }
    }
    int in_order = 1;
    for (int i = 1; i < KEYS; i++) in_order &= sorted[i - 1] <= sorted[i];
    printf("keys %s\n", in_order ? "in order" : "OUT OF ORDER");
    return in_order ? 0 : 2;
}
