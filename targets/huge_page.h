/* What the kernel says of its huge pages; for the tests' programs as well. */
#include <stdio.h>

#define HUGE (2ul << 20)

/* Whether the 2 MiB at `at` are mapped by one huge page. */
static int is_huge(const char *at)
{
    char line[512];
    int inside = 0, huge = 0;
    FILE *smaps = fopen("/proc/self/smaps", "r");
    while (smaps && fgets(line, sizeof line, smaps)) {
        unsigned long low, high, kib;
        if (sscanf(line, "%lx-%lx ", &low, &high) == 2)
            inside = (unsigned long)at >= low && (unsigned long)at < high;
        else if (inside && sscanf(line, "AnonHugePages: %lu kB", &kib) == 1)
            huge = kib >= HUGE / 1024;
    }
    if (smaps)
        fclose(smaps);
    return huge;
}
