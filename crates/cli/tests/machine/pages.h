/* A few pages, and who touches them. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

enum { PAGES = 8, PAGE = 4096, BYTES = PAGES * PAGE, PASSES = 1000 };

static void fail(const char *what)
{
    perror(what);
    exit(3);
}

static void run_on(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set))
        fail("sched_setaffinity");
}

static void touch(char *memory)
{
    for (int i = 0; i < PAGES; i++)
        memory[i * PAGE] = 1;
}
