/* A parallel region as clang compiles it, for LLVM's OpenMP runtime: the call is its ABI. */
#include <stdio.h>

struct ident { int reserved[4]; const char *source; };
typedef void (*task)(int *global, int *bound, ...);
extern void __kmpc_fork_call(struct ident *, int arguments, task, ...);
extern int __kmpc_global_thread_num(struct ident *);
extern void __kmpc_push_num_threads(struct ident *, int thread, int threads);

static struct ident place = {{0, 2, 0, 0}, ";unknown;unknown;0;0;;"};
static long sums[2];

static void body(int *global, int *bound, ...)
{
    (void)bound;
    for (int i = 0; i < 1000000; i++)
        ((volatile long *)sums)[*global & 1] += 1;
}

int main(void)
{
    __kmpc_push_num_threads(&place, __kmpc_global_thread_num(&place), 2);
    __kmpc_fork_call(&place, 0, body); // EXPECT region
    printf("%ld\n", sums[0] + sums[1]);
    return 0;
}
