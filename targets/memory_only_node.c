/* Fault: hot memory is bound to a node without CPUs (HBM, CXL, persistent memory).
 *
 * The array is bound (mbind) to the memory-only node, then initialised and used in blocks. Expected: the accesses are
 * of class memory_tier_local (memory_tier_remote where another such node is nearer), the sum is the top line, the pages
 * are homed on the memory-only node and placed by a bound policy; remedy: move to the fast tier. Where the machine has
 * no such node the target says so on stderr and leaves the policy alone.
 * With FIXED it binds nothing, and every thread initialises its block.
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
            sum += data[i]; // EXPECT tier
        TG_BARRIER();
    }
    tg_accessed(array, slot, from * 8, to * 8, (double)tg.rounds * (double)(to - from), 0, tg_seconds() - start, "tier");
    sums[slot - 1] = sum;
}

int main(int argc, char **argv)
{
    tg_start(argc, argv, "memory_only_node", 64, 100);
    tg_enter(0, 0);
    count = tg.bytes / 8;
    data = mmap(NULL, tg.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); // EXPECT object
    if (data == MAP_FAILED)
        tg_die("mmap");
    sums = calloc((size_t)tg.threads, 8);
    array = tg_array("data", data, tg.bytes);
#ifndef FIXED
    if (tg.bare_nodes) {
        unsigned long mask = 1ul << tg.bare_node[0];
        if (syscall(SYS_mbind, data, tg.bytes, MPOL_BIND, &mask, sizeof mask * 8, 0))
            tg_die("mbind");
        tg.array[array].bound = 1;
    } else {
        fprintf(stderr, "memory_only_node: this machine has no node without CPUs\n");
    }
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
    printf("memory_only_node: %lu\n", (unsigned long)total);
    tg_finish();
    munmap(data, tg.bytes);
    free(sums);
    return 0;
}
