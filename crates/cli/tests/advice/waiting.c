/* Four threads read a table that the main thread has made, each its part of it, or with an argument all of it at
 * random, and wait for each other: in a loop that reads one word, and at a mutex. Most accesses are of the loop. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, ROUNDS = 20, ELEMENTS = 1 << 20 };

static double *table;
static double sums[THREADS][16];
static int at_random;
static volatile int arrived, round_done;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void barrier(int round)
{
    if (__sync_add_and_fetch(&arrived, 1) == THREADS * (round + 1))
        round_done = round + 1;
    else
        while (round_done <= round) /* EXPECT wait */
            ;
}

static void *work(void *of)
{
    long me = (long)of;
    unsigned long x = 88172645463325252ul + me;
    for (int round = 0; round < ROUNDS; round++) {
        double sum = 0;
        /* One has more to do: the others wait. */
        int passes = me == round % THREADS ? 4 : 1;
        for (int pass = 0; pass < passes; pass++)
            for (long i = me * ELEMENTS / THREADS; i < (me + 1) * ELEMENTS / THREADS; i += at_random ? 1 : 8)
            {
                x ^= x << 13, x ^= x >> 7, x ^= x << 17;
                sum += table[at_random ? (long)(x % ELEMENTS) : i];
            }
        sums[me][0] += sum;
        pthread_mutex_lock(&lock);
        pthread_mutex_unlock(&lock);
        barrier(round);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    (void)argv;
    at_random = argc > 1;
    table = malloc(ELEMENTS * sizeof *table);
    for (long i = 0; i < ELEMENTS; i++)
        table[i] = (double)i; /* EXPECT first-touch */
    for (long i = 1; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    work(NULL);
    for (int i = 1; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("%g\n", sums[0][0]);
    return 0;
}
