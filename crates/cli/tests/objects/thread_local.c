// Thread-local variables of the program and of the C library: each of four threads has copies of its own.
#include <errno.h>
#include <pthread.h>

enum { THREADS = 4, BYTES = 1 << 16, TIMES = 20, SMALL = 100000 };

static __thread volatile char large[BYTES];
static __thread volatile long small;

static void *work(void *argument) {
    volatile int *error = &errno;
    for (int time = 0; time < TIMES; time++)
        for (int i = 0; i < BYTES; i++) large[i] = (char)time;
    for (int i = 0; i < SMALL; i++) small = i;
    for (int i = 0; i < SMALL; i++) *error = i;
    return argument;
}

int main() {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], 0, work, 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], 0);
    return 0;
}
