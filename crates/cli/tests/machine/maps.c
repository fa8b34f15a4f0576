// Its memory, as /proc tells of it: pages under policies, and where they are.

#include <numaif.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 24 };

// The words about policy and nodes in the lines from `from` on.
static void show(const char *what, const char *file, char *from, char *to) {
    char line[1024];
    FILE *maps = fopen(file, "r");
    printf("%s:", what);
    while (maps && fgets(line, sizeof line, maps)) {
        char *rest;
        char *at = (char *)strtoul(line, &rest, 16);
        if (at < from || at >= to)
            continue;
        printf(" [%ld", (long)(at - from) / PAGE);
        for (char *word = strtok(rest, " \n"); word; word = strtok(NULL, " \n"))
            if (strncmp(word, "active", 6) != 0)
                printf(" %s", word);
        printf("]");
    }
    printf("\n");
    if (maps)
        fclose(maps);
}

int main(void) {
    char *memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned long one = 1 << 2, two = 1 << 1 | 1 << 3;
    char *end = memory + PAGES * PAGE;
    // Neighbours that are like it would be one mapping with it.
    mprotect(memory, PAGE, PROT_NONE);
    mprotect(end - PAGE, PAGE, PROT_NONE);
    memory += PAGE;
    end -= PAGE;
    mbind(memory + 4 * PAGE, 4 * PAGE, MPOL_BIND, &one, 64, 0);
    mbind(memory + 8 * PAGE, 8 * PAGE, MPOL_INTERLEAVE, &two, 64, 0);
    show("before", "/proc/self/numa_maps", memory, end);
    memset(memory, 1, 18 * PAGE);
    show("touched", "/proc/self/numa_maps", memory, end);
    madvise(memory + 4 * PAGE, 2 * PAGE, MADV_DONTNEED);
    mbind(memory + 8 * PAGE, 8 * PAGE, MPOL_BIND, &one, 64, MPOL_MF_MOVE);
    set_mempolicy(MPOL_PREFERRED, &one, 64);
    show("moved", "/proc/thread-self/numa_maps", memory, end);
    fflush(stdout);
    char file[64];
    snprintf(file, sizeof file, "/proc/%d/numa_maps", getpid());
    if (fork() == 0) {
        show("of another", file, memory, end);
        void *pages[] = {memory, memory + 4 * PAGE, memory + 6 * PAGE, memory + 15 * PAGE, memory + 17 * PAGE};
        int nodes[5], to[5] = {0};
        long told = move_pages(getppid(), 5, pages, NULL, nodes, 0);
        printf("its nodes: %ld, %d %d %d %d %d\n", told, nodes[0], nodes[1], nodes[2], nodes[3], nodes[4]);
        /* They are mapped here as well. */
        printf("moving them: %ld", move_pages(getppid(), 5, pages, to, nodes, MPOL_MF_MOVE));
        printf(", %d\n", nodes[0]);
        return 0;
    }
    wait(NULL);
    return 0;
}
