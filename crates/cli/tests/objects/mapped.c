// 256 KiB that a process and its three children use, each with a mapping of its own: of the kind that the argument
// names.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 256 << 10 };
static int file = -1, segment;

static char *mapped(void) {
    if (file < 0) return (char *)shmat(segment, 0, 0);
    return (char *)mmap(0, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
}

int main(int count, char **arguments) {
    if (count < 2) return 2;
    const char *kind = arguments[1];
    char *memory = 0;
    if (!strcmp(kind, "sysv")) segment = shmget(IPC_PRIVATE, BYTES, IPC_CREAT | 0600);
    else if (!strcmp(kind, "memfd")) file = memfd_create("numalens-test-memfd", 0);
    else if (!strcmp(kind, "shm")) file = shm_open("/numalens-test-mapped", O_CREAT | O_RDWR, 0600);
    else if (!strcmp(kind, "file")) file = open(arguments[2], O_CREAT | O_RDWR, 0600);
    else memory = (char *)mmap(0, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0); // EXPECT unnamed
    if (file >= 0 && ftruncate(file, BYTES)) return 1;
    char *first = memory ? memory : mapped();
    memset(first, 1, BYTES);
    for (int child = 0; child < 3; child++) {
        if (fork()) continue;
        volatile char *again = memory ? memory : mapped();
        for (int round = 0; round < 20; round++)
            for (int i = 0; i < BYTES; i += 64) again[i]++;
        _exit(0);
    }
    while (wait(0) > 0) {}
    if (!strcmp(kind, "sysv")) shmctl(segment, IPC_RMID, 0);
    if (!strcmp(kind, "shm")) shm_unlink("/numalens-test-mapped");
    return 0;
}
