// V-cycles of multigrid for Poisson's equation on a cube, OpenMP, after NPB's MG: stencils on grids of falling size.
// Verifies itself: the cycles bring the residual down.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEVELS = 6, FINEST = 1 << LEVELS };

// The grid of level l has (1 << l) + 1 points along an edge, the boundary is zero.
static int points(int level) { return (1 << level) + 1; }
#define AT(a, n, i, j, k) (a)[((size_t)(i) * (n) + (j)) * (n) + (k)]

static void smooth(double *u, const double *f, int level) {
    int n = points(level);
    double h = 1.0 / (n - 1), hh = h * h;
    for (int colour = 0; colour < 2; colour++) {
#pragma omp parallel for
        for (int i = 1; i < n - 1; i++)
            for (int j = 1; j < n - 1; j++)
                for (int k = 1 + ((i + j + colour) & 1); k < n - 1; k += 2)
                    AT(u, n, i, j, k) = (AT(u, n, i - 1, j, k) + AT(u, n, i + 1, j, k) + AT(u, n, i, j - 1, k) +
                                         AT(u, n, i, j + 1, k) + AT(u, n, i, j, k - 1) + AT(u, n, i, j, k + 1) +
                                         hh * AT(f, n, i, j, k)) / 6;
    }
}

static double residual(const double *u, const double *f, double *r, int level) {
    int n = points(level);
    double scale = (double)(n - 1) * (n - 1), sum = 0;
#pragma omp parallel for reduction(+ : sum)
    for (int i = 1; i < n - 1; i++)
        for (int j = 1; j < n - 1; j++)
            for (int k = 1; k < n - 1; k++) {
                double value = AT(f, n, i, j, k) -
                               scale * (6 * AT(u, n, i, j, k) - AT(u, n, i - 1, j, k) - AT(u, n, i + 1, j, k) -
                                        AT(u, n, i, j - 1, k) - AT(u, n, i, j + 1, k) - AT(u, n, i, j, k - 1) -
                                        AT(u, n, i, j, k + 1));
                AT(r, n, i, j, k) = value;
                sum += value * value;
            }
    return sqrt(sum);
}

static void restrict_to(const double *fine, double *coarse, int level) {
    int n = points(level), m = points(level - 1);
#pragma omp parallel for
    for (int i = 1; i < m - 1; i++)
        for (int j = 1; j < m - 1; j++)
            for (int k = 1; k < m - 1; k++) {
                double sum = 0;
                for (int a = -1; a <= 1; a++)
                    for (int b = -1; b <= 1; b++)
                        for (int c = -1; c <= 1; c++)
                            sum += AT(fine, n, 2 * i + a, 2 * j + b, 2 * k + c) / (8 << (abs(a) + abs(b) + abs(c)));
                AT(coarse, m, i, j, k) = sum;
            }
}

static void prolong(const double *coarse, double *fine, int level) {
    int n = points(level), m = points(level - 1);
#pragma omp parallel for
    for (int i = 1; i < n - 1; i++)
        for (int j = 1; j < n - 1; j++)
            for (int k = 1; k < n - 1; k++) {
                double sum = 0;
                for (int a = 0; a <= (i & 1); a++)
                    for (int b = 0; b <= (j & 1); b++)
                        for (int c = 0; c <= (k & 1); c++) sum += AT(coarse, m, i / 2 + a, j / 2 + b, k / 2 + c);
                AT(fine, n, i, j, k) += sum / (1 << ((i & 1) + (j & 1) + (k & 1)));
            }
}

int main(int argc, char **argv) {
    int cycles = argc > 1 ? atoi(argv[1]) : 1;
    double *u[LEVELS + 1], *f[LEVELS + 1], *r[LEVELS + 1];
    for (int level = 1; level <= LEVELS; level++) {
        size_t bytes = sizeof(double) * points(level) * points(level) * points(level);
        if (!(u[level] = calloc(1, bytes)) || !(f[level] = calloc(1, bytes)) || !(r[level] = calloc(1, bytes))) return 1;
    }
    int n = points(LEVELS);
    for (int i = 1; i < n - 1; i++)
        for (int j = 1; j < n - 1; j++)
            for (int k = 1; k < n - 1; k++) AT(f[LEVELS], n, i, j, k) = (i * 7 + j * 5 + k * 3) % 11 - 5;
    double first = residual(u[LEVELS], f[LEVELS], r[LEVELS], LEVELS), last = first;
    for (int cycle = 0; cycle < cycles; cycle++) {
        for (int level = LEVELS; level > 1; level--) {
            smooth(u[level], f[level], level);
            residual(u[level], f[level], r[level], level);
            restrict_to(r[level], f[level - 1], level);
            size_t m = points(level - 1);
            memset(u[level - 1], 0, sizeof(double) * m * m * m);
        }
        for (int sweep = 0; sweep < 4; sweep++) smooth(u[1], f[1], 1);
        for (int level = 2; level <= LEVELS; level++) {
            prolong(u[level - 1], u[level], level);
            smooth(u[level], f[level], level);
        }
        last = residual(u[LEVELS], f[LEVELS], r[LEVELS], LEVELS);
    }
    int fell = last < first * 1e-2;
    printf("residual %s\n", fell ? "fell" : "DID NOT FALL");
    return fell ? 0 : 2;
}
