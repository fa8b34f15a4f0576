/* Fault: threads that share with each other are on different nodes, with threads that they share nothing with.
 *
 * Two processes of two threads each; the threads of one process share an array, nothing is shared between processes.
 * The threads of each process are nevertheless spread over nodes 0 and 1. Expected: one profile row set per process;
 * the first thread of each process touches first, so half of the accesses of each process are remote; remedy: put the
 * threads of one process on one node. The truth of child K is in FILE.K (the parent, who only waits, has no arrays).
 * After Apache, as MemProf found it (Lachaize, Lepers and Quema): most remote accesses were to objects that the threads
 * of one process share, and pinning each process to one node made 20 % (remote accesses: from 75 to 10 %).
 * With FIXED each process binds itself to one node.
 */
#include "target.h"
#include <sys/wait.h>

#define PROCESSES 2

static uint64_t *data;
static size_t mask;
static int array;
static uint64_t *sums;
static pthread_barrier_t ready;
static int started; /* where a process says that all of its threads are there */

static void work(int slot)
{
    uint64_t sum = 0, at = (uint64_t)slot * 0x9e3779b97f4a7c15ul;
    double start = tg_seconds();
    if (slot == 1) {
        for (size_t i = 0; i <= mask; i++)
            data[i] = i * i; // EXPECT first-touch
        tg_accessed(array, slot, 0, (mask + 1) * 8, 0, (double)mask + 1, tg_seconds() - start, "first-touch");
        tg_touched(array, slot, 0, (mask + 1) * 8, "first-touch");
    }
    pthread_barrier_wait(&ready);
    if (slot == 1 && write(started, "", 1) != 1)
        tg_die("write");
    start = tg_seconds();
    for (long n = 0; n < tg.rounds; n++) {
        at = at * 6364136223846793005ul + 1442695040888963407ul;
        sum += data[(at >> 33) & mask]; // EXPECT remote
    }
    tg_accessed(array, slot, 0, (mask + 1) * 8, (double)tg.rounds, 0, tg_seconds() - start, "remote");
    sums[slot - 1] = sum;
}

static int child(int number, int out)
{
    started = out;
    tg_child(number);
    tg.threads = 2;
#ifdef FIXED
    /* Its threads inherit it. */
    if (sched_setaffinity(0, sizeof(cpu_set_t), &tg.cpus_of[(number - 1) % tg.nodes]))
        tg_die("sched_setaffinity");
    tg.pin = 0;
#endif
    tg_enter(0, 1); /* with the first worker */
    size_t count = 1;
    while (count * 2 * 8 * PROCESSES <= tg.bytes)
        count *= 2;
    mask = count - 1;
    data = malloc(count * 8); // EXPECT object
    sums = calloc((size_t)tg.threads, 8);
    array = tg_array("data", data, count * 8);
    pthread_barrier_init(&ready, NULL, (unsigned)tg.threads);
    tg_run(work);
    uint64_t total = sums[0] + sums[1] + (uint64_t)number;
    tg_finish();
    free(data);
    free(sums);
    return write(out, &total, sizeof total) == sizeof total ? 0 : 1;
}

int main(int argc, char **argv)
{
    tg_start(argc, argv, "fork_share_within", 64, 20000000);
    tg_enter(0, 0);
    uint64_t total = 0;
    int ends[PROCESSES][2], status, failed = 0;
    for (int p = 0; p < PROCESSES; p++) {
        if (pipe(ends[p]))
            tg_die("pipe");
        pid_t pid = fork();
        if (pid < 0)
            tg_die("fork");
        if (pid == 0)
            return child(p + 1, ends[p][1]);
        close(ends[p][1]);
        /* One process after the other: placed in the order of their start, the threads of each are on two nodes. */
        char byte;
        if (read(ends[p][0], &byte, 1) != 1)
            failed = 1;
    }
    for (int p = 0; p < PROCESSES; p++) {
        uint64_t part = 0;
        if (read(ends[p][0], &part, sizeof part) != sizeof part)
            failed = 1;
        total += part;
    }
    while (wait(&status) > 0)
        failed |= status != 0;
    printf("fork_share_within: %lu\n", (unsigned long)total);
    tg_finish();
    return failed;
}
