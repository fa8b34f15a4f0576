/* Fault: one thread initialises, all use their own block (POSIX threads).
 *
 * The main thread touches the whole array first, so all its pages lie on the main thread's node; then every thread sums
 * its own block. Expected: first-touch names the line below with all of the array's pages; the line of the sum is on
 * top of `lines`, (N-1)/N of its accesses remote on N nodes; pattern: serial initialisation; remedy: initialise in
 * parallel. With FIXED every thread touches its own block first.
 */
#include "target.h"

static uint64_t *data;
static size_t count;
static int array;
static uint64_t *sums;

static void work(int slot)
{
    size_t from = count / (size_t)tg.threads * (size_t)(slot - 1), to = from + count / (size_t)tg.threads;
    uint64_t sum = 0;
#ifdef FIXED
    for (size_t i = from; i < to; i++)
        data[i] = i * i;
    tg_touched(array, slot, from * 8, to * 8, "first-touch");
#endif
    double start = tg_seconds();
    for (long round = 0; round < tg.rounds; round++) {
        for (size_t i = from; i < to; i++)
            sum += data[i]; // EXPECT remote
        TG_BARRIER();
    }
    double reads = (double)tg.rounds * (double)(to - from);
    tg_accessed(array, slot, from * 8, to * 8, reads, 0, tg_seconds() - start, "remote");
    sums[slot - 1] = sum;
}

int main(int argc, char **argv)
{
    tg_start(argc, argv, "serial_init_pthreads", 64, 100);
    tg_enter(0, 0);
    count = tg.bytes / 8;
    data = malloc(tg.bytes); // EXPECT object
    sums = calloc((size_t)tg.threads, 8);
    array = tg_array("data", data, tg.bytes);
#ifndef FIXED
    double start = tg_seconds();
    for (size_t i = 0; i < count; i++)
        data[i] = i * i; // EXPECT first-touch
    tg_accessed(array, 0, 0, tg.bytes, 0, (double)count, tg_seconds() - start, "first-touch");
    tg_touched(array, 0, 0, tg.bytes, "first-touch");
#endif
    tg_run(work);
    uint64_t total = 0;
    for (int i = 0; i < tg.threads; i++)
        total += sums[i];
    printf("serial_init_pthreads: %lu\n", (unsigned long)total);
    tg_finish();
    free(data);
    free(sums);
    return 0;
}
