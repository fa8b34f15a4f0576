/* Variables of every section; prints where they are and waits for the end of its input. */
#include <stdio.h>

char table[4000] = {1};
char zeroes[80000];
const int constants[100] = {1, 2, 3};

static long *count(void) {
    static long counter;
    counter++;
    return &counter;
}

int main(void) {
    printf("table %p\ntable_end %p\nzeroes %p\nzeroes_end %p\nconstants %p\ncounter %p\nready\n", (void *)table,
           (void *)(table + 3999), (void *)zeroes, (void *)(zeroes + 79999), (void *)constants, (void *)count());
    fflush(stdout);
    return getchar() == EOF ? 0 : 1;
}
