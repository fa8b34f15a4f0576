// a[i] = b[i] + s * c[i] over three arrays of 64 MiB: bandwidth, few faults, one hot line.
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    size_t n = 8u << 20;
    int passes = argc > 1 ? atoi(argv[1]) : 1;
    double *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b), *c = malloc(n * sizeof *c);
    if (!a || !b || !c) return 1;
    for (size_t i = 0; i < n; i++) {
        a[i] = 0;
        b[i] = (double)i;
        c[i] = 1.0 / (double)(i + 1);
    }
    for (int pass = 0; pass < passes; pass++)
        for (size_t i = 0; i < n; i++) a[i] = b[i] + (pass + 0.5) * c[i];
    printf("%g\n", a[n / 2]);
}
