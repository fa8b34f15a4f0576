// Updates of random words of a 256 MiB table: a translation miss and a cache miss each.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    size_t words = 32u << 20;
    long updates = argc > 1 ? atol(argv[1]) : 1;
    uint64_t *table = calloc(words, sizeof *table);
    if (!table) return 1;
    uint64_t x = 88172645463325252u;
    for (long i = 0; i < updates; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        table[x & (words - 1)] ^= x;
    }
    printf("%lu\n", table[words / 3]);
}
