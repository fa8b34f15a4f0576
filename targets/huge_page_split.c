/* Fault: huge pages do not follow the split of the array over threads.
 *
 * The array is split in chunks of 512 KiB, thread after thread, and every thread touches its own chunks first, which
 * would be right with small pages. With huge pages of 2 MiB the first thread's touch places four chunks at once.
 * Threads touch in turn, so it is always the first one that places. Expected with four threads: 3/4 of the accesses
 * remote on 4 nodes (all pages on the first one's), 2 MiB pages in `pages`; remedy: split at 2 MiB, or place by block.
 * With FIXED it is split at 2 MiB.
 * Where the kernel gives no huge pages the target says so on stderr, and every access is local.
 */
#include "target.h"
#include "huge_page.h"

#ifdef FIXED
#define CHUNK HUGE
#else
#define CHUNK (512ul << 10)
#endif

static char *data;
static size_t bytes;
static int array;
static uint64_t *sums;
static int turn;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t next = PTHREAD_COND_INITIALIZER;

static void work(int slot)
{
    size_t me = (size_t)(slot - 1), step = CHUNK * (size_t)tg.threads;
    pthread_mutex_lock(&lock);
    while (turn != slot - 1)
        pthread_cond_wait(&next, &lock);
    for (size_t chunk = me * CHUNK; chunk < bytes; chunk += step) {
        uint64_t *words = (uint64_t *)(data + chunk);
        for (size_t i = 0; i < CHUNK / 8; i++)
            words[i] = chunk / 8 + i; // EXPECT first-touch
    }
    turn++;
    pthread_cond_broadcast(&next);
    while (turn != tg.threads)
        pthread_cond_wait(&next, &lock);
    pthread_mutex_unlock(&lock);

    uint64_t sum = 0;
    double start = tg_seconds(), reads = 0;
    for (long round = 0; round < tg.rounds; round++) {
        for (size_t chunk = me * CHUNK; chunk < bytes; chunk += step) {
            const uint64_t *words = (const uint64_t *)(data + chunk);
            for (size_t i = 0; i < CHUNK / 8; i++)
                sum += words[i]; // EXPECT remote
            reads += CHUNK / 8;
        }
        TG_BARRIER();
    }
    double seconds = tg_seconds() - start;
    size_t chunks = (bytes / CHUNK - me + (size_t)tg.threads - 1) / (size_t)tg.threads;
    int huge = is_huge(data);
    for (size_t chunk = me * CHUNK; chunk < bytes; chunk += step) {
        tg_accessed(array, slot, chunk, chunk + CHUNK, reads / (double)chunks, 0, seconds / (double)chunks, "remote");
        int first = huge ? (int)(chunk % HUGE / CHUNK) == 0 : 1;
        if (first)
            tg_touched(array, slot, chunk, huge ? (chunk + HUGE < bytes ? chunk + HUGE : bytes) : chunk + CHUNK, "first-touch");
    }
    sums[slot - 1] = sum;
}

int main(int argc, char **argv)
{
    tg_start(argc, argv, "huge_page_split", 64, 100);
    prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
    tg_enter(0, 0);
    bytes = (tg.bytes + HUGE - 1) / HUGE * HUGE;
    sums = calloc((size_t)tg.threads, 8);
    data = aligned_alloc(HUGE, bytes); // EXPECT object
    array = tg_array("data", data, bytes);
    if (madvise(data, bytes, MADV_HUGEPAGE))
        fprintf(stderr, "huge_page_split: madvise: %s\n", strerror(errno));
    tg_run(work);
    if (!is_huge(data))
        fprintf(stderr, "huge_page_split: the kernel gave no huge pages\n");
    uint64_t total = 0;
    for (int i = 0; i < tg.threads; i++)
        total += sums[i];
    printf("huge_page_split: %lu\n", (unsigned long)total);
    tg_finish();
    free(data);
    free(sums);
    return 0;
}
