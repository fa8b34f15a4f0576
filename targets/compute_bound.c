/* No fault: what the threads do is computing, and what they share is in everybody's cache.
 *
 * The main thread writes a table of 16 KiB, which the threads of all nodes then look up between many steps in
 * registers. Most accesses are remote by where the page lies, and none of them leaves a cache. Expected: no finding.
 */
#include "target.h"

#define ENTRIES 2048

static uint64_t *table, *sums;
static int array;

static void work(int slot)
{
    uint64_t sum = 0, x = (uint64_t)slot;
    double start = tg_seconds();
    for (long n = 0; n < tg.rounds; n++) {
        for (int step = 0; step < 20; step++) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
        }
        sum += table[x % ENTRIES];
    }
    tg_accessed(array, slot, 0, ENTRIES * 8, (double)tg.rounds, 0, tg_seconds() - start, "look-up");
    sums[slot - 1] = sum;
}

int main(int argc, char **argv)
{
    tg_start(argc, argv, "compute_bound", 1, 10000000);
    tg_enter(0, 0);
    table = aligned_alloc(TG_PAGE, ENTRIES * 8);
    sums = calloc((size_t)tg.threads, 8);
    array = tg_array("table", table, ENTRIES * 8);
    for (uint64_t i = 0; i < ENTRIES; i++)
        table[i] = i * i;
    tg_run(work);
    uint64_t total = 0;
    for (int i = 0; i < tg.threads; i++)
        total += sums[i];
    printf("compute_bound: %lu\n", (unsigned long)total);
    tg_finish();
    free(table);
    free(sums);
    return 0;
}
