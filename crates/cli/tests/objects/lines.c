/* One line reads two arrays, the first three times as often; another one writes the second alone. */
#include <stdio.h>
#include <stdlib.h>

enum { WORDS = 1 << 20, ROUNDS = 60 };

__attribute__((noinline)) static long walk(const volatile long *array) {
    long sum = 0;
    for (long i = 0; i < WORDS; i++)
        sum += array[i]; /* both */
    return sum;
}

int main(void) {
    long *often = (long *)calloc(WORDS, sizeof *often);   // EXPECT often
    long *seldom = (long *)calloc(WORDS, sizeof *seldom); // EXPECT seldom
    long sum = 0;
    for (long i = 0; i < WORDS; i++)
        often[i] = i;
    for (int round = 0; round < ROUNDS; round++) {
        for (long i = 0; i < WORDS; i++)
            *(volatile long *)(seldom + i) = round; /* own */
        sum += walk(often) + walk(often) + walk(often) + walk(seldom);
    }
    printf("%ld\n", sum);
    return 0;
}
