/* Memory that is one thing after the other within milliseconds: `replaced FOLDER LIBRARY LIBRARY`. The same place is a file, plain memory and another file; and one
 * library's, then another's. */
#ifdef NAME

static volatile int table[20000];

/* Each library writes to a variable of its own. */
__attribute__((visibility("default"))) void NAME(void)
{
    for (int round = 0; round < 5; round++)
        for (int i = 0; i < 20000; i++)
            table[i] = i;
}

#else

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { WORDS = 50000, BYTES = WORDS * 4, ROUNDS = 5 };

static int file(const char *folder, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int file = open(path, O_RDWR | O_CREAT, 0600);
    return ftruncate(file, BYTES) == 0 ? file : -1;
}

static int sum(const volatile int *words, int number)
{
    int sum = 0;
    for (int i = 0; i < number; i++)
        sum += words[i];
    return sum;
}

static void call(const char *library, const char *name)
{
    void *open = dlopen(library, RTLD_NOW);
    ((void (*)(void))dlsym(open, name))();
    dlclose(open);
}

int main(int count, char **arguments)
{
    if (count < 4)
        return 0;
    int one = file(arguments[1], "one.dat"), two = file(arguments[1], "two.dat");
    for (int round = 0; round < ROUNDS; round++) {
        volatile int *place = mmap(0, BYTES, PROT_READ, MAP_PRIVATE, one, 0);
        sum(place, WORDS);
        /* Elsewhere, and on. */
        void *room = mmap(0, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        volatile int *moved = mremap((void *)place, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, room);
        if (moved != room)
            return 1;
        sum(moved, WORDS);
        munmap((void *)moved, BYTES);
        volatile int *again = mmap((void *)place, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (again != place)
            return 1;
        for (int i = 0; i < WORDS; i++)
            again[i] = i;
        /* In its place at once. */
        again = mmap((void *)place, BYTES, PROT_READ, MAP_SHARED | MAP_FIXED, two, 0);
        sum(again, WORDS / 2);
        munmap((void *)again, BYTES);
        call(arguments[2], "first");
        call(arguments[3], "second");
    }
    return 0;
}

#endif
