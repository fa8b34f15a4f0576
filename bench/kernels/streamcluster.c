// Points assigned to the nearest of some centres and the centres moved, OpenMP, after PARSEC's streamcluster: distances
// in many dimensions. Verifies itself: the cost falls.
#include <float.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POINTS = 16384, DIMENSIONS = 32, CENTRES = 20 };

static float distance(const float *a, const float *b) {
    float sum = 0;
    for (int i = 0; i < DIMENSIONS; i++) sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sum;
}

int main(int argc, char **argv) {
    int passes = argc > 1 ? atoi(argv[1]) : 1;
    // Each point is a block of its own, as programs have them.
    float **point = malloc(sizeof *point * POINTS);
    int *nearest = malloc(sizeof *nearest * POINTS);
    static float centre[CENTRES][DIMENSIONS];
    if (!point || !nearest) return 1;
    uint64_t random = 88172645463325252u;
    for (int i = 0; i < POINTS; i++) {
        if (!(point[i] = malloc(sizeof(float) * DIMENSIONS))) return 1;
        for (int d = 0; d < DIMENSIONS; d++) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            point[i][d] = (float)(random >> 40) / (1 << 24) + (float)(i % CENTRES);
        }
    }
    for (int c = 0; c < CENTRES; c++) memcpy(centre[c], point[c * 7], sizeof centre[c]);
    double first = 0, cost = 0;
    for (int pass = 0; pass < passes; pass++) {
        cost = 0;
#pragma omp parallel for reduction(+ : cost)
        for (int i = 0; i < POINTS; i++) {
            float best = FLT_MAX;
            for (int c = 0; c < CENTRES; c++) {
                float here = distance(point[i], centre[c]);
                if (here < best) {
                    best = here;
                    nearest[i] = c;
                }
            }
            cost += best;
        }
        if (pass == 0) first = cost;
        static double sum[CENTRES][DIMENSIONS];
        static int members[CENTRES];
        memset(sum, 0, sizeof sum);
        memset(members, 0, sizeof members);
        for (int i = 0; i < POINTS; i++) {
            members[nearest[i]]++;
            for (int d = 0; d < DIMENSIONS; d++) sum[nearest[i]][d] += point[i][d];
        }
        for (int c = 0; c < CENTRES; c++)
            for (int d = 0; d < DIMENSIONS && members[c]; d++) centre[c][d] = (float)(sum[c][d] / members[c]);
    }
    printf("cost %s\n", cost <= first ? "fell" : "ROSE");
    return cost <= first ? 0 : 2;
}
