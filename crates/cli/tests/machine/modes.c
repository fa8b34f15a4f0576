/* How files that are made, or are the machine's, are open: as the kernel's would be. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

int main(void) {
    const char *paths[] = {"/proc/self/status", "/proc/self/numa_maps", "/proc/meminfo", "/proc/stat", "/proc/cpuinfo",
                           "/sys/devices/system/cpu/online"};
    for (int i = 0; i < 6; i++)
        for (int how = 0; how < 2; how++) {
            int file = open(paths[i], how ? O_RDONLY | O_CLOEXEC : O_RDONLY);
            char byte;
            printf("%s %x %x", paths[i], fcntl(file, F_GETFL), fcntl(file, F_GETFD));
            printf(" %zd", read(file, &byte, 1));
            errno = 0;
            printf(" %zd %d %d\n", write(file, "x", 1), errno, (int)lseek(file, 0, SEEK_CUR));
            close(file);
        }
    return 0;
}
