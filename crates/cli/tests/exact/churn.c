/* Maps, touches and unmaps memory all the time. What the recording keeps of pages that are gone is given back: its
 * share of this process's memory, which the kernel tells, comes down to what a short program takes. (Natively there
 * is none.) */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ROUNDS = 100, BYTES = 16 << 20, MOST_KIB = 12 << 10, PATIENCE = 3000 };

static long recordings_kib(void)
{
    char line[512];
    long sum = 0, kib;
    int inside = 0;
    FILE *maps = fopen("/proc/self/smaps", "r");
    if (!maps)
        return 0;
    while (fgets(line, sizeof line, maps)) {
        if (strchr(line, '-') && strchr(line, '-') < strchr(line, ' '))
            inside = strstr(line, "memfd:numalens-session") && strstr(line, "rw-s");
        else if (inside && sscanf(line, "Rss: %ld", &kib) == 1)
            sum += kib;
    }
    fclose(maps);
    return sum;
}

int main(void)
{
    long sum = 0;
    for (int round = 0; round < ROUNDS; round++) {
        char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED)
            return 2;
        for (int at = 0; at < BYTES; at += 4096)
            memory[at] = (char)round;
        for (int at = 0; at < BYTES; at += 4096)
            sum += memory[at];
        munmap(memory, BYTES);
    }
    printf("%ld\n", sum);
    for (int wait = 0; recordings_kib() > MOST_KIB; wait++) {
        if (wait == PATIENCE)
            return 3;
        usleep(10000);
    }
    return 0;
}
