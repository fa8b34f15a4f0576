/* Kernels whose every access goes to arrays that the program names on its output:
 *     range NAME FIRST LAST
 * Each runs for about a second. Usage: kernels triad|random|chase|matvec|stencil|buckets|butterflies */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KERNEL __attribute__((noinline, noclone)) void

static void *array(const char *name, size_t bytes) {
    char *memory = aligned_alloc(4096, (bytes + 4095) & ~(size_t)4095);
    if (!memory) exit(1);
    memset(memory, 0, bytes);
    printf("range %s %p %p\n", name, (void *)memory, (void *)(memory + bytes));
    return memory;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

static uint64_t seed = 88172645463325252ull;
static uint64_t any(void) {
    seed ^= seed << 13; seed ^= seed >> 7; seed ^= seed << 17;
    return seed;
}

/* Keeps the compiler from dropping a kernel whose result nobody reads. */
static void *volatile result;

enum { N = 1 << 22 };

KERNEL kernel_triad(double *restrict a, const double *restrict b, const double *restrict c, double s) {
    for (long i = 0; i < N; i++) a[i] = b[i] + s * c[i];
}

KERNEL kernel_random(uint64_t *table, uint64_t x) {
    for (long i = 0; i < N; i++) {
        x = (x << 1) ^ ((int64_t)x < 0 ? 7 : 0);
        table[x & (N - 1)] ^= x;
    }
}

struct node { struct node *next; char rest[56]; };
KERNEL kernel_chase(struct node *at, struct node **out) {
    for (long i = 0; i < N; i++) at = at->next;
    *out = at;
}

KERNEL kernel_matvec(long rows, const int *start, const int *column, const double *value, const double *x, double *y) {
    for (long i = 0; i < rows; i++) {
        double sum = 0;
        for (int k = start[i]; k < start[i + 1]; k++) sum += value[k] * x[column[k]];
        y[i] = sum;
    }
}

enum { EDGE = 128 };
KERNEL kernel_stencil(const double *restrict u, double *restrict r) {
    for (long z = 1; z < EDGE - 1; z++)
        for (long y = 1; y < EDGE - 1; y++)
            for (long x = 1; x < EDGE - 1; x++) {
                long i = (z * EDGE + y) * EDGE + x;
                r[i] = 0.5 * u[i] + 0.1 * (u[i - 1] + u[i + 1] + u[i - EDGE] + u[i + EDGE] + u[i - EDGE * EDGE] + u[i + EDGE * EDGE]);
            }
}

KERNEL kernel_buckets(const uint32_t *keys, uint32_t *counts) {
    for (long i = 0; i < N; i++) counts[keys[i]]++;
}

struct complex { double re, im; };
KERNEL kernel_butterflies(struct complex *data, const struct complex *roots, long span) {
    for (long base = 0; base < N / 2; base += 2 * span)
        for (long k = 0; k < span; k++) {
            struct complex a = data[base + k], b = data[base + k + span], w = roots[k];
            double re = b.re * w.re - b.im * w.im, im = b.re * w.im + b.im * w.re;
            data[base + k].re = a.re + re; data[base + k].im = a.im + im;
            data[base + k + span].re = a.re - re; data[base + k + span].im = a.im - im;
        }
}

#define FOR_A_SECOND fflush(stdout); for (double end = now() + 1; now() < end;)

int main(int argc, char **argv) {
    const char *which = argc > 1 ? argv[1] : "";
    if (!strcmp(which, "triad")) {
        double *a = array("a", N * 8), *b = array("b", N * 8), *c = array("c", N * 8);
        FOR_A_SECOND kernel_triad(a, b, c, 3);
    } else if (!strcmp(which, "random")) {
        uint64_t *table = array("table", N * 8);
        FOR_A_SECOND kernel_random(table, any());
    } else if (!strcmp(which, "chase")) {
        long count = 1 << 20;
        struct node *nodes = array("nodes", count * sizeof *nodes), *out;
        uint32_t *order = malloc(count * 4);
        for (long i = 0; i < count; i++) order[i] = i;
        for (long i = count - 1; i > 0; i--) {
            long j = any() % i;
            uint32_t t = order[i]; order[i] = order[j]; order[j] = t;
        }
        for (long i = 0; i < count; i++) nodes[order[i]].next = &nodes[order[(i + 1) % count]];
        FOR_A_SECOND { kernel_chase(nodes, &out); result = out; }
    } else if (!strcmp(which, "matvec")) {
        long rows = 1 << 17, per = 13;
        int *start = array("start", (rows + 1) * 4), *column = array("column", rows * per * 4);
        double *value = array("value", rows * per * 8), *x = array("x", rows * 8), *y = array("y", rows * 8);
        for (long i = 0; i <= rows; i++) start[i] = i * per;
        for (long k = 0; k < rows * per; k++) column[k] = any() % rows;
        FOR_A_SECOND kernel_matvec(rows, start, column, value, x, y);
    } else if (!strcmp(which, "stencil")) {
        double *u = array("u", EDGE * EDGE * EDGE * 8), *r = array("r", EDGE * EDGE * EDGE * 8);
        FOR_A_SECOND kernel_stencil(u, r);
    } else if (!strcmp(which, "buckets")) {
        uint32_t *keys = array("keys", N * 4), *counts = array("counts", N * 4);
        for (long i = 0; i < N; i++) keys[i] = any() % N;
        FOR_A_SECOND kernel_buckets(keys, counts);
    } else if (!strcmp(which, "butterflies")) {
        struct complex *data = array("data", (size_t)N / 2 * sizeof *data), *roots = array("roots", (size_t)N / 4 * sizeof *roots);
        for (long i = 0; i < N / 4; i++) roots[i].re = 1;
        FOR_A_SECOND for (long span = 1; span < N / 4; span *= 4) kernel_butterflies(data, roots, span);
    } else {
        return 2;
    }
    return 0;
}
