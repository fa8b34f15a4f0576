/* Makes a function that reads memory, names it in /tmp/perf-PID.map, runs it, and prints the map's path. x86-64. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* void f(const char *p, uint64_t n):  1: mov (%rdi),%al; inc %rdi; dec %rsi; jnz 1b; ret */
static const unsigned char code[] = { 0x8a, 0x07, 0x48, 0xff, 0xc7, 0x48, 0xff, 0xce, 0x75, 0xf6, 0xc3 };
static char data[1 << 20];

int main(void)
{
    unsigned char *made = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED)
        return 1;
    memcpy(made + 256, code, sizeof code);
    memset(data, 1, sizeof data);
    if (mprotect(made, 4096, PROT_READ | PROT_EXEC))
        return 1;
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
    FILE *map = fopen(path, "w");
    if (!map)
        return 1;
    fprintf(map, "%lx %zx made_to_read\n", (unsigned long)(uintptr_t)(made + 256), sizeof code);
    fclose(map);
    struct timespec used;
    do {
        ((void (*)(const char *, uint64_t))(void *)(made + 256))(data, sizeof data);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    } while (used.tv_sec * 1000 + used.tv_nsec / 1000000 < 300);
    puts(path);
    return 0;
}
