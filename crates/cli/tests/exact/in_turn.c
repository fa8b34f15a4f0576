/* Memory that one thread places and all use, blocks of 64 KiB each in turn: in_turn MIB THREADS ROUNDS. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCK = 1 << 13 };
static volatile uint64_t *array;
static long words, threads, rounds;

static void *work(void *argument) {
    for (long round = 0; round < rounds; round++)
        for (long block = (long)argument; block * BLOCK < words; block += threads)
            for (long word = block * BLOCK; word < (block + 1) * BLOCK; word += 8) array[word] += round;
    return 0;
}

int main(int count, char **arguments) {
    if (count < 4) return 1;
    words = atol(arguments[1]) << 17, threads = atol(arguments[2]), rounds = atol(arguments[3]);
    array = malloc(words * sizeof *array);
    for (long word = 0; word < words; word += 512) array[word] = word;
    pthread_t started[64];
    for (long thread = 0; thread < threads; thread++) pthread_create(started + thread, 0, work, (void *)thread);
    for (long thread = 0; thread < threads; thread++) pthread_join(started[thread], 0);
    puts("done");
}
