/* One thread writes a vector, all read the whole of it, in turn: what a solver does in each step. Nothing of that is
 * mended by another layout, and the vector stays in caches. Beside it, with the argument `own`, each thread counts in a
 * word of its own of one line; with `same`, all in one word. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { THREADS = 4, STEPS = 400, ELEMENTS = 512 };

static volatile double vector[ELEMENTS] __attribute__((aligned(4096)));
static volatile long counts[8] __attribute__((aligned(4096)));
static volatile double sums[THREADS][512] __attribute__((aligned(4096)));
static pthread_barrier_t step_done;
static int counted;

static void *work(void *of)
{
    long me = (long)of;
    for (int step = 0; step < STEPS; step++) {
        if (step % THREADS == 0 && me == 0)
            for (int i = 0; i < ELEMENTS; i++)
                vector[i] = step + i;
        pthread_barrier_wait(&step_done);
        for (int i = 0; i < ELEMENTS; i++)
            sums[me][0] += vector[i];
        for (int i = 0; counted && i < 4 * ELEMENTS; i++)
            counts[counted == 'o' ? me : 0]++; /* EXPECT counts */
        pthread_barrier_wait(&step_done);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    counted = argc > 1 ? argv[1][0] : 0;
    pthread_barrier_init(&step_done, NULL, THREADS);
    for (long i = 1; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    work(NULL);
    for (int i = 1; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("%g\n", sums[0][0]);
    return 0;
}
