/* Forbids itself to read the time stamp counter, and goes on allocating. */
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

static sigjmp_buf back;
static void caught(int signal) { siglongjmp(back, signal); }

int main(void)
{
    if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV))
        return 1;
    unsigned long sum = 0;
    for (int i = 1; i < 200; i++) {
        unsigned char *block = malloc(i * 4096);
        memset(block, i, i * 4096);
        sum += block[i * 4000];
        free(block);
    }
    signal(SIGSEGV, caught);
    if (!sigsetjmp(back, 1))
        printf("%lu\n", (unsigned long)__builtin_ia32_rdtsc());
    printf("%lu, stopped\n", sum);
    return 0;
}
