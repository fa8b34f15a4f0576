/* The main thread, on node 0, touches an array; a thread on node 1 reads and writes it for so long that the kernel
 * looks who uses it (by taking its mappings away for a moment, so that it faults again) and moves it there. */
#include "target.h"

static uint64_t *data;
static size_t count;
static int array;

static void work(int slot)
{
    if (slot != 1) /* its node is the second one */
        return;
    double start = tg_seconds();
    while (tg_seconds() - start < 5) {
        for (size_t i = 0; i < count; i++)
            data[i] = data[i] * 3 + 1; // EXPECT used
    }
}

int main(int argc, char **argv)
{
    tg_start(argc, argv, "numa-balancing", 4, 1);
    tg_enter(0, 0);
    count = tg.bytes / 8;
    data = malloc(tg.bytes);
    array = tg_array("data", data, tg.bytes);
    for (size_t i = 0; i < count; i++)
        data[i] = i * i; // EXPECT first-touch
    tg_touched(array, 0, 0, tg.bytes, "first-touch");
    tg_run(work);
    tg_finish();
    free(data);
    return 0;
}
