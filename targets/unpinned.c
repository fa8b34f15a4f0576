/* Fault: threads are not bound to nodes.
 *
 * Every thread touches its own block first and uses it alone, which would be right; but nothing binds the threads
 * (--pin is refused), so the kernel may move them away from their pages. Expected: every access is of class
 * unpinned_both, every first touch unpinned; `threads` shows none with a node; remedy: pin threads. On a virtual
 * machine record it with --placement none. With FIXED it pins its threads.
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
    double start = tg_seconds();
    for (size_t i = from; i < to; i++)
        data[i] = i * i; // EXPECT first-touch
    tg_accessed(array, slot, from * 8, to * 8, 0, (double)(to - from), tg_seconds() - start, "first-touch");
    tg_touched(array, slot, from * 8, to * 8, "first-touch");
    start = tg_seconds();
    for (long round = 0; round < tg.rounds; round++) {
        for (size_t i = from; i < to; i++)
            sum += data[i]; // EXPECT unpinned
        TG_BARRIER();
    }
    tg_accessed(array, slot, from * 8, to * 8, (double)tg.rounds * (double)(to - from), 0, tg_seconds() - start, "unpinned");
    sums[slot - 1] = sum;
}

int main(int argc, char **argv)
{
    tg_start(argc, argv, "unpinned", 64, 100);
    if (tg.pin) {
        fprintf(stderr, "unpinned: --pin would mend the fault that this program is about\n");
        return 2;
    }
#ifdef FIXED
    tg.pin = 1;
#endif
    tg_enter(0, 0);
    count = tg.bytes / 8;
    data = malloc(tg.bytes); // EXPECT object
    sums = calloc((size_t)tg.threads, 8);
    array = tg_array("data", data, tg.bytes);
    tg_run(work);
    uint64_t total = 0;
    for (int i = 0; i < tg.threads; i++)
        total += sums[i];
    printf("unpinned: %lu\n", (unsigned long)total);
    tg_finish();
    free(data);
    free(sums);
    return 0;
}
