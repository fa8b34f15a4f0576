// Input for the programs of the suite, the same every time: generate text BYTES | lines COUNT | c FUNCTIONS
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state = 88172645463325252u;

static uint64_t next(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    long amount = atol(argv[2]);
    if (!strcmp(argv[1], "text")) {
        // Words that repeat, so that there is something to compress.
        for (long bytes = 0; bytes < amount;) bytes += printf("%lu%c", next() % 3000 * 7919, next() % 12 ? ' ' : '\n');
    } else if (!strcmp(argv[1], "lines")) {
        for (long line = 0; line < amount; line++) printf("%016lx %ld\n", next(), line);
    } else if (!strcmp(argv[1], "c")) {
        for (long f = 0; f < amount; f++) {
            printf("int f%ld(int *a, int n) {\n    int s = %lu;\n", f, next() % 1000);
            for (int line = 0; line < 6; line++)
                printf("    for (int i = 0; i < n; i++) s = (s ^ a[i]) * %lu + (s >> %lu);\n", next() % 9999, next() % 30 + 1);
            printf("    return s;\n}\n");
        }
    } else {
        return 2;
    }
    return fflush(stdout) != 0;
}
