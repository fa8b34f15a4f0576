// Follows a random cycle through 64 MiB of nodes of one cache line: latency, one load that everything waits for.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct node {
    struct node *next;
    char rest[56];
};

int main(int argc, char **argv) {
    size_t count = 1u << 20;
    long steps = argc > 1 ? atol(argv[1]) : 1;
    struct node *nodes = malloc(count * sizeof *nodes);
    uint32_t *order = malloc(count * sizeof *order);
    if (!nodes || !order) return 1;
    for (size_t i = 0; i < count; i++) order[i] = (uint32_t)i;
    uint64_t x = 88172645463325252u;
    for (size_t i = count - 1; i > 0; i--) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        size_t j = x % (i + 1);
        uint32_t swap = order[i];
        order[i] = order[j];
        order[j] = swap;
    }
    for (size_t i = 0; i < count; i++) nodes[order[i]].next = &nodes[order[(i + 1) % count]];
    struct node *at = nodes;
    for (long step = 0; step < steps; step++) at = at->next;
    printf("%zu\n", (size_t)(at - nodes));
}
