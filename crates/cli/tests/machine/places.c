/* OpenMP threads in places: each works on memory of its own. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

enum { WORDS = 1 << 17 };

int main(void)
{
    printf("%d places of %d CPUs, %d CPUs\n", omp_get_num_places(), omp_get_place_num_procs(0), omp_get_num_procs());
#pragma omp parallel num_threads(4)
    {
        volatile long *own = malloc(WORDS * sizeof *own);
        for (int i = 0; i < WORDS; i++)
            own[i] = i;
    }
    return 0;
}
