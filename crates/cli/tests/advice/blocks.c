/* Four threads work on memory that the main thread has touched first, so that it lies on its node.
 *
 *   stack   2 KiB on a stack of 8 MiB, the upper 16 KiB of which it has touched
 *   heap    2 KiB of a block that the main thread has made
 *   many    eight blocks of 128 KiB, each made by a function of its own
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { THREADS = 4, BLOCKS = 8, SMALL = 2 << 10, LARGE = 128 << 10, STACK = 8 << 20, TOUCHED = 16 << 10 };
typedef volatile long word;

static char mode;
static word *blocks[THREADS][BLOCKS];

static void use(word *block, size_t size, int rounds)
{
    for (int round = 0; round < rounds; round++)
        for (size_t i = 0; i < size / sizeof *block; i++)
            block[i] += (long)i;
}

static __attribute__((noinline)) void use_small_stack(void)
{
    word own[SMALL / sizeof(word)];
    use(own, sizeof own, 20000);
}

static void *work(void *number)
{
    word **own = blocks[(long)number];
    if (mode == 's')
        use_small_stack();
    if (mode == 'h')
        use(own[0], SMALL, 20000);
    if (mode == 'm')
        for (int round = 0; round < 10; round++)
            for (int b = 0; b < BLOCKS; b++)
                use(own[b], LARGE, 4);
    return NULL;
}

/* Different values, so that the compiler does not take the functions for one. */
#define MAKER(name, value) \
    static __attribute__((noinline)) word *name(void) \
    { \
        word *block = malloc(LARGE); \
        for (size_t i = 0; i < LARGE / sizeof *block; i++) \
            block[i] = (long)i * value; \
        return block; \
    }
MAKER(density, 1)
MAKER(energy, 2)
MAKER(pressure, 3)
MAKER(velocity, 4)
MAKER(mass, 5)
MAKER(charge, 6)
MAKER(field, 7)
MAKER(flux, 8)

static word *(*const makers[BLOCKS])(void) = { density, energy, pressure, velocity, mass, charge, field, flux };

static pthread_attr_t *with_stack(pthread_attr_t *attributes)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE;
    char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, flags, -1, 0);
    memset(stack + STACK - TOUCHED, 0, TOUCHED);
    pthread_attr_init(attributes);
    pthread_attr_setstack(attributes, stack, STACK);
    return attributes;
}

int main(int argc, char **argv)
{
    mode = argc > 1 ? argv[1][0] : 'm';
    pthread_t threads[THREADS];
    pthread_attr_t attributes;
    for (int t = 0; t < THREADS; t++)
        for (int b = 0; b < BLOCKS; b++)
            blocks[t][b] = makers[b]();
    for (long t = 0; t < THREADS; t++)
        pthread_create(&threads[t], mode == 's' ? with_stack(&attributes) : NULL, work, (void *)t);
    for (int t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    return 0;
}
