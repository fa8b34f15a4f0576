// Memory that processes share, written on the first CPU and then read on the last one: by a forked child (`fork`), or
// by a program of its own that maps the same file (`file`) or attaches the same segment (`sysv`).
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGES = 256, PASSES = 100, PAGE = 4096, BYTES = PAGES * PAGE };

static void run_on(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set)) exit(3);
}

__attribute__((noinline)) static uint64_t read_all(const char *at) {
    uint64_t sum = 0;
    for (int pass = 0; pass < PASSES; pass++)
        for (int page = 0; page < PAGES; page++) sum += *(volatile const uint64_t *)(at + page * PAGE);
    return sum;
}

__attribute__((noinline)) static void write_all(char *at) {
    for (int page = 0; page < PAGES; page++) *(volatile uint64_t *)(at + page * PAGE) = page;
}

static void *map(const char *path) {
    int file = open(path, O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, 2 * BYTES)) exit(4);
    // Not from the beginning, and readers have it elsewhere.
    void *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, BYTES);
    close(file);
    return at;
}

int main(int count, char **words) {
    if (count < 3) return 2;
    const char *how = words[1], *what = words[2];
    if (count > 3) {
        run_on((int)sysconf(_SC_NPROCESSORS_ONLN) - 1);
        void *at = strcmp(how, "file") ? shmat(atoi(what), NULL, 0) : map(what);
        return at == (void *)-1 || read_all(at) != (uint64_t)PASSES * PAGES * (PAGES - 1) / 2;
    }
    run_on(0);
    char number[16] = "";
    void *at = MAP_FAILED;
    if (!strcmp(how, "fork")) at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!strcmp(how, "file")) at = map(what);
    if (!strcmp(how, "sysv")) {
        int segment = shmget(IPC_PRIVATE, BYTES, IPC_CREAT | 0600);
        at = shmat(segment, NULL, 0);
        snprintf(number, sizeof number, "%d", segment);
    }
    if (at == MAP_FAILED) return 5;
    write_all(at);
    int child = fork(), status = 1;
    if (!child) {
        run_on((int)sysconf(_SC_NPROCESSORS_ONLN) - 1);
        if (!strcmp(how, "fork")) {
            // Elsewhere, the same pages.
            char *moved = mremap(at, BYTES, BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, (char *)at - (1 << 30));
            _exit(moved == MAP_FAILED || read_all(moved) != (uint64_t)PASSES * PAGES * (PAGES - 1) / 2);
        }
        execl(words[0], words[0], how, *number ? number : what, "reader", NULL);
        _exit(6);
    }
    waitpid(child, &status, 0);
    if (*number) shmctl(atoi(number), IPC_RMID, NULL);
    if (!strcmp(how, "file")) unlink(what);
    puts(status ? "wrong" : "read");
    return status != 0;
}
