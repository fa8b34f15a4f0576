/* Takes memory and gives it back, all its life: page_numbers ROUNDS. Of each round one page stays, at an address of its
   own from KEPT on, which is written 1000 times in all, most of them in the end. Code that is executed once in a round
   has its counts of a page that has gone pending all the while. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define KEPT ((char *)0x600000000000)
enum { BYTES = 16 << 20, PAGE = 4096, THREADS = 2 };
static long rounds;

static volatile uint64_t *take(void *at, size_t bytes, int flags) {
    void *taken = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    if (taken == MAP_FAILED) exit(3);
    return taken;
}

static void *work(void *argument) {
    for (long round = 0; round < rounds; round++) {
        volatile uint64_t *memory = take(0, BYTES, 0);
        for (long word = 0; word < BYTES / 8; word++) memory[word] = word;
        memory[round * 512 % (BYTES / 8)] += 1;
        munmap((void *)memory, BYTES);
        *take(KEPT + ((uintptr_t)argument * rounds + round) * PAGE, PAGE, MAP_FIXED_NOREPLACE) = round;
    }
    return 0;
}

int main(int count, char **arguments) {
    if (count < 2) return 1;
    rounds = atol(arguments[1]);
    pthread_t started[THREADS];
    for (long thread = 0; thread < THREADS; thread++) pthread_create(started + thread, 0, work, (void *)thread);
    for (long thread = 0; thread < THREADS; thread++) pthread_join(started[thread], 0);
    for (long page = 0; page < THREADS * rounds; page++)
        for (int time = 1; time < 1000; time++) *(volatile uint64_t *)(KEPT + page * PAGE) = time;
    puts("done");
}
