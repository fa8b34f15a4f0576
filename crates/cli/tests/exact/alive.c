/* So many threads at once; says how many mappings there are then. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_barrier_t all;

static void *wait_for(void *argument) {
    pthread_barrier_wait(&all);
    pthread_barrier_wait(&all);
    return argument;
}

int main(int count, char **arguments) {
    int threads = count > 1 ? atoi(arguments[1]) : 0;
    pthread_t *thread = calloc(threads + 1, sizeof *thread);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    pthread_barrier_init(&all, 0, threads + 1);
    for (int i = 0; i < threads; i++)
        if (pthread_create(&thread[i], &small, wait_for, 0))
            return 1;
    pthread_barrier_wait(&all);
    FILE *maps = fopen("/proc/self/maps", "r");
    long lines = 0;
    for (int letter; (letter = getc(maps)) != EOF;)
        lines += letter == '\n';
    fclose(maps);
    printf("%ld\n", lines);
    pthread_barrier_wait(&all);
    for (int i = 0; i < threads; i++)
        pthread_join(thread[i], 0);
    return 0;
}
