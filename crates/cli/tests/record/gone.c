/* Code whose file is gone when the recording ends, or never had a name: gone library FILE, gone memory, gone work. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

__attribute__((noinline)) long worker(volatile char *bytes, long count) {
    long sum = 0;
    for (int round = 0; round < 3000; round++)
        for (long i = 0; i < count; i++) sum += bytes[i]; // EXPECT
    return sum;
}

#ifndef LIBRARY
extern char **environ;
static long copied(const char *from, int to) {
    int file = open(from, O_RDONLY);
    struct stat status;
    fstat(file, &status);
    long bytes = sendfile(to, file, 0, status.st_size);
    close(file);
    return bytes;
}
int main(int count, char **arguments) {
    long (*work)(volatile char *, long) = worker;
    if (count < 2) return 0;
    if (!strcmp(arguments[1], "library")) {
        char name[] = "./jniXXXXXX";
        int file = mkstemp(name);
        copied(arguments[2], file);
        close(file);
        void *library = dlopen(name, RTLD_NOW);
        unlink(name);
        if (!library) return puts(dlerror()), 1;
        work = (long (*)(volatile char *, long))dlsym(library, "worker");
    } else if (!strcmp(arguments[1], "memory")) {
        int file = memfd_create("payload", MFD_CLOEXEC);
        copied("/proc/self/exe", file);
        fexecve(file, (char *[]){"payload", "work", 0}, environ);
        return 1;
    }
    char *bytes = malloc(1 << 17);
    memset(bytes, 1, 1 << 17);
    printf("%ld\n", work(bytes, 1 << 17));
}
#endif
