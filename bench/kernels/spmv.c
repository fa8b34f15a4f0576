// Sparse matrix times vector with OpenMP, rows of 16 entries at random columns: several threads, indirect loads.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 1 << 18, PER_ROW = 16 };

int main(int argc, char **argv) {
    int passes = argc > 1 ? atoi(argv[1]) : 1;
    uint32_t *column = malloc(sizeof *column * ROWS * PER_ROW);
    double *value = malloc(sizeof *value * ROWS * PER_ROW), *x = malloc(sizeof *x * ROWS), *y = malloc(sizeof *y * ROWS);
    if (!column || !value || !x || !y) return 1;
    uint64_t random = 88172645463325252u;
    for (size_t i = 0; i < (size_t)ROWS * PER_ROW; i++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        column[i] = random % ROWS;
        value[i] = 1.0 / PER_ROW;
    }
    for (size_t i = 0; i < ROWS; i++) x[i] = (double)i;
    for (int pass = 0; pass < passes; pass++) {
#pragma omp parallel for schedule(static)
        for (size_t row = 0; row < ROWS; row++) {
            double sum = 0;
            for (size_t i = row * PER_ROW; i < (row + 1) * PER_ROW; i++) sum += value[i] * x[column[i]];
            y[row] = sum;
        }
        double *swap = x;
        x = y;
        y = swap;
    }
    printf("%g\n", x[ROWS / 2]);
}
