// Threads that build binary trees of blocks of 16 to 512 bytes, walk them and free them, again and again: nothing but
// malloc and free, the worst case of whoever watches the heap.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_THREADS = 64 };

struct tree {
    struct tree *left, *right;
};

static int rounds = 1, depth = 16;

static struct tree *build(int levels, uint64_t *random) {
    if (levels == 0) return NULL;
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    struct tree *tree = malloc(16 + *random % 497);
    if (!tree) abort();
    tree->left = build(levels - 1, random);
    tree->right = build(levels - 1, random);
    return tree;
}

static long tear_down(struct tree *tree) {
    if (!tree) return 0;
    long count = 1 + tear_down(tree->left) + tear_down(tree->right);
    free(tree);
    return count;
}

static void *work(void *seed) {
    uint64_t random = 88172645463325252u + (uintptr_t)seed;
    long count = 0;
    for (int round = 0; round < rounds; round++) count += tear_down(build(depth, &random));
    return (void *)count;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 1;
    if (argc > 2) rounds = atoi(argv[2]);
    if (threads < 1 || threads > MOST_THREADS) return 2;
    pthread_t thread[MOST_THREADS];
    for (long i = 0; i < threads; i++)
        if (pthread_create(&thread[i], NULL, work, (void *)i)) return 1;
    long all = 0;
    for (int i = 0; i < threads; i++) {
        void *count;
        pthread_join(thread[i], &count);
        all += (long)count;
    }
    printf("%ld\n", all);
}
