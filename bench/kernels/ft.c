// Fourier transforms of a cube, forward and back, OpenMP, after NPB's FT: butterflies, and strides of a plane.
// Verifies itself: what comes back is what went in.
#include <complex.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { BITS = 6, N = 1 << BITS };
typedef double complex Number;

static Number roots[N];

static void line(Number *a, int inverse) {
    for (unsigned i = 1, j = 0; i < N; i++) {
        unsigned bit = N >> 1;
        for (; j & bit; bit >>= 1) j ^= bit;
        j ^= bit;
        if (i < j) {
            Number swap = a[i];
            a[i] = a[j];
            a[j] = swap;
        }
    }
    for (int half = 1; half < N; half *= 2)
        for (int start = 0; start < N; start += 2 * half)
            for (int k = 0; k < half; k++) {
                Number root = roots[k * (N / 2 / half)];
                double re = creal(root), im = inverse ? -cimag(root) : cimag(root);
                Number odd = a[start + k + half];
                Number t = CMPLX(creal(odd) * re - cimag(odd) * im, creal(odd) * im + cimag(odd) * re);
                a[start + k + half] = a[start + k] - t;
                a[start + k] += t;
            }
}

static void along(Number *cube, size_t stride, size_t outer, size_t inner, int inverse) {
#pragma omp parallel for
    for (int row = 0; row < N * N; row++) {
        Number buffer[N], *from = cube + (row / N) * outer + (row % N) * inner;
        for (int i = 0; i < N; i++) buffer[i] = from[i * stride];
        line(buffer, inverse);
        for (int i = 0; i < N; i++) from[i * stride] = inverse ? buffer[i] / N : buffer[i];
    }
}

static void transform(Number *cube, int inverse) {
    along(cube, 1, N * N, N, inverse);
    along(cube, N, N * N, 1, inverse);
    along(cube, N * N, N, 1, inverse);
}

int main(int argc, char **argv) {
    int passes = argc > 1 ? atoi(argv[1]) : 1;
    Number *cube = malloc(sizeof *cube * N * N * N);
    if (!cube) return 1;
    for (int i = 0; i < N; i++) roots[i] = cexp(-2 * M_PI * I * i / N);
    for (int i = 0; i < N * N * N; i++) cube[i] = CMPLX((i * 7919L) % 1009, (i * 104729L) % 997);
    for (int pass = 0; pass < passes; pass++) {
        transform(cube, 0);
        transform(cube, 1);
    }
    double worst = 0;
    for (int i = 0; i < N * N * N; i++)
        worst = fmax(worst, cabs(cube[i] - CMPLX((i * 7919L) % 1009, (i * 104729L) % 997)));
    printf("error %s\n", worst < 1e-6 ? "small" : "LARGE");
    return worst < 1e-6 ? 0 : 2;
}
