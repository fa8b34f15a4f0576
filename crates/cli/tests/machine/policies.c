/* Where pages are put by each kind of memory policy, as the kernel tells it, and what it refuses. For a machine of
 * four nodes. */
#define _GNU_SOURCE
#include <errno.h>
#include <numa.h>
#include <numaif.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MPOL_F_STATIC_NODES
#define MPOL_F_STATIC_NODES (1 << 15)
#endif

enum { PAGES = 8, PAGE = 4096 };

static char *fresh(void)
{
    char *memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        abort();
    return memory;
}

static void touch(char *memory)
{
    for (int i = 0; i < PAGES; i++)
        memory[i * PAGE] = 1;
}

static void ask(char *memory, int *nodes)
{
    void *pages[PAGES];
    for (int i = 0; i < PAGES; i++)
        pages[i] = memory + i * PAGE;
    if (move_pages(0, PAGES, pages, NULL, nodes, 0))
        abort();
}

static void show(const char *what, char *memory)
{
    int nodes[PAGES], node;
    ask(memory, nodes);
    printf("%s:", what);
    for (int i = 0; i < PAGES; i++)
        printf(" %d", nodes[i]);
    if (nodes[0] >= 0 && (get_mempolicy(&node, NULL, 0, memory, MPOL_F_NODE | MPOL_F_ADDR) || node != nodes[0]))
        printf(", but get_mempolicy says %d", node);
    puts("");
}

/* Nodes follow each other, whichever is the first. */
static void show_round(const char *what, char *memory)
{
    int nodes[PAGES], in_turn = 1;
    ask(memory, nodes);
    for (int i = 1; i < PAGES; i++)
        in_turn &= nodes[i] == (nodes[i - 1] + 1) % 4;
    printf("%s: %s\n", what, in_turn ? "in turn" : "not in turn");
}

static char *bound(int mode, unsigned long nodes)
{
    char *memory = fresh();
    if (mbind(memory, PAGES * PAGE, mode, nodes ? &nodes : NULL, nodes ? 64 : 0, 0))
        printf("mbind failed: %s\n", strerror(errno));
    touch(memory);
    return memory;
}

/* The result of a call, and why it failed. */
static const char *told(long result)
{
    static char text[4][80];
    static int next;
    char *to = text[next++ % 4];
    snprintf(to, sizeof text[0], "%ld%s%s", result, result < 0 ? " " : "", result < 0 ? strerror(errno) : "");
    return to;
}

int main(void)
{
    unsigned long all = 15, three = 8, two = 4, one = 2, zero = 1, many = 1UL << 9, mask = 0;
    int mode = -1, nodes[PAGES], status[PAGES];
    void *pages[PAGES];
    char *memory = fresh();
    show("not there", memory);
    touch(memory);
    show("first touch", memory);
    show("bound", bound(MPOL_BIND, three));
    show("preferred", bound(MPOL_PREFERRED, two));
    show("local", bound(MPOL_LOCAL, 0));
    show_round("interleaved memory", bound(MPOL_INTERLEAVE, all));
    memory = bound(5 /* preferred, many */, one | three);
    show("preferred, many", memory);
    get_mempolicy(&mode, &mask, 64, memory, MPOL_F_ADDR);
    printf("its policy: mode %d, nodes %#lx\n", mode, mask);
    if (set_mempolicy(MPOL_INTERLEAVE, &all, 64))
        abort();
    memory = fresh();
    touch(memory);
    show_round("interleaved thread", memory);
    get_mempolicy(&mode, &mask, 64, NULL, 0);
    printf("the thread's policy: mode %d, nodes %#lx\n", mode, mask);
    set_mempolicy(MPOL_BIND | MPOL_F_STATIC_NODES, &two, 64);
    memory = fresh();
    touch(memory);
    show("bound thread", memory);
    get_mempolicy(&mode, &mask, 64, NULL, 0);
    printf("the thread's policy: mode %#x, nodes %#lx\n", mode, mask);
    set_mempolicy(MPOL_DEFAULT, NULL, 0);
    mask = 0;
    get_mempolicy(NULL, &mask, 64, NULL, MPOL_F_MEMS_ALLOWED);
    printf("allowed: %#lx\n", mask);

    mbind(memory, PAGES * PAGE, MPOL_BIND, &one, 64, MPOL_MF_MOVE);
    show("moved by mbind", memory);
    printf("strict: %s\n", told(mbind(memory, PAGES * PAGE, MPOL_BIND, &zero, 64, MPOL_MF_STRICT)));
    for (int i = 0; i < PAGES; i++) {
        pages[i] = memory + i * PAGE;
        nodes[i] = i % 4;
    }
    move_pages(0, PAGES, pages, nodes, status, MPOL_MF_MOVE);
    show("moved one by one", memory);
    printf("migrated: %ld\n", migrate_pages(0, 64, &all, &three));
    show("migrated", memory);
    touch(memory);
    for (long sum = 0, i = 0; i < 1 << 17; i++)
        ((volatile long *)memory)[i % (PAGES * PAGE / 8)] = sum += i;
    show("still there", memory);

    nodes[0] = 9;
    printf("a node that is not there: %s", told(move_pages(0, 1, pages, nodes, status, MPOL_MF_MOVE)));
    printf(", %s", told(mbind(memory, PAGE, MPOL_BIND, &many, 64, 0)));
    printf(", %s\n", told(set_mempolicy(MPOL_BIND, &many, 64)));
    printf("a mode that is not there: %s\n", told(set_mempolicy(77, &one, 64)));
    printf("memory that is not there: %s\n", told(mbind((void *)(1L << 40), PAGE, MPOL_BIND, &one, 64, 0)));
    printf("a home: %s", told(syscall(450, memory, PAGE, 0, 0)));
    mbind(memory, PAGES * PAGE, MPOL_INTERLEAVE, &all, 64, 0);
    printf(", %s\n", told(syscall(450, memory, PAGE, 0, 0)));

    printf("libnuma: %d nodes, %d CPUs, CPU 5 on %d, distance %d, %d\n", numa_num_configured_nodes(),
           numa_num_configured_cpus(), numa_node_of_cpu(5), numa_distance(0, 1), numa_distance(2, 2));
    memory = numa_alloc_onnode(PAGES * PAGE, 1);
    touch(memory);
    show("allocated on node 1", memory);
    memory = numa_alloc_interleaved(PAGES * PAGE);
    touch(memory);
    show_round("allocated interleaved", memory);
    for (int i = 0; i < PAGES; i++) {
        pages[i] = memory + i * PAGE;
        nodes[i] = 2;
    }
    numa_move_pages(0, PAGES, pages, nodes, status, MPOL_MF_MOVE);
    show("moved by libnuma", memory);
    return 0;
}
