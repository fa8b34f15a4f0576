// Memory that is gone when the program ends, by every way that there is, and what was accessed there before: as often
// as stands behind each tag.
#include <cstdlib>
#include <sys/mman.h>

static const long N = 1 << 16;
__attribute__((noinline)) static void writes(volatile long *at, long count) {
    for (long i = 0; i < count; i++) at[i] = i;
}
__attribute__((noinline)) static void reads(volatile long *at, long count) {
    for (long i = 0; i < count; i++) (void)at[i];
}
#define MAP(bytes) (long *)mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)

int main() {
    const long bytes = N * sizeof(long);
    long *unmapped = MAP(bytes); // EXPECT unmapped
    writes(unmapped, N);
    munmap(unmapped, bytes);
    long *in_halves = MAP(bytes); // EXPECT in halves
    writes(in_halves, N);
    munmap(in_halves, bytes / 2);
    reads(in_halves + N / 2, N / 2);
    long *moved = MAP(bytes); // EXPECT moved
    writes(moved, N);
    moved = (long *)mremap(moved, bytes, 4 * bytes, MREMAP_MAYMOVE);
    reads(moved, N);
    munmap(moved, 4 * bytes);
    // Read before it is written, given up, and read again.
    long *given_up = MAP(bytes); // EXPECT given up
    reads(given_up, N);
    writes(given_up, N);
    madvise(given_up, bytes, MADV_DONTNEED);
    reads(given_up, N);
    munmap(given_up, bytes);
    // One after the other at the same place, each read before it is written.
    for (int round = 0; round < 3; round++) {
        long *freed = (long *)malloc(bytes); // EXPECT freed
        reads(freed, N);
        writes(freed, N);
        free(freed);
    }
    return 0;
}
