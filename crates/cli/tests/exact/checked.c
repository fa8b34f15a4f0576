/* For sanitizers: threads, allocations, children; with an argument, one mistake that each of them finds. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int shared, raced;

static void *work(void *wrong) {
    for (int i = 0; i < 1000; i++)
        __sync_fetch_and_add(&shared, 1);
    if (wrong)
        raced++;
    return 0;
}

int main(int count, char **arguments) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], 0, work, count > 1 ? arguments : 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], 0);
    volatile int *numbers = malloc(1000 * sizeof *numbers);
    long sum = 0;
    for (int i = 0; i < 1000; i++)
        numbers[i] = i;
    for (int i = 0; i < 1000; i++)
        sum += numbers[i];
    pid_t child = fork();
    if (child == 0)
        _exit(sum % 7);
    int status = 0;
    waitpid(child, &status, 0);
    printf("sum %ld %d, child %d\n", sum, shared, WEXITSTATUS(status));
    fflush(stdout);
    if (count > 1)
        numbers[1000] = 1;
    free((void *)numbers);
    return 3;
}
