/* Each thread touches and uses its own part; a memory policy that main has set takes all of it to node 0. With
 * `default` it sets none. */
#include <linux/mempolicy.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define THREADS 4
#define WORDS (1L << 20)

static volatile long *data;

static void *work(void *number)
{
    volatile long *own = data + (long)number * WORDS / THREADS;
    for (int round = 0; round < 20; round++)
        for (long i = 0; i < WORDS / THREADS; i++)
            own[i] += i;
    return 0;
}

int main(int argc, char **argv)
{
    unsigned long node0 = 1;
    if (strcmp(argv[argc - 1], "default"))
        syscall(SYS_set_mempolicy, MPOL_BIND, &node0, 64);
    data = malloc(WORDS * sizeof(long)); // EXPECT data
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], 0, work, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], 0);
}
