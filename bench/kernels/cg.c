// Conjugate gradients on a random symmetric sparse matrix, OpenMP, after NPB's CG: indirect loads and reductions.
// Verifies itself: the residual of the solution is small.
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 30000, PER_ROW = 12, ENTRIES = 2 * ROWS * PER_ROW };

static int start[ROWS + 1], pair[ROWS * PER_ROW];

static double dot(const double *a, const double *b) {
    double sum = 0;
#pragma omp parallel for reduction(+ : sum)
    for (int i = 0; i < ROWS; i++) sum += a[i] * b[i];
    return sum;
}

static void multiply(const int *column, const double *value, const double *x, double *y) {
#pragma omp parallel for
    for (int row = 0; row < ROWS; row++) {
        // The diagonal dominates, so the matrix is positive definite.
        double sum = (start[row + 1] - start[row] + 1) * x[row];
        for (int i = start[row]; i < start[row + 1]; i++) sum += value[i] * x[column[i]];
        y[row] = sum;
    }
}

int main(int argc, char **argv) {
    int solves = argc > 1 ? atoi(argv[1]) : 1;
    int *column = malloc(sizeof *column * ENTRIES);
    double *value = malloc(sizeof *value * ENTRIES), *vectors = malloc(sizeof *vectors * ROWS * 5);
    if (!column || !value || !vectors) return 1;
    double *x = vectors, *b = x + ROWS, *r = b + ROWS, *p = r + ROWS, *q = p + ROWS;
    uint64_t random = 88172645463325252u;
    for (int i = 0; i < ROWS * PER_ROW; i++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        pair[i] = (int)(random % ROWS);
        start[i / PER_ROW + 1]++;
        start[pair[i] + 1]++;
    }
    for (int row = 0; row < ROWS; row++) start[row + 1] += start[row];
    static int filled[ROWS];
    for (int i = 0; i < ROWS * PER_ROW; i++) {
        int row = i / PER_ROW, other = pair[i];
        double entry = (i % 97) / 97.0;
        int at = start[row] + filled[row]++;
        column[at] = other;
        value[at] = entry;
        at = start[other] + filled[other]++;
        column[at] = row;
        value[at] = entry;
    }
    double worst = 0;
    for (int solve = 0; solve < solves; solve++) {
        for (int i = 0; i < ROWS; i++) {
            x[i] = 0;
            b[i] = r[i] = p[i] = 1.0 + (i + solve) % 7;
        }
        double rho = dot(r, r);
        for (int step = 0; step < 25; step++) {
            multiply(column, value, p, q);
            double alpha = rho / dot(p, q);
#pragma omp parallel for
            for (int i = 0; i < ROWS; i++) {
                x[i] += alpha * p[i];
                r[i] -= alpha * q[i];
            }
            double next = dot(r, r), beta = next / rho;
            rho = next;
#pragma omp parallel for
            for (int i = 0; i < ROWS; i++) p[i] = r[i] + beta * p[i];
        }
        multiply(column, value, x, q);
        for (int i = 0; i < ROWS; i++) r[i] = b[i] - q[i];
        worst = fmax(worst, sqrt(dot(r, r) / dot(b, b)));
    }
    printf("residual %s\n", worst < 1e-4 ? "small" : "LARGE");
    return worst < 1e-4 ? 0 : 2;
}
