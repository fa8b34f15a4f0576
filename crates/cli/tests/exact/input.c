/* The usual program: its first thread reads its input, and all threads work on it. input FILE */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS 4
#define WORDS (512 << 10)

static double *words;
static double sums[THREADS];

static void *work(void *argument) {
    long number = (long)argument, part = WORDS / THREADS;
    double sum = 0;
    for (int round = 0; round < 4; round++)
        for (long i = number * part; i < (number + 1) * part; i++) sum += words[i]; /* WORK */
    sums[number] = sum;
    return 0;
}

int main(int count, char **arguments) {
    FILE *input = fopen(count > 1 ? arguments[1] : "/dev/zero", "rb");
    words = malloc(WORDS * sizeof *words);
    if (fread(words, sizeof *words, WORDS, input) != WORDS) return 1; /* INPUT */
    fclose(input);
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) pthread_create(threads + i, 0, work, (void *)i);
    for (long i = 0; i < THREADS; i++) pthread_join(threads[i], 0);
    printf("%.0f\n", sums[0] + sums[1] + sums[2] + sums[3]);
    return 0;
}
