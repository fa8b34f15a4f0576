/* Pages of another process, asked for and moved from outside, and what the calls say in passing. For a machine of
 * four nodes with two CPUs each. */
#define _GNU_SOURCE
#include <errno.h>
#include <numaif.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pages.h"

static char *fresh(void)
{
    char *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        fail("mmap");
    return at;
}

static long move(int pid, char *memory, const int *nodes, int *status, int flags)
{
    void *pages[PAGES];
    for (int i = 0; i < PAGES; i++)
        pages[i] = memory + i * PAGE;
    return move_pages(pid, PAGES, pages, nodes, status, flags);
}

static void homes(const char *what, int pid, char *memory)
{
    int nodes[PAGES];
    if (move(pid, memory, NULL, nodes, 0))
        fail("move_pages");
    printf("%s:", what);
    for (int i = 0; i < PAGES; i++)
        printf(" %d", nodes[i]);
    puts("");
    fflush(stdout);
}

__attribute__((noinline)) static uint64_t read_all(const char *memory)
{
    uint64_t sum = 0;
    for (int pass = 0; pass < PASSES; pass++)
        for (int i = 0; i < PAGES; i++)
            sum += *(const volatile uint64_t *)(memory + i * PAGE);
    return sum;
}

/* Policy and nodes of the line of numa_maps at an address. */
static void maps_line(const char *what, int pid, char *at)
{
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%d/numa_maps", pid);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        char *rest;
        if (strtoull(line, &rest, 16) != (uintptr_t)at)
            continue;
        printf("%s:", what);
        for (char *word = strtok(rest, " \n"), *first = word; word; word = strtok(NULL, " \n"))
            if (word == first || *word == 'N')
                printf(" %s", word);
        puts("");
    }
    if (file)
        fclose(file);
    fflush(stdout);
}

static void another(void)
{
    int there[2], back[2], status[PAGES], twos[PAGES];
    char byte = 0, *memory = fresh(), *bound = fresh(), *shared;
    unsigned long two = 4, one = 2, three = 8;
    shared = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (pipe(there) || pipe(back) || shared == MAP_FAILED)
        fail("pipe");
    /* Not one with its neighbours. */
    mprotect(bound, BYTES, PROT_READ | PROT_WRITE | PROT_EXEC);
    int child = fork();
    if (!child) {
        run_on(6);
        if (mbind(bound, BYTES / 2, MPOL_BIND, &one, 64, 0))
            fail("mbind");
        if (mbind(bound + BYTES / 2, BYTES / 2, MPOL_INTERLEAVE, &three, 64, 0) || set_mempolicy(MPOL_PREFERRED, &three, 64))
            fail("set_mempolicy");
        touch(memory);
        touch(bound);
        for (int turn = 0; turn < 3; turn++) {
            if (write(back[1], &byte, 1) != 1 || read(there[0], &byte, 1) != 1)
                _exit(6);
            read_all(memory);
        }
        homes("as it sees itself", 0, memory);
        _exit(0);
    }
    mbind(shared, BYTES, MPOL_BIND, &two, 64, 0);
    if (read(back[0], &byte, 1) != 1)
        exit(7);
    homes("another process", child, memory);
    maps_line("its memory", child, memory);
    maps_line("its first half", child, bound);
    maps_line("its second half", child, bound + BYTES / 2);
    maps_line("what it shares", child, shared);
    for (int i = 0; i < PAGES; i++)
        twos[i] = 2;
    if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
        exit(8);
    printf("moved: %ld", move(child, memory, twos, status, MPOL_MF_MOVE));
    printf(", on %d\n", status[PAGES - 1]);
    homes("moved", child, memory);
    maps_line("its memory, moved", child, memory);
    if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
        exit(9);
    printf("migrated: %ld\n", migrate_pages(child, 64, &two, &three));
    homes("migrated", child, memory);
    homes("what was elsewhere", child, bound);
    if (write(there[1], &byte, 1) != 1 || waitpid(child, NULL, 0) != child)
        exit(10);
    printf("nobody: %ld", move(child, memory, twos, status, MPOL_MF_MOVE));
    printf(", %s\n", strerror(errno));
    printf("not recorded: %ld", move(1, memory, twos, status, MPOL_MF_MOVE));
    printf(", %s\n", strerror(errno));
}

/* A process takes notice of each move while it reads, and its pages go on under other numbers: whoever asks meanwhile
   hears where they are, and of two moves none is lost. */
static void often(void)
{
    volatile char *stop = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char byte = 0, *memory = fresh();
    int there[2], status[PAGES], nodes[PAGES], elsewhere = 0;
    if (pipe(there) || stop == MAP_FAILED)
        fail("pipe");
    int child = fork();
    if (!child) {
        touch(memory);
        if (write(there[1], &byte, 1) != 1)
            _exit(6);
        /* Notice is taken at calls as well. */
        while (!*stop)
            getppid();
        read_all(memory);
        _exit(0);
    }
    if (read(there[0], &byte, 1) != 1)
        exit(7);
    for (int turn = 0; turn < 2000; turn++) {
        int once = 1 + turn % 2, twice = 3 - once;
        for (int i = 0; i < PAGES; i++)
            nodes[i] = turn % 3 ? once : twice;
        if (move(child, memory, nodes, status, MPOL_MF_MOVE))
            fail("move_pages");
        if (turn % 3 == 0) {
            for (int i = 0; i < PAGES; i++)
                nodes[i] = once;
            if (move(child, memory, nodes, status, MPOL_MF_MOVE))
                fail("move_pages");
        }
        if (move(child, memory, NULL, status, 0))
            fail("move_pages");
        int wrong = 0;
        for (int i = 0; i < PAGES; i++)
            wrong |= status[i] != once;
        elsewhere += wrong;
    }
    *stop = 1;
    if (waitpid(child, NULL, 0) != child)
        exit(8);
    printf("often: elsewhere in %d turns\n", elsewhere);
}

/* Pages whose status nobody wants: as many are moved as the kernel moves before it says so. */
static void in_passing(void)
{
    int nodes[PAGES] = { 1, 1, 1, 2, 2, 1, 1, 1 };
    char *memory = fresh();
    run_on(0);
    touch(memory);
    printf("no status: %ld", move(0, memory, nodes, NULL, MPOL_MF_MOVE));
    printf(", %s\n", strerror(errno));
    homes("no status", 0, memory);
    printf("no status, asked: %ld", move(0, memory, NULL, NULL, 0));
    printf(", %s\n", strerror(errno));
    unsigned long all = 15;
    if (set_mempolicy(MPOL_INTERLEAVE, &all, 64) || mbind(memory, BYTES, MPOL_DEFAULT, NULL, 0, MPOL_MF_MOVE))
        fail("mbind");
    int status[PAGES], in_turn = 1;
    move(0, memory, NULL, status, 0);
    for (int i = 1; i < PAGES; i++)
        in_turn &= status[i] == (status[i - 1] + 1) % 4;
    int before = status[0];
    /* By the address: once more changes nothing. */
    if (mbind(memory, BYTES, MPOL_DEFAULT, NULL, 0, MPOL_MF_MOVE))
        fail("mbind");
    move(0, memory, NULL, status, 0);
    int again = status[0] == before;
    printf("back to the thread's: %s, %s\n", in_turn ? "in turn" : "not in turn", again ? "as before" : "not as before");
    if (set_mempolicy(MPOL_DEFAULT, NULL, 0) || mbind(memory, BYTES, MPOL_DEFAULT, NULL, 0, MPOL_MF_MOVE))
        fail("mbind");
    homes("back to no policy", 0, memory);
}

int main(int count, char **words)
{
    if (count > 1 && !strcmp(words[1], "another"))
        another();
    else if (count > 1 && !strcmp(words[1], "often"))
        often();
    else
        in_passing();
    return 0;
}
