/* A program that wants memory at places that it names: where the agent has its table of pages, and where the session's
 * memory is. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

#define AT ((char *)0x4040000000UL)
#define LENGTH (1UL << 30)
#define NEW (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)
#define BOTH (PROT_READ | PROT_WRITE)

static void say(const char *what, int failed) {
    printf("%s: %s\n", what, failed ? strerror(errno) : "Success");
}

/* Words of fresh memory that are not zero, after other memory was used; what is written stays. */
static void look(char *memory, size_t length) {
    long bad = 0, kept = 0, sum = 0;
    for (int round = 0; round < 50; round++) {
        char *other = mmap(0, 1 << 20, BOTH, NEW, -1, 0);
        memset(other, round, 1 << 20);
        for (int i = 0; i < 1 << 20; i += 64)
            sum += other[i];
    }
    for (size_t at = 0; at < length; at += 4096) {
        unsigned char there = 0;
        if (mincore(memory + at, 4096, &there) == 0 && (there & 1))
            for (size_t i = 0; i < 512; i++)
                bad += ((uint64_t *)(memory + at))[i] != 0;
    }
    uint64_t *words = (uint64_t *)memory, count = length / 8 < 1 << 16 ? length / 8 : 1 << 16;
    for (uint64_t i = 0; i < count; i++)
        words[i] = i;
    for (uint64_t i = 0; i < count; i++)
        kept += words[i] == i;
    printf("sum %ld, not zero %ld, kept %ld\n", sum, bad, kept);
}

static void *wait_for(void *barrier) {
    pthread_barrier_wait(barrier);
    pthread_barrier_wait(barrier);
    return 0;
}

/* The first mapping of the session in which the kernel keeps what threads count: the largest one. */
static char *session(size_t *length) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512], *found = 0;
    while (fgets(line, sizeof line, maps)) {
        unsigned long start, end;
        if (!strstr(line, "/memfd:numalens-session") || !strstr(line, "rw-s"))
            continue;
        if (sscanf(line, "%lx-%lx", &start, &end) == 2 && end - start > *length)
            found = (char *)start, *length = end - start;
    }
    fclose(maps);
    return found;
}

static void over(void) {
    size_t length = 0;
    char *there = session(&length), *own = mmap(0, 4096, BOTH, NEW, -1, 0);
    say("map", mmap(there, 4096, BOTH, NEW | MAP_FIXED, -1, 0) == MAP_FAILED);
    say("move", mremap(own, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, there) == MAP_FAILED);
    say("protect", mprotect(there, length, PROT_NONE));
    say("advise", madvise(there, length, MADV_DONTNEED));
    say("lock", mlock(there, 4096));
    say("unmap", munmap(there, length));
}

static void with_thread(void) {
    pthread_t thread;
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, 0, 2);
    pthread_create(&thread, 0, wait_for, &barrier);
    pthread_barrier_wait(&barrier);
    say("map", mmap(AT, LENGTH, BOTH, NEW | MAP_FIXED, -1, 0) == MAP_FAILED);
    say("anew", mmap(AT, LENGTH, BOTH, NEW | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED);
    pthread_barrier_wait(&barrier);
    pthread_join(thread, 0);
}

int main(int count, char **arguments) {
    const char *how = count > 1 ? arguments[1] : "map";
    char *memory = MAP_FAILED;
    size_t length = LENGTH;
    if (!strcmp(how, "over"))
        return over(), 0;
    if (!strcmp(how, "with-thread"))
        return with_thread(), 0;
    if (!strcmp(how, "map") || !strcmp(how, "unmap"))
        memory = mmap(AT, LENGTH, BOTH, NEW | MAP_FIXED, -1, 0);
    if (!strcmp(how, "map-anew"))
        memory = mmap(AT, LENGTH, BOTH, NEW | MAP_FIXED_NOREPLACE, -1, 0);
    if (!strcmp(how, "move"))
        memory = mremap(mmap(0, LENGTH, BOTH, NEW, -1, 0), LENGTH, LENGTH, MREMAP_MAYMOVE | MREMAP_FIXED, AT);
    if (!strcmp(how, "attach")) {
        int segment = shmget(IPC_PRIVATE, length = 1 << 20, 0600);
        memory = shmat(segment, AT, SHM_REMAP);
        shmctl(segment, IPC_RMID, 0);
    }
    say(how, memory != AT);
    if (memory == AT)
        look(memory, length);
    /* All that is below libraries, program and stack: what nobody told the program of stays. */
    if (!strcmp(how, "unmap"))
        say("unmap", munmap((void *)(64UL << 10), (1UL << 46) - (64UL << 10)));
    return 0;
}
