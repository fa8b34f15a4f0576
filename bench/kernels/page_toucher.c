// Writes one byte to each small page of 1 GiB: nothing but first touches, the most page faults a second there can be.
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

int main(int argc, char **argv) {
    size_t bytes = (size_t)(argc > 1 ? atol(argv[1]) : 1) << 20;
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 1;
    madvise(memory, bytes, MADV_NOHUGEPAGE);
    for (size_t at = 0; at < bytes; at += 4096) memory[at] = 1;
    printf("%d\n", memory[bytes / 2]);
}
