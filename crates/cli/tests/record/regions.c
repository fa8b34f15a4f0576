/* OpenMP's parallel regions: one long one, and one that is begun again and again. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 1 << 20, TIMES = 20000 };

static void fill(double *data)
{
#pragma omp parallel for num_threads(2) // EXPECT fill
    for (int i = 0; i < N; i++)
        data[i] = i;
}

static long step(long sum)
{
#pragma omp parallel num_threads(2) reduction(+ : sum) // EXPECT step
    sum += omp_get_thread_num();
    return sum;
}

static double total(const double *data)
{
    double sum = 0;
#pragma omp parallel for num_threads(2) schedule(dynamic, 4096) reduction(+ : sum) // EXPECT total
    for (int i = 0; i < N; i++)
        sum += data[i];
    return sum;
}

int main(void)
{
    double *data = malloc(N * sizeof *data);
    if (!data)
        return 1;
    fill(data);
    long sum = 0;
    for (int i = 0; i < TIMES; i++)
        sum = step(sum);
    printf("%ld %.0f\n", sum, total(data));
    free(data);
    return 0;
}
