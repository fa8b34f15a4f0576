/* Touches an exact number of pages in a known way: pages KIND COUNT. Prints the first page and how many follow. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../../../targets/huge_page.h"

#define PAGE 4096L
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
static long count;

static volatile char *fresh(int extra) {
    void *memory = mmap(0, count * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | extra, -1, 0);
    if (memory == MAP_FAILED) exit(9);
    madvise(memory, count * PAGE, MADV_NOHUGEPAGE);
    return memory;
}

__attribute__((noinline)) static void writing(volatile char *memory) {
    for (long page = 0; page < count; page++)
        memory[page * PAGE] = 1; /* WRITE */
}

__attribute__((noinline)) static int reading(volatile char *memory) {
    int sum = 0;
    for (long page = 0; page < count; page++)
        sum += memory[page * PAGE];
    return sum;
}

static void *thread(void *memory) {
    writing(memory);
    return 0;
}

int main(int arguments, char **argument) {
    if (arguments < 3) return 2;
    const char *kind = argument[1];
    count = atol(argument[2]);
    prctl(PR_SET_THP_DISABLE, strncmp(kind, "huge", 4) != 0, 0, 0, 0);
    volatile char *memory = 0;
    if (!strcmp(kind, "write")) {
        memory = fresh(0);
        writing(memory);
    } else if (!strcmp(kind, "thread")) {
        memory = fresh(0);
        pthread_t other;
        pthread_create(&other, 0, thread, (void *)memory);
        pthread_join(other, 0);
    } else if (!strcmp(kind, "read")) {
        memory = fresh(0);
        reading(memory);
    } else if (!strcmp(kind, "read-write")) {
        memory = fresh(0);
        reading(memory);
        writing(memory);
    } else if (!strcmp(kind, "populate")) {
        memory = fresh(MAP_POPULATE);
    } else if (!strncmp(kind, "given-up-", 9)) { /* pages that nobody ever accesses go again, in one way or another */
        const char *how = kind + 9;
        memory = fresh(MAP_POPULATE);
        void *all = (void *)memory;
        if (!strcmp(how, "unmap")) munmap(all, count * PAGE);
        if (!strcmp(how, "dontneed")) madvise(all, count * PAGE, MADV_DONTNEED);
        if (!strcmp(how, "over")) mmap(all, count * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        if (!strcmp(how, "shrink")) mremap(all, count * PAGE, PAGE, 0);
    } else if (!strcmp(kind, "fill") || !strcmp(kind, "fill-down")) { /* one instruction, on pages that are there and others */
        memory = fresh(0);
        long left = count * PAGE;
        for (long quarter = 0; quarter < 4; quarter += 2)
            if (madvise((void *)(memory + quarter * (left / 4)), left / 4, MADV_POPULATE_WRITE)) return 6;
        void *to = (void *)memory, *end = (void *)(memory + left - 1);
        if (!strcmp(kind, "fill"))
            __asm__ volatile("rep stosb" : "+D"(to), "+c"(left) : "a"(1) : "memory"); /* FILL */
        else
            __asm__ volatile("std; rep stosb; cld" : "+D"(end), "+c"(left) : "a"(1) : "memory"); /* FILL */
    } else if (!strcmp(kind, "read-call")) {
        memory = fresh(0);
        int zero = open("/dev/zero", O_RDONLY);
        if (read(zero, (void *)memory, count * PAGE) != count * PAGE) return 8;
        close(zero);
    } else if (!strcmp(kind, "fork")) {
        memory = fresh(0);
        writing(memory);
        if (fork() == 0) {
            writing(memory);
            _exit(0);
        }
        wait(0);
    } else if (!strcmp(kind, "dontneed")) {
        memory = fresh(0);
        writing(memory);
        madvise((void *)memory, count * PAGE, MADV_DONTNEED);
        writing(memory);
    } else if (!strcmp(kind, "remap")) {
        memory = fresh(0);
        writing(memory);
        munmap((void *)memory, count * PAGE);
        void *again = mmap((void *)memory, count * PAGE, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        madvise(again, count * PAGE, MADV_NOHUGEPAGE);
        if (again != memory) return 7;
        writing(memory);
    } else if (!strcmp(kind, "move")) {
        volatile char *old = fresh(0);
        writing(old);
        void *wanted = mmap(0, count * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memory = mremap((void *)old, count * PAGE, count * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, wanted);
        if (memory != wanted) return 7;
        writing(memory);
    } else if (!strcmp(kind, "grow")) { /* a large block of malloc's, which glibc moves with mremap */
        char *block = malloc((count + 1) * PAGE);
        memory = block + PAGE - 16;
        writing(memory);
        char *grown = realloc(block, 3 * count * PAGE);
        if (!grown || grown == block) return 7;
        memory = grown + PAGE - 16;
        writing(memory);
    } else if (!strcmp(kind, "steady")) { /* works until its input ends, about 20,000 pages a second */
        long all = count;
        char byte;
        memory = fresh(0);
        printf("%d\n", getpid());
        fflush(stdout);
        fcntl(0, F_SETFL, O_NONBLOCK);
        volatile char *next = memory;
        for (count = 2; next < memory + all * PAGE && read(0, &byte, 1) != 0; next += count * PAGE) {
            writing(next);
            usleep(30);
        }
        count = (next - memory) / PAGE;
    } else if (!strncmp(kind, "huge", 4)) { /* one page of the 512, or all, which stay or go */
        char *block = mmap(0, 8 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memory = (char *)(((long)block + (2 << 20) - 1) & ~((2L << 20) - 1));
        madvise((void *)memory, 4 << 20, MADV_HUGEPAGE);
        count = strcmp(kind, "huge-parts") ? 1 : 512;
        writing(memory);
        count = 512;
        if (!is_huge((char *)memory)) printf("small\n");
        if (!strcmp(kind, "huge-gone")) munmap((void *)memory, 512 * PAGE);
        if (!strcmp(kind, "huge-half")) madvise((void *)(memory + 256 * PAGE), 256 * PAGE, MADV_DONTNEED);
    } else {
        return 2;
    }
    printf("%lx %ld\n", (long)memory / PAGE, count);
    return 0;
}
