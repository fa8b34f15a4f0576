// A thread that goes to another node and works on memory of its own there, several times within a time bin: it makes
// only local accesses.
#define _GNU_SOURCE
#include <sched.h>
#include <sys/mman.h>

enum { BYTES = 256 << 10, TIMES = 4 };

static void bind(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
}

int main(void) {
    volatile char *part[2];
    for (int turn = 0; turn < 4; turn++) {
        int node = turn % 2;
        bind(2 * node);
        if (turn < 2)
            part[node] = mmap(0, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (int times = 0; times < TIMES; times++)
            for (int at = 0; at < BYTES; at++)
                part[node][at] = (char)times;
    }
    return 0;
}
