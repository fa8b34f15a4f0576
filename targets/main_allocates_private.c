/* Fault: data private to each thread is allocated and touched by the main thread.
 *
 * Every thread has a buffer of its own, made ready by the main thread. Expected: the update is the top line, (N-1)/N of
 * its accesses remote on N nodes; each buffer is used by threads of one node only and homed on the main thread's;
 * remedy: allocate and touch it in the thread that uses it. With FIXED it does.
 * After Psearchy, as MemProf found it (Lachaize, Lepers and Quema): remote accesses to private variables; local
 * allocation made 8.2 %. */
#include "target.h"

static uint64_t *buffer[TG_MAX_THREADS];
static int array[TG_MAX_THREADS];
static size_t count;
static uint64_t *sums;

/* Makes the buffer of thread number `t` ready. */
static void make(int t)
{
    buffer[t] = malloc(count * 8); // EXPECT object
    if (!buffer[t])
        tg_die("malloc");
    for (size_t i = 0; i < count; i++)
        buffer[t][i] = i * (size_t)(t + 1); // EXPECT first-touch
}

static void work(int slot)
{
#ifdef FIXED
    make(slot - 1);
#endif
    uint64_t *own = buffer[slot - 1];
    double start = tg_seconds();
    for (long round = 0; round < tg.rounds; round++) {
        for (size_t i = 0; i < count; i++)
            own[i] = own[i] * 3 + 1; // EXPECT remote
        TG_BARRIER();
    }
    double accesses = (double)tg.rounds * (double)count;
    if (array[slot - 1] >= 0)
        tg_accessed(array[slot - 1], slot, 0, count * 8, accesses, accesses, tg_seconds() - start, "remote");
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i += 512)
        sum += own[i];
    sums[slot - 1] = sum;
}

int main(int argc, char **argv)
{
    tg_start(argc, argv, "main_allocates_private", 64, 100);
    tg_enter(0, 0);
    count = tg.bytes / 8 / (size_t)tg.threads;
    sums = calloc((size_t)tg.threads, 8);
    for (int t = 0; t < tg.threads; t++) {
        array[t] = -1;
#ifndef FIXED
        double start = tg_seconds();
        make(t);
        if (t >= TG_MAX_ARRAYS)
            continue;
        static const char *const names[] = { "buffer0", "buffer1", "buffer2", "buffer3", "buffer4", "buffer5", "buffer6", "buffer7" };
        array[t] = tg_array(t < 8 ? names[t] : "buffer", buffer[t], count * 8);
        tg_accessed(array[t], 0, 0, count * 8, 0, (double)count, tg_seconds() - start, "first-touch");
        tg_touched(array[t], 0, 0, count * 8, "first-touch");
#endif
    }
    tg_run(work);
    uint64_t total = 0;
    for (int i = 0; i < tg.threads; i++)
        total += sums[i];
    printf("main_allocates_private: %lu\n", (unsigned long)total);
    tg_finish();
    for (int t = 0; t < tg.threads; t++)
        free(buffer[t]);
    free(sums);
    return 0;
}
