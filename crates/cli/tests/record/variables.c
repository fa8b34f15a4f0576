/* An array that is written once, little by little, in a phase of its own, and read by a child: 512 accesses to each
 * of its pages, each time. */
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../../../include/numalens.h"

enum { PAGES = 512, WORDS = 512 };

static long table[PAGES][WORDS] __attribute__((aligned(4096)));
static volatile long busy[WORDS] __attribute__((aligned(4096)));

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

static void work_until(double end)
{
    while (seconds() < end)
        for (int i = 0; i < WORDS; i++)
            busy[i]++;
}

int main(void)
{
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    double begin = seconds();
    numalens_phase_begin("fill");
    for (int page = 0; page < PAGES; page++) {
        for (int i = 0; i < WORDS; i++)
            ((volatile long *)table[page])[i] = i;
        work_until(begin + 0.001 * page);
    }
    numalens_phase_end("fill");
    work_until(seconds() + 0.3);
    pid_t child = fork();
    if (!child) {
        long sum = 0;
        for (int page = 0; page < PAGES; page++)
            for (int i = 0; i < WORDS; i++)
                sum += ((volatile long *)table[page])[i];
        _exit(sum == 0);
    }
    int status = 1;
    waitpid(child, &status, 0);
    return status != 0;
}
