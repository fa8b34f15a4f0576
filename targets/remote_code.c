/* Fault: the code that all threads execute lies on one node.
 *
 * The main thread writes functions, one to a page, into executable memory, as a JIT compiler would, so the code pages
 * lie on its node; then all threads run them. Expected: `matrix` of code has all fetches from every node to the main
 * thread's node, so (N-1)/N of the samples in this code are remote on N nodes; remedy: local or replicated text.
 * With FIXED every thread runs a copy that it made itself. Only for x86-64.
 * In the truth, `reads` of the array `code` are the instructions executed on its pages.
 */
#include "target.h"

#ifndef __x86_64__
#error "remote_code writes x86-64 instructions"
#endif

/* uint64_t f(uint64_t n): sums x*x for x = n..1.
 *      xor eax,eax;  1: mov rcx,rdi; imul rcx,rdi; add rax,rcx; dec rdi; jnz 1b; ret */
static const unsigned char function[] = { 0x31, 0xc0, 0x48, 0x89, 0xf9, 0x48, 0x0f, 0xaf, 0xcf, 0x48,
                                          0x01, 0xc8, 0x48, 0xff, 0xcf, 0x75, 0xf1, 0xc3 };
#define LOOP 5 /* instructions of one iteration */

static unsigned char *code;
static size_t pages;
static int array;
static uint64_t *sums;

#ifdef FIXED
static unsigned char *copy_of(const unsigned char *original)
{
    unsigned char *copy = mmap(NULL, pages * TG_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED)
        tg_die("mmap");
    memcpy(copy, original, pages * TG_PAGE);
    if (mprotect(copy, pages * TG_PAGE, PROT_READ | PROT_EXEC))
        tg_die("mprotect");
    return copy;
}
#endif

static void work(int slot)
{
    uint64_t sum = 0, each = 1000;
    unsigned char *own = code;
#ifdef FIXED
    own = copy_of(code);
#endif
    double start = tg_seconds();
    for (long round = 0; round < tg.rounds; round++)
        for (size_t p = 0; p < pages; p++)
            sum += ((uint64_t (*)(uint64_t))(void *)(own + p * TG_PAGE))(each); // EXPECT remote-code
    double instructions = (double)tg.rounds * (double)pages * (double)(LOOP * each + 2);
    tg_accessed(array, slot, 0, pages * TG_PAGE, instructions, 0, tg_seconds() - start, "remote-code");
    sums[slot - 1] = sum;
}

int main(int argc, char **argv)
{
    tg_start(argc, argv, "remote_code", 1, 1500);
    tg_enter(0, 0);
    pages = tg.bytes / TG_PAGE;
    sums = calloc((size_t)tg.threads, 8);
    code = mmap(NULL, pages * TG_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); // EXPECT object
    if (code == MAP_FAILED)
        tg_die("mmap");
    array = tg_array("code", code, pages * TG_PAGE);
    for (size_t p = 0; p < pages; p++)
        for (size_t i = 0; i < sizeof function; i++)
            ((volatile unsigned char *)code)[p * TG_PAGE + i] = function[i]; // EXPECT first-touch
    tg_touched(array, 0, 0, pages * TG_PAGE, "first-touch");
    if (mprotect(code, pages * TG_PAGE, PROT_READ | PROT_EXEC))
        tg_die("mprotect");
    tg_run(work);
    uint64_t total = 0;
    for (int i = 0; i < tg.threads; i++)
        total += sums[i];
    printf("remote_code: %lu\n", (unsigned long)total);
    tg_finish();
    munmap(code, pages * TG_PAGE);
    free(sums);
    return 0;
}
