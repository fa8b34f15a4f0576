/* A thread that may run anywhere touches two arrays: one is bound to a node beforehand, the other moved to it
 * afterwards. */
#include "target.h"

static uint64_t total;

static void use(const char *name, int moved)
{
    size_t count = tg.bytes / 8, pages = tg.bytes / TG_PAGE;
    unsigned long last = 1ul << tg.node[tg.nodes - 1];
    uint64_t *data = mmap(NULL, tg.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED)
        tg_die("mmap");
    int array = tg_array(name, data, tg.bytes);
    tg.array[array].bound = 1;
    /* Where they are touched first, so that to move them is to move them. */
    unsigned long first = 1ul << tg.node[0];
    if (syscall(SYS_mbind, data, tg.bytes, moved ? MPOL_PREFERRED : MPOL_BIND, moved ? &first : &last, 64ul, 0))
        tg_die("mbind");
    for (size_t i = 0; i < count; i++)
        data[i] = i * i; // EXPECT first-touch
    tg_touched(array, 0, 0, tg.bytes, "first-touch");
    if (moved) {
        void **address = calloc(pages, sizeof *address);
        int *node = calloc(pages, sizeof *node), *status = calloc(pages, sizeof *status);
        for (size_t p = 0; p < pages; p++) {
            address[p] = (char *)data + p * TG_PAGE;
            node[p] = tg.node[tg.nodes - 1];
        }
        tg_wait_for_watcher();
        if (syscall(SYS_move_pages, 0, pages, address, node, status, MPOL_MF_MOVE))
            tg_die("move_pages");
        tg_wait_for_watcher();
    }
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
    tg_start(argc, argv, "placed-on-purpose", 4, 300);
    tg_enter(0, 0);
    use("bound", 0);
    use("moved", 1);
    printf("placed-on-purpose: %lu\n", (unsigned long)total);
    tg_finish();
    return 0;
}
