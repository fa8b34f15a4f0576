// Blocks made in every way, each used a known number of times; EXPECT names the lines that make them. C as well as C++.
#define _GNU_SOURCE 1
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

static char table[1 << 20] __attribute__((aligned(4096)));
__attribute__((section("shared_page"), aligned(128))) static char small_one[64] = {1};
__attribute__((section("shared_page"))) static char small_two[64] = {1};

static void put(volatile char *at, long bytes, int times) {
    for (int time = 0; time < times; time++)
        for (long i = 0; i < bytes; i++) at[i] = (char)time;
}

static long get(const volatile char *at, long bytes) {
    long sum = 0;
    for (long i = 0; i < bytes; i++) sum += at[i];
    return sum;
}

static void *worker(void *theirs) {
    char *mine = (char *)malloc(200000); // EXPECT by-thread
    put(mine, 200000, 2);
    put((char *)theirs, 1 << 20, 1);
    free(theirs);
    return mine;
}

int main() {
    long sum = 0;
    char *one = (char *)malloc(1 << 20); // EXPECT malloc
    put(one, 1 << 20, 3);
    char *zeros = (char *)calloc(300, 1000); // EXPECT calloc
    sum += get(zeros, 300000);
    char *grows = (char *)malloc(300000); // EXPECT before
    put(grows, 300000, 1);
    grows = (char *)realloc(grows, 900000); // EXPECT realloc
    sum += get(grows, 900000);
    void *aligned[8];
    for (int i = 0; i < 8; i++) {
        if (posix_memalign(&aligned[i], 4096, 65536)) return 1; // EXPECT posix_memalign
        put((char *)aligned[i], 65536, i + 1);
    }
    char *page = (char *)aligned_alloc(4096, 40960); // EXPECT aligned_alloc
    put(page, 40960, 5);
#ifdef __cplusplus
    char *made = new char[500000]; // EXPECT new
#else
    char *made = (char *)malloc(500000); // EXPECT new
#endif
    put(made, 500000, 1);
    char *mapped = (char *)mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); // EXPECT mmap
    put(mapped, 1 << 19, 1);
    put(table, sizeof table, 2);
    char *lent = (char *)malloc(1 << 20); // EXPECT lent
    pthread_t thread;
    void *theirs;
    pthread_create(&thread, 0, worker, lent);
    pthread_join(thread, &theirs);
    sum += get((char *)theirs, 200000);
    for (int i = 0; i < 1500000; i++) {
        put(small_one, 64, 3);
        put(small_two, 64, 1);
    }
    free(theirs);
    free(one);
    free(zeros);
    free(grows);
    for (int i = 0; i < 8; i++) free(aligned[i]);
    free(page);
#ifdef __cplusplus
    delete[] made;
#else
    free(made);
#endif
    munmap(mapped, 1 << 20);
    return sum == 42;
}
