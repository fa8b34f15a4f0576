// Asks the processor itself which CPU it is, on every CPU in turn.

#define _GNU_SOURCE
#include <cpuid.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>

enum { CPU_SEGMENT = 0x7b };

static unsigned limit(unsigned segment) {
    unsigned limit = 0;
    __asm__ volatile("lsl %1, %0" : "+r"(limit) : "r"(segment) : "cc");
    return limit;
}

// The id that the processor has to tell; -1: none for now.
static volatile int expected = -1;
static volatile sig_atomic_t signals, wrong;

static int told(void) {
    unsigned a, b, c, d;
    __cpuid(1, a, b, c, d);
    return b >> 24;
}

static void interrupt(int signal) {
    (void)signal;
    signals++;
    wrong += expected >= 0 && told() != expected;
}

int main(void) {
    struct itimerval often = {{0, 200}, {0, 200}};
    signal(SIGALRM, interrupt);
    setitimer(ITIMER_REAL, &often, NULL);
    cpu_set_t all;
    sched_getaffinity(0, sizeof all, &all);
    unsigned a, b, c, d;
    char vendor[13] = "";
    __cpuid(0, a, b, c, d);
    memcpy(vendor, &b, 4);
    memcpy(vendor + 4, &d, 4);
    memcpy(vendor + 8, &c, 4);
    int is_amd = strcmp(vendor, "AuthenticAMD") == 0 || strcmp(vendor, "HygonGenuine") == 0;
    unsigned last = a, last_extended = __get_cpuid_max(0x80000000, 0);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &all))
            continue;
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        sched_setaffinity(0, sizeof one, &one);
        __cpuid(1, a, b, c, d);
        unsigned id = b >> 24, several = d >> 28 & 1;
        printf("%d: id %u, several %u, limit 0x%x", cpu, id, several, limit(CPU_SEGMENT));
        // What only some processors have must tell the same.
        if (last >= 0xb) {
            __cpuid_count(0xb, 0, a, b, c, d);
            unsigned threads = b, bits = a, same = d == id;
            __cpuid_count(0xb, 1, a, b, c, d);
            if (!same || d != id || threads != 1 || bits != 0)
                printf(", other levels");
            printf(", core %u of %u in package %u", d & ((1u << a) - 1), b, d >> a);
        }
        if (is_amd && last_extended >= 0x8000001e) {
            __cpuid(0x8000001e, a, b, c, d);
            unsigned package = c & 0xff, core = b & 0xff, threads = b >> 8 & 0xff;
            __cpuid(0x80000008, a, b, c, d);
            if (package << (c >> 12 & 15) != (id & ~0u << (c >> 12 & 15)) || core != (id & ~(~0u << (c >> 12 & 15))) || threads)
                printf(", another unit");
        }
        printf("\n");
        expected = told();
        for (int times = 0; times < 1000 || !signals; times++)
            wrong += told() != expected;
        expected = -1;
    }
    fprintf(stderr, "wrong: %d\n", (int)wrong);
    return wrong != 0;
}
