/* Fault: a table is written once by the main thread, then read by the threads of all nodes.
 *
 * Every thread looks up elements all over the table, in the order of a full-period generator. Expected: object `table`
 * (a global) on top of `objects`, written once and read by all nodes; the look-up is the top line, (N-1)/N of its
 * accesses remote on N nodes; remedy: a replica on every node. No placement of single pages can mend it.
 * After FaceRec, as MemProf found it (Lachaize, Lepers and Quema): one of 193 matrices, written first and then read by
 * all threads, has 98 % of the remote accesses; replicating it made 42 %.
 * With FIXED every thread looks up in a copy that it made itself.
 */
#include "target.h"

#define TABLE_BYTES (64ul << 20)
static uint64_t table[TABLE_BYTES / 8]; // EXPECT object
static size_t mask;
static int array;
static uint64_t *sums;

static void work(int slot)
{
    uint64_t sum = 0, at = (uint64_t)slot * 0x9e3779b97f4a7c15ul;
    const uint64_t *replica = table;
#ifdef FIXED
    uint64_t *copy = malloc((mask + 1) * 8);
    if (!copy)
        tg_die("malloc");
    /* By elements: a string instruction, which some libraries copy by, counts each byte. */
    for (size_t i = 0; i <= mask; i++) {
        copy[i] = table[i];
        __asm__ volatile("");
    }
    replica = copy;
#endif
    double start = tg_seconds();
    for (long n = 0; n < tg.rounds; n++) {
        at = at * 6364136223846793005ul + 1442695040888963407ul;
        sum += replica[(at >> 33) & mask]; // EXPECT remote
    }
    tg_accessed(array, slot, 0, (mask + 1) * 8, (double)tg.rounds, 0, tg_seconds() - start, "remote");
    sums[slot - 1] = sum;
#ifdef FIXED
    free(copy);
#endif
}

int main(int argc, char **argv)
{
    tg_start(argc, argv, "read_mostly_table", 64, 30000000);
    tg_enter(0, 0);
    size_t count = 1;
    while (count * 2 * 8 <= tg.bytes && count * 2 * 8 <= TABLE_BYTES)
        count *= 2;
    mask = count - 1;
    sums = calloc((size_t)tg.threads, 8);
    array = tg_array("table", table, count * 8);
    double start = tg_seconds();
    for (size_t i = 0; i < count; i++)
        table[i] = i * i; // EXPECT first-touch
    tg_accessed(array, 0, 0, count * 8, 0, (double)count, tg_seconds() - start, "first-touch");
    tg_touched(array, 0, 0, count * 8, "first-touch");
    tg_run(work);
    uint64_t total = 0;
    for (int i = 0; i < tg.threads; i++)
        total += sums[i];
    printf("read_mostly_table: %lu\n", (unsigned long)total);
    tg_finish();
    free(sums);
    return 0;
}
