/* Fault: an array is read and written by all threads at the same time, and lies on one node.
 *
 * The main thread touches the array first; then every thread adds to elements all over it. Expected: the update is the
 * top line, (N-1)/N of its accesses remote on N nodes, reads and writes alike; every page used by every node; pattern:
 * read and written by several nodes at the same time; remedy: interleave.
 * After Streamcluster, as MemProf found it (Lachaize, Lepers and Quema): one of 1000 objects, read and written by all
 * threads, has 80 % of the remote accesses; interleaving it made 161 %.
 * With FIXED the threads touch pages in turn, which interleaves them over the threads' nodes, on a virtual machine too.
 */
#include "target.h"

static uint64_t *data;
static size_t mask;
static int array;
#ifdef FIXED
static pthread_barrier_t touched;
#endif

static void work(int slot)
{
    uint64_t *const shared = data; /* these stay in registers: the array is all that the loop touches */
    const size_t all = mask;
    const long rounds = tg.rounds;
#ifdef FIXED
    for (size_t page = (size_t)(slot - 1); page * 512 <= all; page += (size_t)tg.threads)
        for (size_t i = page * 512; i < page * 512 + 512 && i <= all; i++)
            shared[i] = i;
    pthread_barrier_wait(&touched);
#endif
    uint64_t at = (uint64_t)slot * 0x9e3779b97f4a7c15ul;
    double start = tg_seconds();
    for (long n = 0; n < rounds; n++) {
        at = at * 6364136223846793005ul + 1442695040888963407ul;
        __atomic_fetch_add(&shared[(at >> 33) & all], at >> 40, __ATOMIC_RELAXED); // EXPECT remote
    }
    tg_accessed(array, slot, 0, (mask + 1) * 8, (double)tg.rounds, (double)tg.rounds, tg_seconds() - start, "remote");
}

int main(int argc, char **argv)
{
    tg_start(argc, argv, "shared_read_write", 64, 10000000);
    tg_enter(0, 0);
    size_t count = 1;
    while (count * 2 * 8 <= tg.bytes)
        count *= 2;
    mask = count - 1;
#ifdef FIXED
    data = aligned_alloc(TG_PAGE, count * 8); /* threads take turns page by page */
#else
    data = malloc(count * 8); // EXPECT object
#endif
    array = tg_array("data", data, count * 8);
#ifndef FIXED
    double start = tg_seconds();
    for (size_t i = 0; i < count; i++)
        data[i] = i; // EXPECT first-touch
    tg_accessed(array, 0, 0, count * 8, 0, (double)count, tg_seconds() - start, "first-touch");
    tg_touched(array, 0, 0, count * 8, "first-touch");
#else
    pthread_barrier_init(&touched, NULL, (unsigned)tg.threads);
#endif
    tg_run(work);
    uint64_t total = 0;
    for (size_t i = 0; i < count; i++)
        total += data[i];
    printf("shared_read_write: %lu\n", (unsigned long)total);
    tg_finish();
    free(data);
    return 0;
}
