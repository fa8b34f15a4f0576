// Pairs of normal deviates, counted by size, OpenMP, after NPB's EP: arithmetic, little memory.
// Verifies itself: the counts are what the distribution gives.
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCK = 1 << 12 };

int main(int argc, char **argv) {
    long blocks = argc > 1 ? atol(argv[1]) : 100;
    long inside = 0, small = 0;
#pragma omp parallel for reduction(+ : inside, small)
    for (long block = 0; block < blocks; block++) {
        double numbers[2 * BLOCK];
        uint64_t seed = (uint64_t)block * 0x9e3779b97f4a7c15u + 1;
        for (int i = 0; i < 2 * BLOCK; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            numbers[i] = (double)(seed >> 11) * 0x1p-52 - 1;
        }
        for (int i = 0; i < BLOCK; i++) {
            double x = numbers[2 * i], y = numbers[2 * i + 1], t = x * x + y * y;
            if (t > 1 || t == 0) continue;
            double scale = sqrt(-2 * log(t) / t), a = fabs(x * scale), b = fabs(y * scale);
            inside++;
            small += (a > b ? a : b) < 1;
        }
    }
    // A pair lies in the circle with pi/4, and within the square of one deviation with erf(sqrt(1/2)) squared.
    double circle = (double)inside / ((double)blocks * BLOCK), square = (double)small / (double)inside;
    int right = fabs(circle - M_PI / 4) < 0.01 && fabs(square - 0.46607) < 0.01;
    printf("counts %s\n", right ? "right" : "WRONG");
    return right ? 0 : 2;
}
