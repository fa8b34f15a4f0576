/* One thread on node 0 reads an array that lies there; then half of it is moved to another node and it is read
 * again. */
#include "target.h"

int main(int argc, char **argv)
{
    tg_start(argc, argv, "migration", 4, 1000);
    tg_enter(0, 0);
    size_t count = tg.bytes / 8, pages = tg.bytes / TG_PAGE / 2;
    uint64_t *data = mmap(NULL, tg.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), total = 0;
    if (data == MAP_FAILED)
        tg_die("mmap");
    int array = tg_array("data", data, tg.bytes);
    for (size_t i = 0; i < count; i++)
        data[i] = i * i; // EXPECT first-touch
    tg_touched(array, 0, 0, tg.bytes, "first-touch");
    double start = tg_seconds();
    for (long round = 0; round < tg.rounds; round++) {
        for (size_t i = 0; i < count; i++)
            total += data[i]; // EXPECT before
        TG_BARRIER();
    }
    tg_accessed(array, 0, 0, tg.bytes, (double)tg.rounds * (double)count, 0, tg_seconds() - start, "before");
    tg_settle();
    tg_wait_for_watcher();

    void **address = calloc(pages, sizeof *address);
    int *node = calloc(pages, sizeof *node), *status = calloc(pages, sizeof *status);
    for (size_t p = 0; p < pages; p++) {
        address[p] = (char *)data + p * TG_PAGE;
        node[p] = tg.node[1 % tg.nodes];
    }
    if (syscall(SYS_move_pages, 0, pages, address, node, status, MPOL_MF_MOVE))
        tg_die("move_pages");

    start = tg_seconds();
    for (long round = 0; round < tg.rounds; round++) {
        for (size_t i = 0; i < count; i++)
            total += data[i]; // EXPECT after
        TG_BARRIER();
    }
    tg_accessed(array, 0, 0, tg.bytes, (double)tg.rounds * (double)count, 0, tg_seconds() - start, "after");
    printf("migration: %lu\n", (unsigned long)total);
    tg_finish();
    return 0;
}
