// Rows of a sparse matrix, multiplied as compilers for wide vectors do it: by gathers.
#include <immintrin.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 1 << 16, IN_A_ROW = 32 };

__attribute__((target("avx2,fma"))) static void multiply(const int *column, const double *value, const double *x, double *y) {
    for (int row = 0; row < ROWS; row++) {
        __m256d sum = _mm256_setzero_pd();
        for (int i = row * IN_A_ROW; i < (row + 1) * IN_A_ROW; i += 4) {
            __m128i index = _mm_loadu_si128((const __m128i *)(column + i));
            sum = _mm256_fmadd_pd(_mm256_loadu_pd(value + i), _mm256_i32gather_pd(x, index, 8), sum);
        }
        y[row] = sum[0] + sum[1] + sum[2] + sum[3];
    }
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 1;
    int *column = malloc(sizeof *column * ROWS * IN_A_ROW);
    double *value = malloc(sizeof *value * ROWS * IN_A_ROW), *x = malloc(sizeof *x * ROWS), *y = malloc(sizeof *y * ROWS);
    if (!column || !value || !x || !y) return 1;
    unsigned seed = 1;
    for (int i = 0; i < ROWS * IN_A_ROW; i++) {
        seed = seed * 1664525 + 1013904223;
        column[i] = (int)(seed >> 16);
        value[i] = i % 7;
    }
    for (int i = 0; i < ROWS; i++) x[i] = i % 5;
    for (int round = 0; round < rounds; round++) multiply(column, value, x, y);
    printf("%g\n", y[77]);
}
