/* What numalens.h is for: marks KIND */
#include "numalens.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

static volatile long data[1 << 14];

/* Works for so much processor time. */
#define BUSY(milliseconds) \
    do { \
        clock_t until = clock() + (milliseconds) * (CLOCKS_PER_SEC / 1000); \
        while (clock() < until) \
            for (int i = 0; i < 1 << 14; i++) data[i]++; \
    } while (0)

__attribute__((noinline)) static void outside(void) { BUSY(100); }
__attribute__((noinline)) static void inside(void) { BUSY(150); }

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "arena")) {
        char *arena = malloc(8 << 20);
        char *grid = arena + (1 << 20);
        numalens_alloc(grid, 1 << 20); /* EXPECT grid */
        numalens_name(grid, "the grid");
        clock_t until = clock() + CLOCKS_PER_SEC / 5;
        while (clock() < until)
            for (int i = 0; i < 1 << 20; i++) ((volatile char *)grid)[i]++;
        numalens_free(grid);
        free(arena);
        return 0;
    }
    if (argc > 1 && !strcmp(argv[1], "phases")) {
        /* Ten times as much in the one in the middle. */
        static const char *const names[] = {"before", "solve", "after"};
        for (int phase = 0; phase < 3; phase++) {
            numalens_phase_begin(names[phase]);
            for (long i = 0; i < (phase == 1 ? 40L : 4L) << 20; i++) data[i % (1 << 14)]++;
            numalens_phase_end(names[phase]);
        }
        return 0;
    }
    outside();
    numalens_start();
    numalens_phase_begin("solve");
    numalens_phase_begin("inner");
    inside();
    numalens_phase_end("inner");
    numalens_mark("half way");
    inside();
    numalens_phase_end("solve");
    numalens_phase_end("never begun");
    numalens_stop();
    outside();
    numalens_moved();
    return 0;
}
