/* Memory that is one thing after the other within milliseconds: `replaced FOLDER LIBRARY LIBRARY`. The same place is
 * a file, plain memory and another file; and one library's, then another's. */
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
#include <sys/shm.h>
#include <unistd.h>

enum { PAGE = 4096, PARTS = 8 };
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

static void *anonymous(void *at, size_t bytes, int protection, int flags)
{
    return mmap(at, bytes, protection, MAP_ANONYMOUS | flags, -1, 0);
}

static void write_pages(volatile char *from, int pages)
{
    for (int at = 0; at < pages * PAGE; at += sizeof(int))
        *(volatile int *)(from + at) = at;
}

/* A block of which the last page becomes a guard, and half moves away. */
static int parts(void)
{
    char *block = anonymous(0, PARTS * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    write_pages(block, PARTS);
    anonymous(block + (PARTS - 1) * PAGE, PAGE, PROT_NONE, MAP_PRIVATE | MAP_FIXED);
    char *room = anonymous(0, PARTS / 2 * PAGE, PROT_NONE, MAP_PRIVATE);
    if (mremap(block, PARTS / 2 * PAGE, PARTS / 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, room) != room)
        return 1;
    write_pages(room, PARTS / 2);
    write_pages(block + PARTS / 2 * PAGE, PARTS / 2 - 1);
    return 0;
}

/* Shared memory that is there twice, and such as is in two pieces when it goes. */
static int shared(void)
{
    enum { HUGE = 2 << 20 };
    char *room = anonymous(0, 2 * HUGE, PROT_NONE, MAP_PRIVATE);
    char *aligned = room + (HUGE - (size_t)room % HUGE) % HUGE;
    anonymous(aligned, PARTS * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED);
    if (mremap(aligned, 0, PARTS * PAGE, MREMAP_MAYMOVE) == MAP_FAILED)
        return 1;
    int id = shmget(IPC_PRIVATE, PARTS * PAGE, 0600);
    char *segment = shmat(id, 0, 0);
    shmctl(id, IPC_RMID, 0);
    write_pages(segment, PARTS);
    mprotect(segment + PAGE, PAGE, PROT_READ);
    shmdt(segment);
    char *again = anonymous(segment, PARTS * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    write_pages(again, PARTS);
    return again != segment;
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
    return parts() || shared();
}

#endif
