/* Threads that bind themselves, are bound by another, or by the one that they descend from, to CPUs of a machine
 * that the host need not be: there, the calls may fail. Each works on memory of its own. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/syscall.h>

enum { WORDS = 1 << 17 };
static pthread_barrier_t barrier;
static volatile int third;

static void bind_to(int tid, int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(tid, sizeof set, &set);
}

static void work(void)
{
    volatile long *own = malloc(WORDS * sizeof *own);
    for (int i = 0; i < WORDS; i++)
        own[i] = i;
}

static void *heir(void *nothing)
{
    work();
    return nothing;
}

static void *by_itself(void *nothing)
{
    pthread_t thread;
    bind_to(0, 3);
    work();
    if (pthread_create(&thread, NULL, heir, NULL))
        abort();
    pthread_join(thread, NULL);
    return nothing;
}

static void *by_another(void *nothing)
{
    third = (int)syscall(SYS_gettid);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    work();
    return nothing;
}

int main(void)
{
    pthread_t thread;
    pthread_barrier_init(&barrier, NULL, 2);
    if (pthread_create(&thread, NULL, by_itself, NULL))
        abort();
    pthread_join(thread, NULL);
    if (pthread_create(&thread, NULL, by_another, NULL))
        abort();
    pthread_barrier_wait(&barrier);
    bind_to(third, 2);
    pthread_barrier_wait(&barrier);
    pthread_join(thread, NULL);
    work();
    puts("done");
    return 0;
}
