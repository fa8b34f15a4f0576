/* The main thread, on node 0, touches an array; a second thread reads it from every node in turn, then unbound. */
#include "target.h"

static uint64_t *data, total;
static size_t count;
static int array;

static void read_all(int slot)
{
    double start = tg_seconds();
    for (long round = 0; round < tg.rounds; round++) {
        for (size_t i = 0; i < count; i++)
            total += data[i]; // EXPECT moving
        TG_BARRIER();
    }
    tg_accessed(array, slot, 0, tg.bytes, (double)tg.rounds * (double)count, 0, tg_seconds() - start, "moving");
}

/* A line of its own: a thread that moves between emulated CPUs loses clock interrupts, so its share is not
 * comparable. */
static void read_all_unbound(int slot)
{
    double start = tg_seconds();
    for (long round = 0; round < tg.rounds; round++) {
        for (size_t i = 0; i < count; i++)
            total += data[i]; // EXPECT unbound
        TG_BARRIER();
    }
    tg_accessed(array, slot, 0, tg.bytes, (double)tg.rounds * (double)count, 0, tg_seconds() - start, "unbound");
}

static void *moving(void *nothing)
{
    (void)nothing;
    cpu_set_t everywhere;
    CPU_ZERO(&everywhere);
    for (int n = 0; n < tg.nodes; n++)
        CPU_OR(&everywhere, &everywhere, &tg.cpus_of[n]);
    for (int n = 0; n <= tg.nodes; n++) {
        cpu_set_t *cpus = n < tg.nodes ? &tg.cpus_of[n] : &everywhere;
        if (sched_setaffinity(0, sizeof *cpus, cpus))
            tg_die("sched_setaffinity");
        tg_note_thread(n + 1);
        if (n < tg.nodes)
            read_all(n + 1);
        else
            read_all_unbound(n + 1);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    tg_start(argc, argv, "affinity", 4, 400);
    tg.pin = 1;
    tg_enter(0, 0);
    count = tg.bytes / 8;
    data = malloc(tg.bytes);
    array = tg_array("data", data, tg.bytes);
    for (size_t i = 0; i < count; i++)
        data[i] = i * i; // EXPECT first-touch
    tg_touched(array, 0, 0, tg.bytes, "first-touch");
    if ((errno = pthread_create(&thread, NULL, moving, NULL)))
        tg_die("pthread_create");
    pthread_join(thread, NULL);
    printf("affinity: %lu\n", (unsigned long)total);
    tg_finish();
    free(data);
    return 0;
}
