// Memory that another thread uses before the call that gives it back, or fails to, has returned to whom it tells of it.
// With -DLIBRARY this is the library in which the calls are so late: they return when the other thread is done, and
// move memory to where it has unmapped its own since they began.
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// Compilers know that `realloc` reads no variables.
extern void (*volatile meanwhile)(void);

#ifdef LIBRARY

void (*volatile meanwhile)(void);

static void then(void) {
    void (*once)(void) = meanwhile;
    meanwhile = NULL;
    if (once) once();
}

int munmap(void *address, size_t bytes) {
    int failed = (int)syscall(SYS_munmap, address, bytes);
    then();
    return failed;
}

void *mremap(void *address, size_t before, size_t bytes, int flags, ...) {
    va_list more;
    va_start(more, flags);
    void *wanted = va_arg(more, void *);
    va_end(more);
    then();
    return (void *)syscall(SYS_mremap, address, before, bytes, flags, wanted);
}

void *realloc(void *block, size_t bytes) {
    static void *(*next)(void *, size_t);
    if (!next) next = (void *(*)(void *, size_t))dlsym(RTLD_NEXT, "realloc");
    block = next(block, bytes);
    then();
    return block;
}

#else

enum { ACCESS = PROT_READ | PROT_WRITE, PRIVATE = MAP_PRIVATE | MAP_ANONYMOUS };
enum { PAGE = 4096, LONGS = PAGE / (int)sizeof(long), PAGES = 100, LEFT = 20, BLOCKS = 500, SIZE = 320 };

static pthread_barrier_t barrier;
static char *mapped, *of_other;
static volatile long *stays;
static long written_to_mapped, written_to_stays;

static __attribute__((noinline)) void writes(volatile long *block, int longs) {
    for (int i = 0; i < longs; i++) block[i] = i;
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

// Longer than it takes until what was counted is read.
static const double LONG = 0.3;

static void *other(void *unused) {
    pthread_barrier_wait(&barrier);
    char *block = (char *)mmap(mapped, PAGES * PAGE, ACCESS, PRIVATE, -1, 0); // EXPECT its-successor
    if (block != mapped) abort();
    of_other = block;
    double begin = seconds();
    do {
        writes((volatile long *)block, PAGES * LONGS);
        written_to_mapped += PAGES * LONGS;
    } while (seconds() < begin + LONG);
    pthread_barrier_wait(&barrier);

    pthread_barrier_wait(&barrier);
    // Of most small blocks nothing is told.
    for (int i = 0; i < BLOCKS; i++) {
        volatile long *small = (long *)malloc(SIZE);
        begin = seconds();
        do writes(small, SIZE / (int)sizeof(long));
        while (seconds() < begin + LONG / BLOCKS);
    }
    pthread_barrier_wait(&barrier);

    pthread_barrier_wait(&barrier);
    begin = seconds();
    do {
        writes(stays, PAGES * LONGS);
        written_to_stays += PAGES * LONGS;
    } while (seconds() < begin + LONG);
    pthread_barrier_wait(&barrier);

    for (int i = 0; i < 2; i++) {
        writes((volatile long *)block, PAGES * LONGS);
        written_to_mapped += PAGES * LONGS;
    }
    pthread_barrier_wait(&barrier);
    munmap(of_other, PAGES * PAGE);
    pthread_barrier_wait(&barrier);
    return unused;
}

static void let_the_other_go_on(void) {
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
}

int main(void) {
    // All blocks come from one heap.
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_t thread;
    pthread_create(&thread, NULL, other, NULL);

    mapped = (char *)mmap(NULL, PAGES * PAGE, ACCESS, PRIVATE, -1, 0); // EXPECT unmapped
    writes((volatile long *)mapped, PAGES * LONGS);
    meanwhile = let_the_other_go_on;
    munmap(mapped, PAGES * PAGE);

    long *block = (long *)aligned_alloc(PAGE, PAGES * PAGE);  // EXPECT shrunk
    writes(block, PAGES * LONGS);
    meanwhile = let_the_other_go_on;
    if (realloc(block, LEFT * PAGE) != block) return 1;

    stays = (long *)aligned_alloc(PAGE, PAGES * PAGE);  // EXPECT goes-on
    meanwhile = let_the_other_go_on;
    volatile size_t too_much = (size_t)1 << 60;
    if (realloc((void *)stays, too_much)) return 1;
    writes(stays, PAGES * LONGS);
    written_to_stays += PAGES * LONGS;

    char *moves = (char *)mmap(NULL, PAGES * PAGE, ACCESS, PRIVATE, -1, 0); // EXPECT moves
    writes((volatile long *)moves, PAGES * LONGS);
    meanwhile = let_the_other_go_on;
    moves = (char *)mremap(moves, PAGES * PAGE, PAGES * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, of_other);
    if (moves != of_other) return 1;
    long written_to_moves = PAGES * LONGS;
    for (double begin = seconds(); seconds() < begin + LONG; written_to_moves += PAGES * LONGS) writes((volatile long *)moves, PAGES * LONGS);
    pthread_join(thread, NULL);
    printf("unmapped %d\nits-successor %ld\nshrunk %d\ngoes-on %ld\n", PAGES * LONGS, written_to_mapped, PAGES * LONGS, written_to_stays);
    printf("moves %ld\n", written_to_moves);
    return 0;
}

#endif
