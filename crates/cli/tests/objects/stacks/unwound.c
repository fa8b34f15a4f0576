// A block of 7777 bytes, by a comparison that the C library calls.
#include <stdlib.h>
#define NI __attribute__((noinline))
static volatile long kept;
NI static int step_compare(const void *one, const void *other) {
    void *block = malloc(7777);
    kept += (long)block;
    free(block);
    return *(const int *)one - *(const int *)other;
}
NI static void step_sorts(int n) {
    int numbers[n];
    for (int i = 0; i < n; i++) numbers[i] = i;
    qsort(numbers, (size_t)n, sizeof *numbers, step_compare);
    kept += numbers[0];
}
NI static void step_again(int depth) {
    if (depth) step_again(depth - 1);
    else step_sorts(2);
    kept++;
}
int main(void) {
    step_again(2);
    return 0;
}
