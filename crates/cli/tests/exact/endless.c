/* Code that is made all the time, far more than anybody would keep translations of: written over what was there
 * (argument "over"), unmapped again ("unmap"), or kept, all of it ("keep"). Meanwhile one thread sleeps in a system
 * call, and one goes from function to function without end. Says how often the functions were called, and on
 * standard error how many KiB of memory the process has grown by since half of that. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ROOM = 64, ROUNDS = 2 };
typedef void function(long *cell, void (*then)(long *));

/* sub rsp, 8; mov rax, [rdi]; add rax, imm32; mov [rdi], rax; call rsi; add rsp, 8; ret */
static const unsigned char code[] = { 0x48, 0x83, 0xec, 8, 0x48, 0x8b, 0x07, 0x48, 0x05, 0, 0, 0, 0, 0x48, 0x89, 0x07,
                                      0xff, 0xd6, 0x48, 0x83, 0xc4, 8, 0xc3 };
enum { CONSTANT = 9 };

static long cells[4096 / sizeof(long)] __attribute__((aligned(4096)));
static long *const cell = cells; /* on a page of its own */
static volatile int stop;

static void fill(unsigned char *at, int constant)
{
    memcpy(at, code, sizeof code);
    memcpy(at + CONSTANT, &constant, 4);
}

__attribute__((noinline)) static void add_one(long *at)
{
    __asm__ volatile("incq (%0)" ::"r"(at) : "memory");
}

static unsigned char *room_for(long functions)
{
    unsigned char *at = mmap(NULL, functions * ROOM, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        abort();
    return at;
}

static void *sleep_in_a_call(void *pipe)
{
    char byte;
    return (void *)(long)(read(*(int *)pipe, &byte, 1) == 1);
}

static void *run_about(void *nothing)
{
    long own = 0;
    unsigned char *few = room_for(4);
    for (int i = 0; i < 4; i++)
        fill(few + i * ROOM, i);
    while (!stop)
        for (int i = 0; i < 4; i++)
            ((function *)(few + i * ROOM))(&own, add_one);
    return nothing;
}

/* What the process has in memory, in KiB, without what files can give back. */
static long resident(void)
{
    char line[128];
    long kib = 0, of;
    FILE *status = fopen("/proc/self/status", "r");
    while (status != NULL && fgets(line, sizeof line, status))
        if (sscanf(line, "RssAnon: %ld", &of) == 1)
            kib += of;
    if (status != NULL)
        fclose(status);
    return kib;
}

int main(int argc, char **argv)
{
    const char *how = argc > 2 ? argv[1] : "";
    long functions = argc > 2 ? atol(argv[2]) : 0, calls = 0, sum = 0, half = 0;
    pthread_t sleeper, runner;
    int ends[2];
    if (functions <= 0 || pipe(ends) || pthread_create(&sleeper, NULL, sleep_in_a_call, ends) ||
        pthread_create(&runner, NULL, run_about, NULL))
        return 1;
    enum { BATCH = 64 };
    unsigned char *kept = strcmp(how, "unmap") ? room_for(strcmp(how, "keep") ? BATCH : functions) : NULL;
    for (int round = 0; round < ROUNDS; round++) {
        half = resident();
        for (long first = 0; first < functions; first += BATCH) {
            unsigned char *at = kept == NULL ? room_for(BATCH) : strcmp(how, "keep") ? kept : kept + first * ROOM;
            for (long i = 0; i < BATCH && first + i < functions; i++) {
                if (round == 0 || strcmp(how, "keep"))
                    fill(at + i * ROOM, (int)(first + i));
                ((function *)(at + i * ROOM))(cell, add_one);
                sum += first + i + 1;
                calls++;
            }
            if (kept == NULL && munmap(at, BATCH * ROOM))
                abort();
        }
    }
    fprintf(stderr, "%ld\n", resident() - half);
    stop = 1;
    if (write(ends[1], "", 1) != 1)
        abort();
    pthread_join(sleeper, NULL);
    pthread_join(runner, NULL);
    printf("%ld calls, %s\n", calls, *cell == sum ? "right" : "wrong");
    return *cell != sum;
}
