// Memory that its thread takes along to another node, several times within a time bin: all accesses are local. Then it
// leaves it there for a while. A child on another node reads it in the end.
#define _GNU_SOURCE
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 64, TURNS = 6 };

static volatile char *memory;

static void bind(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
}

static int move(int node) {
    unsigned long nodes = 1ul << node;
    return (int)syscall(SYS_mbind, memory, PAGES * PAGE, 2 /* MPOL_BIND */, &nodes, 64ul, 2 /* MPOL_MF_MOVE */);
}

static int move_each(int node) {
    void *pages[PAGES];
    int nodes[PAGES], status[PAGES];
    for (int page = 0; page < PAGES; page++) {
        pages[page] = (void *)(memory + page * PAGE);
        nodes[page] = node;
    }
    return (int)syscall(SYS_move_pages, 0, (long)PAGES, pages, nodes, status, 2 /* MPOL_MF_MOVE */);
}

__attribute__((noinline)) static void write_all(void) {
    for (int at = 0; at < PAGES * PAGE; at++)
        memory[at] = (char)at;
}

__attribute__((noinline)) static int read_all(void) {
    int wrong = 0;
    for (int at = 0; at < PAGES * PAGE; at++)
        wrong |= memory[at] != (char)at;
    return wrong;
}

int main(void) {
    memory = mmap(0, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int turn = 0; turn < TURNS; turn++) {
        bind(2 * (turn % 2));
        if (move(turn % 2))
            return 1;
        write_all();
    }
    // It is on node 1, as is its thread.
    if (move_each(0))
        return 2;
    write_all();
    if (move_each(1))
        return 3;
    write_all();
    int child = fork();
    if (!child) {
        bind(0);
        _exit(read_all());
    }
    int status;
    return waitpid(child, &status, 0) == child ? status : 4;
}
