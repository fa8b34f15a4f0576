// The k-th of 8 threads reads k * 100,000 elements.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static volatile char cell[9];

static void *work(void *number) {
    long k = (long)number, sum = 0;
    for (long i = 0; i < k * 100000; i++) sum += cell[k];
    return (void *)(sum + k);
}

int main(void) {
    pthread_t thread[9];
    long all = 0;
    for (long k = 1; k < 9; k++) {
        if (pthread_create(&thread[k], 0, work, (void *)k)) return 1;
    }
    for (long k = 1; k < 9; k++) {
        void *result;
        pthread_join(thread[k], &result);
        all += (long)result;
    }
    printf("%ld\n", all);
    return 0;
}
