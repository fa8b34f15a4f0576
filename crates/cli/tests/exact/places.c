/* Threads that bind themselves to and fro, to CPUs of a machine of four nodes with two CPUs each that the host need
 * not be: in each turn each writes to a page of its own, and to one that is mapped for the turn. After that, one
 * forks, and the child executes this program again; both work where they are. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TURNS = 600, WORDS = 512, BYTES = 4096, PREFERRED = 1, INHERITED = 3000 };
static char *place = (char *)0x4200000000;
static volatile long pages[2][WORDS] __attribute__((aligned(4096)));
static volatile long heirs[WORDS] __attribute__((aligned(4096)));

static void bind_to(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set))
        abort();
}

__attribute__((noinline)) static void work(volatile long *page)
{
    for (long i = 0; i < WORDS; i++)
        page[i] = i;
}

__attribute__((noinline)) static void work_for_a_turn(volatile long *page)
{
    for (long i = 0; i < WORDS; i++)
        page[i] = i;
}

__attribute__((noinline)) static void inherit(volatile long *page)
{
    for (long times = 0; times < INHERITED; times++)
        page[times % WORDS] = times;
}

__attribute__((noinline)) static void inherit_again(volatile long *page)
{
    for (long times = 0; times < INHERITED; times++)
        page[times % WORDS] = times;
}

/* Three turns on node 0, on both CPUs of it, and one on node 3. */
static int cpu_of(long turn) { return turn % 4 == 3 ? 7 : turn % 2; }

static void *turns(void *number)
{
    long thread = (long)number;
    for (long turn = 0; turn < TURNS; turn++) {
        bind_to(cpu_of(turn + 2 * thread));
        work(pages[thread]);
        volatile long *page = mmap(place + thread * (1 << 20), BYTES, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        if (page == MAP_FAILED)
            abort();
        work_for_a_turn(page);
        munmap((void *)page, BYTES);
    }
    return NULL;
}

int main(int count, char **arguments)
{
    pthread_t other;
    if (count > 1) {
        inherit_again(heirs);
        return 0;
    }
    if (pthread_create(&other, NULL, turns, (void *)1L))
        abort();
    turns(NULL);
    pthread_join(other, NULL);
    /* The same place again, and others for its memory. */
    bind_to(cpu_of(TURNS - 1));
    for (long turn = 0; turn < 2; turn++) {
        unsigned long node = 1ul << turn;
        if (syscall(SYS_set_mempolicy, PREFERRED, &node, 64))
            abort();
        work(pages[0]);
    }
    if (syscall(SYS_set_mempolicy, 0, NULL, 0))
        abort();
    int child = fork();
    if (child == 0) {
        inherit(heirs);
        execl("/proc/self/exe", arguments[0], "again", NULL);
        abort();
    }
    int status;
    return waitpid(child, &status, 0) != child || status != 0;
}
