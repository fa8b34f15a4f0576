/* Eight threads use all pages of two arrays, and wait for each other in a loop. The main thread has filled the first
 * array; of the other one each thread has filled its part. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

enum { PAGE = 4096, PAGES = 14000, THREADS = 8 };

static char *filled, *shared;
static volatile int arrived;

static void meet(int times) {
    __sync_fetch_and_add(&arrived, 1);
    while (arrived < times * THREADS) {
    }
}

static void *thread(void *self) {
    long of = (long)(intptr_t)self, sum = 0;
    for (long page = of * PAGES / THREADS; page < (of + 1) * PAGES / THREADS; page++)
        shared[page * PAGE] = 1;
    meet(1);
    for (long page = 0; page < PAGES; page++)
        sum += ((volatile char *)filled)[page * PAGE] + ((volatile char *)shared)[page * PAGE];
    meet(2);
    return (void *)(intptr_t)sum;
}

int main(void) {
    pthread_t threads[THREADS];
    filled = aligned_alloc(PAGE, PAGES * PAGE);
    shared = aligned_alloc(PAGE, PAGES * PAGE);
    for (long page = 0; page < PAGES; page++)
        filled[page * PAGE] = 1;
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, thread, (void *)(intptr_t)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
