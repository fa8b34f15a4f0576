/* target.h for programs that are not C: the same functions, not static. Options come from the command line of the
 * process. Strings are copied, as the callers' may be temporary (once per call: a handful, kept until the end). */
#include "target.h"

void tgx_start(const char *name, double mib, long rounds)
{
    static char text[65536];
    static char *argv[256];
    int argc = 0;
    FILE *file = fopen("/proc/self/cmdline", "r");
    size_t length = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    for (size_t at = 0; at < length && argc < 255; at += strlen(text + at) + 1)
        argv[argc++] = text + at;
    tg_start(argc, argv, strdup(name), mib, rounds);
}

int tgx_threads(void) { return tg.threads; }
long tgx_bytes(void) { return (long)tg.bytes; }
long tgx_rounds(void) { return tg.rounds; }
void tgx_enter(int slot, int index) { tg_enter(slot, index); }
int tgx_array(const char *name, void *base, long bytes) { return tg_array(strdup(name), base, (size_t)bytes); }
double tgx_seconds(void) { return tg_seconds(); }
void tgx_finish(void) { tg_finish(); }

void tgx_touched(int array, int slot, long from, long to, const char *tag)
{
    tg_touched(array, slot, (size_t)from, (size_t)to, strdup(tag));
}

void tgx_accessed(int array, int slot, long from, long to, double reads, double writes, double seconds, const char *tag)
{
    tg_accessed(array, slot, (size_t)from, (size_t)to, reads, writes, seconds, strdup(tag));
}
