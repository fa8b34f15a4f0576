/* Blocks on pages that other blocks have placed. Each block is one thread's.
 *
 *   steps  main allocates blocks for each step, another thread works on them in each
 *   ended  threads come and go, each with blocks of its own, which lie in the arenas of those that have ended
 *   next   main has a block and frees it; what comes in its place is used by three threads
 *
 * Without mallopt, and with MALLOC_MMAP_THRESHOLD_ below BYTES, all blocks but `next`'s are their threads' in memory
 * too. */
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 4
#define BLOCKS 24
#define BYTES (96 << 10)
#define WORDS (BYTES / sizeof(long))
#define LARGE (1 << 21)

static pthread_barrier_t barrier;
static volatile long *blocks[THREADS][BLOCKS];
static long *second;

static void use(volatile long **own)
{
    for (int round = 0; round < 4; round++)
        for (int block = 0; block < BLOCKS; block++)
            for (unsigned i = 0; i < WORDS; i++)
                own[block][i] += i;
}

static void *step(void *number)
{
    for (long turn = 0; turn < 2 * THREADS; turn++) {
        pthread_barrier_wait(&barrier);
        use(blocks[((long)number + turn) % THREADS]);
        pthread_barrier_wait(&barrier);
    }
    return 0;
}

static void *ended(void *unused)
{
    volatile long *own[BLOCKS];
    for (int block = 0; block < BLOCKS; block++)
        own[block] = malloc(BYTES); // EXPECT ended
    use(own);
    for (int block = 0; block < BLOCKS; block++)
        free((void *)own[block]);
    return unused;
}

static void *read_part(void *number)
{
    volatile long *own = second + (long)number * LARGE / 3;
    for (int round = 0; round < 10; round++)
        for (int i = 0; i < LARGE / 3; i++)
            (void)own[i];
    return 0;
}

static void start(pthread_t *threads, int count, void *(*work)(void *))
{
    for (long i = 0; i < count; i++)
        pthread_create(&threads[i], 0, work, (void *)i);
}

static void join(pthread_t *threads, int count)
{
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], 0);
}

static void steps(void)
{
    pthread_t threads[THREADS];
    pthread_barrier_init(&barrier, 0, THREADS + 1);
    start(threads, THREADS, step);
    for (int turn = 0; turn < 2 * THREADS; turn++) {
        for (int i = 0; i < THREADS * BLOCKS; i++)
            blocks[i / BLOCKS][i % BLOCKS] = malloc(BYTES); // EXPECT steps
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
        for (int i = 0; i < THREADS * BLOCKS; i++)
            free((void *)blocks[i / BLOCKS][i % BLOCKS]);
    }
    join(threads, THREADS);
}

int main(int argc, char **argv)
{
    const char *how = argv[argc - 1];
    pthread_t threads[THREADS];
    if (!getenv("MALLOC_MMAP_THRESHOLD_")) {
        mallopt(M_TRIM_THRESHOLD, 1 << 30);
        mallopt(M_MMAP_THRESHOLD, 1 << 30);
    }
    if (!strcmp(how, "steps"))
        steps();
    for (int turn = 0; !strcmp(how, "ended") && turn < 8; turn++) {
        start(threads, THREADS, ended);
        join(threads, THREADS);
    }
    if (!strcmp(how, "next")) {
        volatile long *first = malloc(LARGE * sizeof(long));
        for (int i = 0; i < LARGE; i++)
            first[i] = i;
        free((void *)first);
        second = malloc(LARGE * sizeof(long)); // EXPECT next
        start(threads, 3, read_part);
        join(threads, 3);
    }
}
