/* Fault: hash tables of lists, hit irregularly by all threads, lie on the node of the thread that filled them.
 *
 * The main thread samples vectors and hangs each into a bucket of every table; then every thread hashes vectors of its
 * own, walks the bucket that each table has for them and reduces the candidates that it finds, wherever those are. Its
 * own vectors are in a pool that it touched itself. After HashSieve (Mariano, Diener, Bischof and Navaux, "Analyzing
 * and improving memory access patterns of large irregular applications on NUMA machines"): communication between all
 * pairs of threads alike, most pages on one node (92 % there) with many accesses from everywhere, mean exclusivity low
 * (62 % there, where other programs have 80). Expected: the candidate's line on top, (N-1)/N of its accesses remote on
 * N nodes, about half of all accesses to the main thread's node; no placement of pages by their main user makes much of
 * it local, and no placement of threads; remedy: interleave.
 * With FIXED threads touch the vectors' pages in turn, which interleaves them over their nodes, on a virtual machine
 * too, and each has a copy of the buckets' heads, which are only read from then on. */
#include "target.h"

#define TABLES 8
#define WORDS 54 /* coordinates of a vector: with what else it has, 512 bytes, eight to a page */
#define STATE 5
#define CANDIDATES 4 /* looked at in a bucket */

struct vector {
    uint64_t number;
    uint32_t next[TABLES]; /* the bucket's next, by table; 0: none */
    uint64_t coordinate[WORDS];
    uint64_t state[STATE]; /* what reductions did to it */
};

static struct vector *vectors; /* number 0 is no vector */
static uint32_t *bucket[TABLES];
static size_t count, mask;
static int array, own_array;
static uint64_t *sums, *own_pools;
#ifdef FIXED
static pthread_barrier_t touched;
#endif

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ul;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebul;
    return x ^ (x >> 31);
}

static void sample(size_t v)
{
    struct vector *vector = &vectors[v];
    for (size_t i = 0; i < sizeof *vector / 8; i++)
        ((volatile uint64_t *)vector)[i] = !i ? v : i < 5 || i >= 5 + WORDS ? 0 : mix(v * 64 + i); // EXPECT first-touch
}

/* Hangs every vector into a bucket of each table. */
static void hang(void)
{
    for (size_t v = 1; v < count; v++)
        for (int t = 0; t < TABLES; t++) {
            uint32_t *head = &bucket[t][mix(v * TABLES + (size_t)t) & mask];
            vectors[v].next[t] = *head;
            *head = (uint32_t)v;
        }
}

/* How far a candidate is from what hashed to it: reads all of it. */
__attribute__((noinline)) static uint64_t distance(const struct vector *candidate, uint64_t key)
{
    uint64_t sum = 0;
    for (int i = 0; i < WORDS; i++)
        sum += *(const volatile uint64_t *)&candidate->coordinate[i] * key; // EXPECT remote
    return sum;
}

/* The thread's own vector after a reduction. */
__attribute__((noinline)) static void reduce(uint64_t *own, uint64_t by)
{
    for (int i = 0; i < WORDS / 2; i++)
        *(volatile uint64_t *)&own[i] += by; // EXPECT own
}

static void work(int slot)
{
    size_t pool = (size_t)64 * TG_PAGE / 8;
    uint64_t *own = own_pools + (size_t)(slot - 1) * pool, sum = 0;
    uint32_t *heads[TABLES];
    memcpy(heads, bucket, sizeof heads);
#ifdef FIXED
    for (size_t v = 0; v < count; v++)
        if ((int)(v / 8 % (size_t)tg.threads) == slot - 1)
            sample(v);
    pthread_barrier_wait(&touched);
    if (slot == 1)
        hang();
    pthread_barrier_wait(&touched);
    for (int t = 0; t < TABLES; t++) {
        heads[t] = malloc((mask + 1) * 4);
        memcpy(heads[t], bucket[t], (mask + 1) * 4);
    }
#endif
    for (size_t i = 0; i < pool; i++)
        ((volatile uint64_t *)own)[i] = i; // EXPECT pool
    tg_touched(own_array, slot, (size_t)(slot - 1) * pool * 8, (size_t)slot * pool * 8, "pool");
    uint64_t seen = 0;
    double start = tg_seconds();
    for (long n = 0; n < tg.rounds; n++) {
        uint64_t key = mix((uint64_t)slot << 32 | (uint64_t)n);
        for (int t = 0; t < TABLES; t++) {
            uint32_t at = heads[t][mix(key + (uint64_t)t) & mask];
            for (int c = 0; at && c < CANDIDATES; c++) {
                struct vector *candidate = &vectors[at];
                uint64_t far = distance(candidate, key | 1);
                reduce(own + key % (pool / 64) * 64, far);
                for (int i = 0; i < STATE; i++)
                    __atomic_fetch_add(&candidate->state[i], far >> i & 3, __ATOMIC_RELAXED);
                sum += far;
                seen++;
                at = candidate->next[t];
            }
        }
    }
    double seconds = tg_seconds() - start, reads = (double)seen * WORDS;
    tg_accessed(array, slot, 0, count * sizeof *vectors, reads, 0, seconds, "remote");
    sums[slot - 1] = sum;
#ifdef FIXED
    for (int t = 0; t < TABLES; t++)
        free(heads[t]);
#endif
}

int main(int argc, char **argv)
{
    tg_start(argc, argv, "hash_sieve", 32, 100000);
    tg_enter(0, 0);
    count = tg.bytes / sizeof *vectors;
    for (mask = 1; mask * 4 <= count; mask *= 2)
        ;
    mask--; /* two to four vectors to a bucket */
    vectors = aligned_alloc(TG_PAGE, count * sizeof *vectors); // EXPECT object
    array = tg_array("vectors", vectors, count * sizeof *vectors);
    size_t pools = (size_t)tg.threads * 64 * TG_PAGE;
    own_pools = aligned_alloc(TG_PAGE, pools);
    own_array = tg_array("pools", own_pools, pools);
    sums = calloc((size_t)tg.threads, 8);
    for (int t = 0; t < TABLES; t++)
        bucket[t] = calloc(mask + 1, 4);
#ifdef FIXED
    pthread_barrier_init(&touched, NULL, (unsigned)tg.threads);
#else
    for (size_t v = 0; v < count; v++)
        sample(v);
    hang();
    tg_touched(array, 0, 0, count * sizeof *vectors, "first-touch");
#endif
    tg_run(work);
    uint64_t total = 0;
    for (int i = 0; i < tg.threads; i++)
        total += sums[i];
    for (size_t v = 0; v < count; v++)
        for (int i = 0; i < STATE; i++)
            total += vectors[v].state[i];
    printf("hash_sieve: %lu\n", (unsigned long)total);
    tg_finish();
    for (int t = 0; t < TABLES; t++)
        free(bucket[t]);
    free(vectors);
    free(own_pools);
    free(sums);
    return 0;
}
