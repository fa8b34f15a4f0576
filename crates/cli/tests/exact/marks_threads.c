/* Three workers that wait while the first thread starts and stops the counting, once each. */
#include "numalens.h"
#include <pthread.h>

enum { WORKERS = 3 };
static pthread_barrier_t barrier;
static volatile long data[4096];

__attribute__((noinline)) void work(long reads) {
    for (long i = 0; i < reads; i++) (void)data[i & 4095];
}

static void *worker(void *unused) {
    work(20000);
    pthread_barrier_wait(&barrier); /* the counting starts */
    pthread_barrier_wait(&barrier);
    work(30000);
    pthread_barrier_wait(&barrier); /* it stops */
    pthread_barrier_wait(&barrier);
    work(50000);
    return unused;
}

int main(void) {
    pthread_t threads[WORKERS];
    pthread_barrier_init(&barrier, 0, WORKERS + 1);
    for (int i = 0; i < WORKERS; i++)
        if (pthread_create(&threads[i], 0, worker, 0)) return 1;
    pthread_barrier_wait(&barrier);
    numalens_start();
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    numalens_stop();
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < WORKERS; i++) pthread_join(threads[i], 0);
    return 0;
}
