/* Where a thread is, by each of the ways to ask, after it has bound itself to each CPU in turn; and what a thread is
 * told that is bound by another, or inherits. */
#define _GNU_SOURCE
#include <cpuid.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_barrier_t barrier;
static volatile int other;

static int bind_to(int tid, int first, int last)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int cpu = first; cpu <= last; cpu++)
        CPU_SET(cpu, &set);
    return sched_setaffinity(tid, sizeof set, &set);
}

static int has_rdpid(void)
{
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && c >> 22 & 1;
}

static void show(const char *who)
{
    cpu_set_t set;
    unsigned cpu = 99, node = 99;
    if (sched_getaffinity(0, sizeof set, &set))
        abort();
    syscall(SYS_getcpu, &cpu, &node, NULL);
    printf("%s: cpus", who);
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &set))
            printf(" %d", i);
    unsigned processor, low, high;
    __asm__ volatile("rdtscp" : "=a"(low), "=d"(high), "=c"(processor));
    int agree = sched_getcpu() == (int)cpu && processor == (node << 12 | cpu) && (low | high);
    if (has_rdpid()) {
        unsigned long word;
        __asm__ volatile("rdpid %0" : "=r"(word));
        agree = agree && word == processor;
    }
    printf(", on %u of node %u, %s\n", cpu, node, agree ? "all say" : "others say otherwise");
}

static void *heir(void *nothing)
{
    show("heir");
    return nothing;
}

static void *bound_by_another(void *nothing)
{
    other = (int)syscall(SYS_gettid);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    show("bound by another");
    return nothing;
}

static void run(void *(*body)(void *), cpu_set_t *cpus)
{
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (cpus)
        pthread_attr_setaffinity_np(&attributes, sizeof *cpus, cpus);
    if (pthread_create(&thread, &attributes, body, NULL))
        abort();
    if (body == bound_by_another) {
        cpu_set_t set;
        pthread_barrier_wait(&barrier);
        if (bind_to(other, 2, 3) || sched_getaffinity(other, sizeof set, &set) || CPU_COUNT(&set) != 2 || !CPU_ISSET(3, &set))
            puts("what was asked for is not told");
        pthread_barrier_wait(&barrier);
    }
    pthread_join(thread, NULL);
}

int main(void)
{
    cpu_set_t six;
    unsigned long word = 0;
    pthread_barrier_init(&barrier, NULL, 2);
    show("first");
    for (int cpu = 0; cpu < 8; cpu++)
        if (bind_to(0, cpu, cpu) || sched_getcpu() != cpu)
            printf("not on %d\n", cpu);
    bind_to(0, 6, 7);
    show("bound");
    run(heir, NULL);
    run(bound_by_another, NULL);
    CPU_ZERO(&six);
    CPU_SET(5, &six);
    run(heir, &six);
    int failed = bind_to(0, 99, 99);
    printf("a CPU that is not there: %d, errno %d\n", failed, errno);
    printf("too short a mask: %ld, no thread: %ld\n", syscall(SYS_sched_getaffinity, 0, 4, &word),
           syscall(SYS_sched_getaffinity, 999999999, 8, &word));
    show("as before");
    bind_to(0, 0, 1000);
    show("everywhere");
    printf("CPUs: %ld\n", sysconf(_SC_NPROCESSORS_ONLN));
    return 0;
}
