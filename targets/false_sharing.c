/* Fault: the counters of several threads lie in the same cache lines.
 *
 * Every thread adds to its own counter, and eight counters share one line. Expected: the update is the top line of
 * `lines`, object `counters` (a global) the top object, one page of it used by all nodes; with --lines the line is
 * shared by all threads, all writing; remedy: align every counter to a line of its own. With FIXED every counter has a
 * page that its thread touches first, which also puts it on the thread's node.
 */
#include "target.h"

#ifdef FIXED
#define STRIDE 512
#else
#define STRIDE 1
#endif
static volatile uint64_t counters[TG_MAX_THREADS * STRIDE] __attribute__((aligned(4096))); // EXPECT object
static int array;

static void work(int slot)
{
    volatile uint64_t *own = &counters[(size_t)(slot - 1) * STRIDE];
#ifdef FIXED
    *own = 1;
#endif
    double start = tg_seconds();
    for (long n = 0; n < tg.rounds; n++)
        *own += (uint64_t)n; // EXPECT remote
    size_t at = (size_t)(slot - 1) * STRIDE * 8;
    tg_accessed(array, slot, at, at + 8, (double)tg.rounds, (double)tg.rounds, tg_seconds() - start, "remote");
}

int main(int argc, char **argv)
{
    tg_start(argc, argv, "false_sharing", 1, 60000000);
    tg_enter(0, 0);
    array = tg_array("counters", (void *)counters, sizeof counters);
#ifndef FIXED
    for (size_t i = 0; i < TG_MAX_THREADS; i++)
        counters[i] = 1; // EXPECT first-touch
    tg_touched(array, 0, 0, sizeof counters, "first-touch");
#endif
    tg_run(work);
    uint64_t total = 0;
    for (int i = 0; i < tg.threads; i++)
        total += counters[(size_t)i * STRIDE];
    printf("false_sharing: %lu\n", (unsigned long)total);
    tg_finish();
    return 0;
}
