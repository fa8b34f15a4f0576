// Two threads take turns, one access after the other: at the same word, at words of their own in one line, at a line
// that nobody writes.
#include <pthread.h>
#include <stdio.h>

struct line {
    volatile int word[16];
} __attribute__((aligned(64)));

static struct line same, apart, constant;
static pthread_barrier_t barrier;

static void *work(void *number) {
    long k = (long)number, sum = 0;
    for (int turn = 0; turn < 200; turn++) {
        if (turn % 2 == k) {
            same.word[0]++;
            apart.word[8 * k]++;
            sum += constant.word[0];
        }
        pthread_barrier_wait(&barrier);
    }
    return (void *)sum;
}

int main(void) {
    pthread_t thread[2];
    pthread_barrier_init(&barrier, 0, 2);
    printf("%p %p %p\n", (void *)&same, (void *)&apart, (void *)&constant);
    for (long k = 0; k < 2; k++) {
        if (pthread_create(&thread[k], 0, work, (void *)k)) return 1;
    }
    for (int k = 0; k < 2; k++) pthread_join(thread[k], 0);
    return 0;
}
