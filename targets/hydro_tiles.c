/* Fault: tiles are allocated in the order of their numbers and used in the order of an index array; the main thread
 * allocates the threads' buffers.
 *
 * After Hydro (HydroC, as Valat and Bouizi found it with NUMAPROF): the threads allocate the tiles in a loop over i,
 * and compute in a loop over order[i], so that almost nobody works on tiles of its own; the buffers that the threads
 * work in are allocated in a loop that is not parallel and lie on the first node. Expected: the tile's update is the
 * top line, (N-1)/N of its accesses remote on N nodes though the first touches are spread over all nodes; every tile
 * and every buffer has one user; remedy: allocate in the thread that uses it, for both. They did, by the same
 * indirection in the allocating loop, and the matrix became diagonal (18 % less time).
 * With FIXED both loops allocate where the tile, or the buffer, is used. */
#include "target.h"

#define EACH 4 /* tiles of one thread */

static uint64_t *tile[TG_MAX_ARRAYS], *buffer[TG_MAX_ARRAYS];
static int tile_array[TG_MAX_ARRAYS], buffer_array[TG_MAX_ARRAYS], order[TG_MAX_ARRAYS], tiles;
static size_t count, row = 16384; /* elements of a tile, and of a buffer */
static uint64_t *sums;
static pthread_barrier_t ready;

/* A name for the truth, which is written at the end: kept. */
static const char *name_of(const char *what, int number)
{
    char *name;
    if (asprintf(&name, "%s%d", what, number) < 0)
        tg_die("asprintf");
    return name;
}

static void make_tile(int t, int slot)
{
    tile[t] = aligned_alloc(TG_PAGE, count * 8); // EXPECT object
    tile_array[t] = tg_array(name_of("tile", t), tile[t], count * 8);
    for (size_t i = 0; i < count; i++)
        ((volatile uint64_t *)tile[t])[i] = i * (size_t)(t + 1); // EXPECT first-touch
    tg_touched(tile_array[t], slot, 0, count * 8, "first-touch");
}

static void make_buffer(int owner, int slot)
{
    buffer[owner] = aligned_alloc(TG_PAGE, row * 8);
    buffer_array[owner] = tg_array(name_of("buffer", owner), buffer[owner], row * 8);
    for (size_t i = 0; i < row; i++)
        ((volatile uint64_t *)buffer[owner])[i] = 0; // EXPECT buffer
    tg_touched(buffer_array[owner], slot, 0, row * 8, "buffer");
}

__attribute__((noinline)) static uint64_t update(uint64_t *own, uint64_t *rows)
{
    uint64_t sum = 0;
    for (size_t from = 0; from < count; from += row) {
        size_t n = count - from < row ? count - from : row;
        for (size_t i = 0; i < n; i++)
            *(volatile uint64_t *)&own[from + i] += 3; // EXPECT remote
        for (size_t i = 0; i < n; i += 4)
            sum += ++*(volatile uint64_t *)&rows[i]; // EXPECT remote-buffer
    }
    return sum;
}

static void work(int slot)
{
    int first = (slot - 1) * EACH;
#ifdef FIXED
    make_buffer(slot - 1, slot);
#endif
    for (int i = first; i < first + EACH; i++) {
#ifdef FIXED
        make_tile(order[i], slot);
#else
        make_tile(i, slot);
#endif
    }
    pthread_barrier_wait(&ready);
    double seconds[EACH] = { 0 };
    uint64_t sum = 0;
    for (long round = 0; round < tg.rounds; round++)
        for (int i = 0; i < EACH; i++) {
            double start = tg_seconds();
            sum += update(tile[order[first + i]], buffer[slot - 1]);
            seconds[i] += tg_seconds() - start;
        }
    double accesses = (double)tg.rounds * (double)count;
    for (int i = 0; i < EACH; i++)
        tg_accessed(tile_array[order[first + i]], slot, 0, count * 8, accesses, accesses, seconds[i], "remote");
    sums[slot - 1] = sum;
}

int main(int argc, char **argv)
{
    tg_start(argc, argv, "hydro_tiles", 32, 400);
    if (tg.threads * (EACH + 1) > TG_MAX_ARRAYS) {
        fprintf(stderr, "hydro_tiles: --threads takes 1 to %d\n", TG_MAX_ARRAYS / (EACH + 1));
        return 2;
    }
    tg_enter(0, 0);
    tiles = tg.threads * EACH;
    count = tg.bytes / 8 / (size_t)tiles;
    /* Thread t uses tiles t, t + N, t + 2 N, ... of N threads, and allocates the four that follow each other. */
    for (int i = 0; i < tiles; i++)
        order[i] = i % EACH * tg.threads + i / EACH;
    sums = calloc((size_t)tg.threads, 8);
    pthread_barrier_init(&ready, NULL, (unsigned)tg.threads);
#ifndef FIXED
    for (int t = 0; t < tg.threads; t++)
        make_buffer(t, 0);
#endif
    tg_run(work);
    uint64_t total = 0;
    for (int i = 0; i < tg.threads; i++)
        total += sums[i];
    printf("hydro_tiles: %lu\n", (unsigned long)total);
    tg_finish();
    for (int t = 0; t < tiles; t++)
        free(tile[t]);
    for (int t = 0; t < tg.threads; t++)
        free(buffer[t]);
    free(sums);
    return 0;
}
