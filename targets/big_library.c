/* Fault: the code of a shared library of 20 MiB lies on one node, and the threads of all nodes call it.
 *
 * The main thread is the first to call each of the library's functions (library_text.S generates them), so the pages of
 * its text, of which all processes have the same, are on its node; then all threads call functions in an order without
 * pattern, each of them as often. After Kumar and Saxena, "Performance of Shared Libraries on NUMA": a library that
 * caches hold runs as fast from anywhere; one of 21 MB was 14 % slower from the farthest node, and with 24 threads at
 * once each took five times as long. Expected: `matrix` of code has the library's fetches from every node to one node;
 * the module on top of `code-placement` is the library; remedy: a copy of the text on every node. With `--size` below
 * 32 KiB only so much of it is called, and there is nothing to tell. x86-64 only.
 * With FIXED every thread calls a copy of the text in its own memory. It stays: a thread that begins when another
 * one has ended would have its copy at the same addresses. */
#include "target.h"

#define FUNCTION 2048ul
#define INSTRUCTIONS 257ul

extern const struct { unsigned char *text; uint64_t bytes; } library;

static size_t functions, bytes;
static int array;
static uint64_t *sums;

static uint64_t call(const unsigned char *text, size_t f)
{
    return ((uint64_t (*)(uint64_t))(uintptr_t)(text + f * FUNCTION))(f & 7); // EXPECT remote-code
}

static void work(int slot)
{
    const unsigned char *text = library.text;
#ifdef FIXED
    unsigned char *copy = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED)
        tg_die("mmap");
    memcpy(copy, library.text, bytes);
    if (mprotect(copy, bytes, PROT_READ | PROT_EXEC))
        tg_die("mprotect");
    text = copy;
#endif
    uint64_t sum = 0, at = (uint64_t)slot;
    double start = tg_seconds();
    /* A generator of full period calls every function once a round. */
    for (long round = 0; round < tg.rounds; round++)
        for (size_t n = 0; n < functions; n++) {
            at = at * 6364136223846793005ul + 1442695040888963407ul;
            sum += call(text, at & (functions - 1));
        }
    tg_accessed(array, slot, 0, bytes, (double)tg.rounds * (double)(functions * INSTRUCTIONS), 0, tg_seconds() - start, "remote-code");
    sums[slot - 1] = sum;
}

int main(int argc, char **argv)
{
    tg_start(argc, argv, "big_library", 20, 100);
    tg_enter(0, 0);
    /* A power of two, so that the generator is of full period: 16 MiB of the 20 are called. */
    for (functions = 1; functions * 2 * FUNCTION <= tg.bytes && functions * 2 * FUNCTION <= library.bytes; functions *= 2)
        ;
    bytes = functions * FUNCTION;
    sums = calloc((size_t)tg.threads, 8);
    array = tg_array("code", library.text, bytes);
    uint64_t total = 0;
    for (size_t f = 0; f < functions; f++)
        total += call(library.text, f);
    tg_run(work);
    for (int i = 0; i < tg.threads; i++)
        total += sums[i];
    printf("big_library: %lu\n", (unsigned long)total);
    tg_finish();
    free(sums);
    return 0;
}
