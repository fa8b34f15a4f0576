/* Processes whose threads are in the midst of loops when they end: by _exit, SIGKILL and abort in turn. Prints how
 * each did. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 1 << 16, THREADS = 3 };

static double a[THREADS][N], b[THREADS][N];
static pthread_barrier_t all;

static void *stream(void *of) {
    double *to = a[(long)of], *from = b[(long)of];
    for (int round = 0;; round++) {
        for (long i = 0; i < N; i++) to[i] = to[i] * 0.5 + from[i];
        /* So long that the loop has its final form. */
        if (round == 8) pthread_barrier_wait(&all);
    }
    return NULL;
}

int main(void) {
    for (int number = 0; number < 12; number++) {
        pid_t child = fork();
        if (child == 0) {
            pthread_barrier_init(&all, NULL, THREADS + 1);
            for (long of = 0; of < THREADS; of++) {
                pthread_t thread;
                if (pthread_create(&thread, NULL, stream, (void *)of)) return 1;
            }
            pthread_barrier_wait(&all);
            if (number % 3 == 1) kill(getpid(), SIGKILL);
            if (number % 3 == 2) abort();
            _exit(7);
        }
        int status;
        if (waitpid(child, &status, 0) != child) return 1;
        printf("%x\n", (unsigned)status);
    }
    return 0;
}
