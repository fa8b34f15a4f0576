/* Masks with nodes above 63: bound and moved pages, and policies as they are told. Arguments: two nodes of the
 * machine. */
#define _GNU_SOURCE
#include <numaif.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { PAGE = 4096, WORDS = 16, BITS = 1024 };

static void only(unsigned long *mask, int node)
{
    for (int i = 0; i < WORDS; i++)
        mask[i] = i == node / 64 ? 1ul << node % 64 : 0;
}

static int home(char *page)
{
    void *pages[] = {page};
    int node;
    return move_pages(0, 1, pages, NULL, &node, 0) ? -1 : node;
}

/* The nodes of a mask, one after the other. */
static void show(const char *what, const unsigned long *mask)
{
    printf("%s:", what);
    for (int i = 0; i < BITS; i++)
        if (mask[i / 64] >> i % 64 & 1)
            printf(" %d", i);
    puts("");
}

int main(int count, char **arguments)
{
    int first = atoi(arguments[1]), second = atoi(arguments[2]), mode, refused;
    unsigned long mask[WORDS], told[WORDS] = {0};
    char *memory = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || count != 3)
        abort();
    only(mask, first);
    if (set_mempolicy(MPOL_BIND, mask, BITS + 1))
        perror("set_mempolicy");
    memory[0] = 1;
    get_mempolicy(&mode, told, BITS + 1, NULL, 0);
    show(mode == MPOL_BIND ? "bound" : "not bound", told);
    only(mask, second);
    if (mbind(memory + PAGE, PAGE, MPOL_BIND, mask, second + 2, 0))
        perror("mbind");
    memory[PAGE] = 1;
    get_mempolicy(&mode, told, BITS + 1, memory + PAGE, MPOL_F_ADDR);
    show("of memory", told);
    refused = get_mempolicy(&mode, told, 64, NULL, 0);
    printf("homes: %d %d, a mask of one word: %s\n", home(memory), home(memory + PAGE), refused ? "refused" : "told");
    void *page = memory;
    int status;
    if (move_pages(0, 1, &page, &second, &status, MPOL_MF_MOVE))
        perror("move_pages");
    printf("moved: %d\n", home(memory));
    get_mempolicy(NULL, told, BITS + 1, NULL, MPOL_F_MEMS_ALLOWED);
    show("allowed", told);
    for (int i = 0; i < 100000; i++)
        ((volatile char *)memory)[PAGE] += i;
    return 0;
}
