/* Parts of huge pages, used by others than who placed them, while mappings and pages around them change. For four
 * nodes: thread i is on node i. Prints of each use: the page, its home (-1: none) and how many reads and writes, or
 * that there are no huge pages. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../../../targets/huge_page.h"

enum { PAGE = 4096, THREADS = 4 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int turn, writing;
static volatile char *wanted;
static long times;

static __attribute__((noinline)) void work(void) {
    for (long i = 0; i < times; i++) {
        if (writing) *wanted = 1;
        (void)*wanted;
    }
}

static void *thread(void *self) {
    for (;;) {
        pthread_mutex_lock(&lock);
        while (turn != (int)(intptr_t)self)
            pthread_cond_wait(&changed, &lock);
        work();
        turn = 0;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

static void by(int who, char *chunk, long page, int home, int writes) {
    pthread_mutex_lock(&lock);
    wanted = chunk + page * PAGE + 64;
    times = page % 7 + 3;
    writing = writes;
    printf("%lx %d %ld %ld\n", (long)wanted / PAGE, home, times, writes ? times : 0);
    if (who == 0) {
        work();
    } else {
        turn = who;
        pthread_cond_broadcast(&changed);
        while (turn)
            pthread_cond_wait(&changed, &lock);
    }
    pthread_mutex_unlock(&lock);
}

static void writes(int who, char *chunk, long page, int home) { by(who, chunk, page, home, 1); }
static void reads(int who, char *chunk, long page, int home) { by(who, chunk, page, home, 0); }

/* Memory for one huge page, and as much behind it. */
static char *chunk(void) {
    char *at = mmap(NULL, 3 * HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) exit(1);
    at = (char *)(((uintptr_t)at + HUGE - 1) & ~(uintptr_t)(HUGE - 1));
    madvise(at, 2 * HUGE, MADV_HUGEPAGE);
    return at;
}

/* A huge page by a thread. */
static char *placed(int who) {
    char *at = chunk();
    writes(who, at, 0, who);
    if (!is_huge(at)) {
        puts("small");
        exit(0);
    }
    return at;
}

int main(void) {
    for (intptr_t i = 1; i < THREADS; i++) {
        pthread_t id;
        if (pthread_create(&id, NULL, thread, (void *)i)) exit(1);
    }
    char *at = placed(1);
    writes(2, at, 5, 1);
    /* What stays when a part goes, and what comes there again. */
    at = placed(1);
    madvise(at, HUGE / 2, MADV_DONTNEED);
    writes(3, at, 0, 3);
    writes(2, at, 300, 1);
    reads(0, at, 301, 1);
    at = placed(1);
    madvise(at, PAGE, MADV_DONTNEED);
    reads(0, at, 300, 1);
    writes(2, at, 0, 2);
    writes(3, at, 400, 1);
    at = placed(2);
    munmap(at + 100 * PAGE, 100 * PAGE);
    writes(3, at, 50, 2);
    writes(0, at, 300, 2);
    /* All of it, in two steps; then another one's. */
    at = placed(1);
    madvise(at, HUGE / 2, MADV_DONTNEED);
    madvise(at + HUGE / 2, HUGE / 2, MADV_DONTNEED);
    writes(2, at, 300, 2);
    if (is_huge(at)) writes(3, at, 7, 2);
    /* Other settings of what is there. */
    at = placed(1);
    mprotect(at + 100 * PAGE, 100 * PAGE, PROT_READ);
    writes(2, at, 50, 1);
    reads(3, at, 150, 1);
    writes(3, at, 250, 1);
    at = placed(1);
    madvise(at, HUGE, MADV_NOHUGEPAGE);
    writes(2, at, 7, 1);
    /* Elsewhere, as a whole and in small pages. */
    for (int shift = 0; shift < 2; shift++) {
        at = placed(1);
        char *to = chunk() + shift * 100 * PAGE;
        if (mremap(at, HUGE, HUGE, MREMAP_MAYMOVE | MREMAP_FIXED, to) != to) exit(1);
        writes(2, to, 5, 1);
        writes(3, to, 500, 1);
    }
    /* Two mappings that are one. */
    at = chunk();
    munmap(at, HUGE);
    for (int half = 1; half >= 0; half--)
        mmap(at + half * HUGE / 2, HUGE / 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    madvise(at, HUGE, MADV_HUGEPAGE);
    writes(1, at, 400, 1);
    if (is_huge(at)) writes(2, at, 3, 1);
    /* Of a page that was read before it was written. */
    at = chunk();
    for (long page = 0; page < 9; page++)
        reads(2, at, page, -1);
    writes(3, at, 100, 3);
    if (is_huge(at))
        for (long page = 0; page < 9; page++)
            writes(0, at, page, 3);
    /* In a child. */
    at = placed(1);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        reads(0, at, 10, 1);
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    return 0;
}
