/* Reads memory that has not been written, in loops of several forms, then writes it, or has the kernel write it, and
 * reads on. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGES = 16, WORDS = PAGES * 512, ROUNDS = 200 };
#define NOINLINE __attribute__((noinline))

static volatile uint64_t *fresh(void) {
    void *memory = mmap(0, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) exit(9);
    madvise(memory, PAGES * 4096, MADV_NOHUGEPAGE);
    return memory;
}

NOINLINE static uint64_t one_after_the_other(volatile uint64_t *words) {
    uint64_t sum = 0;
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < WORDS; i++) sum += words[i];
    return sum;
}

NOINLINE static uint64_t here_and_there(volatile uint64_t *words) {
    uint64_t sum = 0, x = 1;
    for (int i = 0; i < ROUNDS * WORDS; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        sum += words[(x >> 33) % WORDS];
    }
    return sum;
}

/* Two operands off one register, in one page and in two. */
NOINLINE static uint64_t in_pairs(volatile uint64_t *words) {
    uint64_t sum = 0;
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i + 2 < WORDS; i++) sum += words[i] ^ words[i + 2];
    return sum;
}

/* Reads what it writes in another page. */
NOINLINE static void copied(volatile uint64_t *to, volatile uint64_t *from) {
    for (int i = 0; i < WORDS; i++) to[i] = from[i];
}

NOINLINE static void written(volatile uint64_t *words) {
    for (int page = 0; page < PAGES; page += 2) words[page * 512 + 1] = 1;
}

NOINLINE static uint64_t afterwards(volatile uint64_t *words) {
    uint64_t sum = 0;
    for (int i = 0; i < WORDS; i++) sum += words[i];
    return sum;
}

NOINLINE static uint64_t filled(volatile uint64_t *words) {
    uint64_t sum = 0;
    for (int i = 0; i < WORDS; i++) sum += words[i];
    return sum;
}

NOINLINE static void updated(volatile uint64_t *words) {
    for (int page = 0; page < PAGES; page++) words[page * 512] += 3;
}

int main(void) {
    volatile uint64_t *words = fresh();
    uint64_t sum = one_after_the_other(words) + here_and_there(words) + in_pairs(words);
    copied(fresh(), words);
    written(words);
    sum += afterwards(words);
    int zero = open("/dev/urandom", O_RDONLY);
    volatile uint64_t *buffers[2] = {fresh(), fresh()};
    for (int way = 0; way < 2; way++) {
        one_after_the_other(buffers[way]);
        struct iovec pieces[2] = {{(void *)buffers[way], PAGES * 2048}, {(void *)(buffers[way] + WORDS / 2), PAGES * 2048}};
        long got = way ? readv(zero, pieces, 2) : read(zero, (void *)buffers[way], PAGES * 4096);
        if (got != PAGES * 4096) return 3;
        filled(buffers[way]);
    }
    volatile uint64_t *inherited = fresh();
    one_after_the_other(inherited);
    if (!fork()) {
        updated(inherited);
        _exit(0);
    }
    int status = 0;
    wait(&status);
    updated(inherited);
    printf("%lu %d %lu\n", (unsigned long)sum, status, (unsigned long)inherited[512]);
    return 0;
}
