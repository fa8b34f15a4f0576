/* Two threads update words of a table at random, while its pages go and come again, move, and are asked about. Homes
 * are interleaved. Prints how many updates went to even pages and to odd ones: by the first threads, after half of
 * the pages were given up, after the other half was mapped anew, after all was moved, in a child after a fork. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGES = 2048, WORDS = PAGES * 512, UPDATES = 1500000 };

static uint64_t *table;
static unsigned long even[2], odd[2];
static uint64_t state[2] = {88172645463325252u, 362436069362436069u};

static __attribute__((noinline)) void update(int self) {
    uint64_t x = state[self];
    unsigned long on_even = 0;
    for (int i = 0; i < UPDATES; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        uint64_t word = x % WORDS;
        on_even += ~(((uintptr_t)table >> 12) + word / 512) & 1;
        table[word] ^= x;
    }
    state[self] = x;
    even[self] += on_even;
    odd[self] += UPDATES - on_even;
}

static void *thread(void *self) {
    update((int)(intptr_t)self);
    return NULL;
}

static void both(void) {
    pthread_t other;
    if (pthread_create(&other, NULL, thread, (void *)1)) exit(1);
    update(0);
    pthread_join(other, NULL);
}

static void *map(void *at, size_t bytes) {
    void *found = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);
    if (found == MAP_FAILED) exit(1);
    return found;
}

int main(void) {
    const size_t bytes = PAGES * 4096ul, half = bytes / 2;
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    table = map(NULL, bytes);
    both();
    if (madvise((char *)table + half, half, MADV_DONTNEED)) exit(1);
    both();
    map(table, half);
    both();
    void *elsewhere = map(NULL, bytes + 4096);
    /* By an odd number of pages. */
    char *to = (char *)elsewhere + (((uintptr_t)elsewhere ^ (uintptr_t)table) >> 12 & 1 ? 0 : 4096);
    table = mremap(table, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to);
    if (table == MAP_FAILED) exit(1);
    /* The homes of before, at addresses of the other kind. */
    unsigned long before[2] = {even[0] + even[1], odd[0] + odd[1]};
    both();
    unsigned long moved[2] = {even[0] + even[1] - before[0], odd[0] + odd[1] - before[1]};
    even[0] = even[1] = odd[0] = odd[1] = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        update(0);
        printf("%lu %lu\n", before[0] + moved[1] + even[0], before[1] + moved[0] + odd[0]);
        fflush(stdout);
        _exit(0);
    }
    int status;
    return waitpid(child, &status, 0) != child || status;
}
