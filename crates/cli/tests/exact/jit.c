/* Code that changes while many threads execute it: each makes, runs and unmaps code of its own all the time, at
 * addresses where others had theirs; one function is called by all while its constant is written over. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { THREADS = 8, ROUNDS = 300, CALLS = 3 };

typedef int function(int);
static unsigned char *shared;
static int stop;

/* mov eax, imm32; add eax, edi; ret, with the constant at a multiple of four */
static const unsigned char code[] = { 0x90, 0x90, 0x90, 0xb8, 0, 0, 0, 0, 0x01, 0xf8, 0xc3 };
enum { CONSTANT = 4 };

static void fill(unsigned char *at, int constant)
{
    memcpy(at, code, sizeof code);
    memcpy(at + CONSTANT, &constant, 4);
}

static void *work(void *number)
{
    long wrong = 0, me = (long)number;
    for (int round = 0; round < ROUNDS; round++) {
        int constant = (int)me * 100000 + round, both = round % 2;
        unsigned char *page = mmap(NULL, 4096, both ? PROT_READ | PROT_WRITE | PROT_EXEC : PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page == MAP_FAILED)
            abort();
        fill(page, constant);
        if (!both && mprotect(page, 4096, PROT_READ | PROT_EXEC))
            abort();
        for (int call = 0; call < CALLS; call++)
            wrong += ((function *)page)(call) != constant + call;
        if (both) { /* the same place, other code */
            fill(page, -constant);
            for (int call = 0; call < CALLS; call++)
                wrong += ((function *)page)(call) != -constant + call;
        }
        int seen = ((function *)shared)(0); /* an old constant or a new one, nothing between */
        wrong += seen % 0x01010101 != 0;
        if (munmap(page, 4096))
            abort();
    }
    return (void *)wrong;
}

static void *patch(void *nothing)
{
    for (uint32_t i = 0; !__atomic_load_n(&stop, __ATOMIC_RELAXED); i++)
        __atomic_store_n((uint32_t *)(shared + CONSTANT), i % 100 * 0x01010101u, __ATOMIC_RELAXED);
    return nothing;
}

int main(void)
{
    pthread_t patcher, thread[THREADS];
    long wrong = 0;
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        abort();
    fill(shared, 0);
    if (pthread_create(&patcher, NULL, patch, NULL))
        abort();
    for (long i = 0; i < THREADS; i++)
        if (pthread_create(&thread[i], NULL, work, (void *)i))
            abort();
    for (int i = 0; i < THREADS; i++) {
        void *part;
        pthread_join(thread[i], &part);
        wrong += (long)part;
    }
    stop = 1;
    pthread_join(patcher, NULL);
    printf("%ld wrong\n", wrong);
    return wrong != 0;
}
