/* Ends while its threads are in the midst of what they do, each wherever it is. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

enum { THREADS = 24, WORDS = 4096 };
static volatile unsigned long rounds[THREADS][512];

static void *works(void *mine) {
    volatile unsigned long *round = mine, *words = calloc(WORDS, sizeof *words);
    for (unsigned long at = 1;; at = at * 5 + 3) {
        words[at % WORDS] += words[at * 7 % WORDS];
        ++*round;
    }
    return 0;
}

int main(void) {
    pthread_t thread;
    for (int i = 0; i < THREADS; i++) pthread_create(&thread, 0, works, (void *)rounds[i]);
    for (int i = 0; i < THREADS; i++)
        while (rounds[i][0] < 2000) sched_yield();
    exit(0);
}
