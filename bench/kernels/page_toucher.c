// Writes one byte to each small page of so many MiB, gives them back, and so on: nothing but first touches, the most
// page faults a second there can be.
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

int main(int argc, char **argv) {
    size_t bytes = (size_t)(argc > 1 ? atol(argv[1]) : 1) << 20;
    long rounds = argc > 2 ? atol(argv[2]) : 1, sum = 0;
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 1;
    madvise(memory, bytes, MADV_NOHUGEPAGE);
    for (long round = 0; round < rounds; round++) {
        for (size_t at = 0; at < bytes; at += 4096) memory[at] = 1;
        sum += memory[bytes / 2];
        if (round + 1 < rounds && madvise(memory, bytes, MADV_DONTNEED)) return 1;
    }
    printf("%ld\n", sum);
}
