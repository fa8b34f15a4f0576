// A hash table that stays nearly empty: most of what is read has never been written.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    size_t words = 16u << 20;
    long look_ups = argc > 1 ? atol(argv[1]) : 1;
    uint64_t *table = calloc(words, sizeof *table);
    if (!table) return 1;
    uint64_t x = 88172645463325252u, found = 0;
    for (long i = 0; i < look_ups; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        uint64_t *entry = &table[x & (words - 1)];
        if (i % 5000 == 0) *entry = x;
        else found += *entry != 0;
    }
    printf("%lu\n", found);
}
