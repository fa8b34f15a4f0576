/* A loop over three arrays that signals interrupt all the time; their handler gives up pages of one of them. At the
 * end some signals leave the loop for good. Prints how many passes stored their element, and how many were left. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

enum { N = 1 << 18, ROUNDS = 400, JUMPS = 40 };

double a[N], b[N] __attribute__((aligned(4096))), c[N];
static sigjmp_buf back;
static volatile sig_atomic_t jump, alarms;

static void on_alarm(int signal) {
    (void)signal;
    alarms++;
    if (alarms % 8 == 0 && madvise(b + alarms * 37L * 512 % N, 4096, MADV_DONTNEED)) _exit(1);
    if (jump) {
        jump = 0;
        siglongjmp(back, 1);
    }
}

/* b and c are 0. */
static __attribute__((noinline)) void triad(double value) {
    for (long i = 0; i < N; i++) a[i] = value + b[i] * c[i];
}

int main(void) {
    for (long i = 0; i < N; i += 512) b[i] = c[i] = 0;
    signal(SIGALRM, on_alarm);
    struct itimerval often = {{0, 50}, {0, 50}}, never = {{0, 0}, {0, 0}};
    if (setitimer(ITIMER_REAL, &often, NULL)) return 1;
    for (int round = 0; round < ROUNDS; round++) triad(-round);
    unsigned long stored = (unsigned long)ROUNDS * N;
    int left = 0;
    for (int number = 1; number <= JUMPS; number++) {
        if (sigsetjmp(back, 1) == 0) {
            jump = 1;
            triad(number);
        } else {
            left++;
        }
        jump = 0;
        for (long i = 0; i < N; i++) stored += a[i] == number;
    }
    setitimer(ITIMER_REAL, &never, NULL);
    printf("%lu %d\n", stored, left);
    return alarms == 0;
}
