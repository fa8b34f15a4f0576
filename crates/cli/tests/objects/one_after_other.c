// Blocks of two places, one after the other in the same memory, and two beside each other in pages that they share.
// Arguments: rounds. Writes how often each was accessed.
#include <stdio.h>
#include <stdlib.h>

enum { BLOCKS = 32, BYTES = 8192, LONGS = BYTES / 8, EDGE = 4500, OF_EDGE = EDGE / 8 };

__attribute__((noinline)) static void use(volatile long *block, int longs, long times) {
    for (long time = 0; time < times; time++)
        for (int i = 0; i < longs; i++) block[i] += 1;
}

int main(int count, char **arguments) {
    (void)count;
    long rounds = atol(arguments[1]);
    static long *blocks[BLOCKS];
    for (long round = 0; round < rounds; round++) {
        for (int i = 0; i < BLOCKS; i++) blocks[i] = (long *)malloc(BYTES);  // EXPECT first
        for (int i = 0; i < BLOCKS; i++) use(blocks[i], LONGS, 30);
        for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
        for (int i = 0; i < BLOCKS; i++) blocks[i] = (long *)malloc(BYTES);  // EXPECT second
        for (int i = 0; i < BLOCKS; i++) use(blocks[i], LONGS, 10);
        for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
    }
    long *one = (long *)malloc(EDGE);    // EXPECT one
    long *other = (long *)malloc(EDGE);  // EXPECT other
    use(one, OF_EDGE, 100 * rounds);
    use(other, OF_EDGE, 300 * rounds);
    printf("first %ld\nsecond %ld\none %ld\nother %ld\n", 2 * rounds * BLOCKS * LONGS * 30, 2 * rounds * BLOCKS * LONGS * 10,
           2L * OF_EDGE * 100 * rounds, 2L * OF_EDGE * 300 * rounds);
}
