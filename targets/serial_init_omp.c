/* Fault: one thread initialises, all use their own block (OpenMP).
 *
 * As serial_init_pthreads.c, with thread 0 of the team being the main thread. Expected: first-touch names the line
 * below with all of the array's pages; the line of the update is on top of `lines`, (N-1)/N of its accesses remote on N
 * nodes; pattern: serial initialisation; remedy: initialise in parallel. With FIXED it does.
 */
#include "target.h"
#include <omp.h>

int main(int argc, char **argv)
{
    tg_start(argc, argv, "serial_init_omp", 64, 100);
    omp_set_dynamic(0);
    omp_set_num_threads(tg.threads);
    tg_enter(0, 0);
    size_t count = tg.bytes / 8, block = count / (size_t)tg.threads;
    uint64_t *data = malloc(tg.bytes); // EXPECT object
    int array = tg_array("data", data, tg.bytes);
    double start = tg_seconds();
#ifdef FIXED
#pragma omp parallel for schedule(static)
#endif
    for (size_t i = 0; i < count; i++)
        data[i] = i * i; // EXPECT first-touch
    tg_accessed(array, 0, 0, tg.bytes, 0, (double)count, tg_seconds() - start, "first-touch");
    tg_touched(array, 0, 0, tg.bytes, "first-touch");

#pragma omp parallel
    {
        int me = omp_get_thread_num();
        if (me)
            tg_enter(me, me);
        double began = tg_seconds();
        for (long round = 0; round < tg.rounds; round++) {
#pragma omp for schedule(static) nowait
            for (size_t i = 0; i < count; i++)
                data[i] = data[i] * 3 + 1; // EXPECT remote
            TG_BARRIER();
        }
        double accesses = (double)tg.rounds * (double)block;
        tg_accessed(array, me, (size_t)me * block * 8, (size_t)(me + 1) * block * 8, accesses, accesses, tg_seconds() - began, "remote");
    }

    uint64_t total = 0;
    for (size_t i = 0; i < count; i += 512)
        total += data[i];
    printf("serial_init_omp: %lu\n", (unsigned long)total);
    tg_finish();
    free(data);
    return 0;
}
