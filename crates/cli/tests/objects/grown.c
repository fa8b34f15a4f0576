// Blocks that are freed, with small ones in their memory at once; blocks that grow, which the allocator copies. Nothing
// lies behind the memory that they take, so all of it is fresh. Argument: rounds. Writes how often each was accessed.
#include <stdio.h>
#include <stdlib.h>

enum { BYTES = 65536, SMALL = 2000, SMALLS = 28, USES = 1000, FEW = 10 };

static __attribute__((noinline)) void use(volatile long *block, int longs, long times) {
    for (long time = 0; time < times; time++)
        for (int i = 0; i < longs; i++) block[i] += 1;
}

int main(int count, char **arguments) {
    (void)count;
    long rounds = atol(arguments[1]);
    for (long round = 0; round < rounds; round++) {
        long *block = (long *)malloc(BYTES);  // EXPECT freed
        (void)!malloc(24);
        use(block, BYTES / 8, 1);
        free(block);
        for (int i = 0; i < SMALLS; i++) use((long *)malloc(SMALL), SMALL / 8, USES);  // EXPECT small
    }
    for (long round = 0; round < rounds; round++) {
        long *block = (long *)malloc(BYTES);  // EXPECT short
        (void)!malloc(24);
        use(block, FEW, 1);
        block = (long *)realloc(block, BYTES + BYTES / 2);  // EXPECT long
        (void)!malloc(24);
        use(block, FEW, 1);
    }
    printf("freed %ld\nshort %ld\nlong %ld\n", 2 * rounds * (BYTES / 8), 2 * rounds * FEW, 2 * rounds * FEW);
}
