/* One thread on node 0 touches and reads arrays that lie elsewhere by policy: of the range (mbind) and of the thread
 * (set_mempolicy). With --pin the homes follow from the policies, whatever node the thread is on. */
#include "target.h"

static uint64_t total;

static void use(const char *name, int mode, unsigned long nodes, int of_thread)
{
    size_t count = tg.bytes / 8;
    uint64_t *data = mmap(NULL, tg.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED)
        tg_die("mmap");
    int array = tg_array(name, data, tg.bytes);
    tg.array[array].bound = mode == MPOL_BIND && !of_thread;
    if (of_thread ? syscall(SYS_set_mempolicy, mode, &nodes, 64ul) : syscall(SYS_mbind, data, tg.bytes, mode, &nodes, 64ul, 0))
        tg_die(of_thread ? "set_mempolicy" : "mbind");
    for (size_t i = 0; i < count; i++)
        data[i] = i * i; // EXPECT first-touch
    if (of_thread && syscall(SYS_set_mempolicy, MPOL_DEFAULT, NULL, 0ul))
        tg_die("set_mempolicy");
    tg_touched(array, 0, 0, tg.bytes, "first-touch");
    double start = tg_seconds();
    for (long round = 0; round < tg.rounds; round++) {
        for (size_t i = 0; i < count; i++)
            total += data[i]; // EXPECT read
        TG_BARRIER();
    }
    tg_accessed(array, 0, 0, tg.bytes, (double)tg.rounds * (double)count, 0, tg_seconds() - start, "read");
}

int main(int argc, char **argv)
{
    tg_start(argc, argv, "policies", 4, 300);
    tg_enter(0, 0);
    unsigned long all = (1ul << (tg.node[tg.nodes - 1] + 1)) - 1, last = 1ul << tg.node[tg.nodes - 1];
    use("bound", MPOL_BIND, last, 0);
    use("interleaved", MPOL_INTERLEAVE, all, 0);
    use("preferred", MPOL_PREFERRED, last, 0);
    use("interleaved_by_thread", MPOL_INTERLEAVE, all, 1);
    use("preferred_by_thread", MPOL_PREFERRED, last, 1);
    printf("policies: %lu\n", (unsigned long)total);
    tg_finish();
    return 0;
}
