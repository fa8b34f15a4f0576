/* An array that main initialises (argument b), or its threads (p); then threads use it. */
#include <stdio.h>
#include <stdlib.h>

enum { N = 1 << 20, ROUNDS = 6 };

int main(int argc, char **argv) {
    float *array = malloc(N * sizeof *array);
    if (argc > 1 && argv[1][0] == 'b')
        for (int i = 0; i < N; i++) array[i] = i;
    else {
#pragma omp parallel for schedule(static)
        for (int i = 0; i < N; i++) array[i] = i;
    }
    for (int round = 0; round < ROUNDS; round++) {
#pragma omp parallel for schedule(static)
        for (int i = 0; i < N; i++) array[i] = array[i] * 1.5f + 1; /* use */
    }
    printf("%g\n", array[N - 1]);
}
