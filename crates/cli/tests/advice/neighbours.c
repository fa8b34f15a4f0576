/* Two variables on one page: main checks something with the one at the start, all threads count in words of the other.
 * The line that counts has most accesses. */
#include <pthread.h>
#include <stdio.h>

enum { THREADS = 4, ROUNDS = 4000000 };

static volatile long checked __attribute__((section("page"), aligned(4096))) = 1;
static volatile long counts[THREADS] __attribute__((section("page"))) = {1};

static void *count(void *of)
{
    long me = (long)of;
    for (int round = 0; round < ROUNDS; round++)
        counts[me] ^= round; /* EXPECT counts */
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    checked += 1;
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, count, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("%ld\n", counts[0] + checked);
    return 0;
}
