// Comes to the machine's files by every way but the straight one: relative to folders, up and down, through links.

#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void show(const char *how, int file) {
    char text[4096] = "";
    if (file < 0 || read(file, text, sizeof text - 1) < 0)
        perror(how);
    text[strcspn(text, "\n")] = 0;
    printf("%s: %s\n", how, text);
    close(file);
}

static int folder(int at, const char *path) { return openat(at, path, O_RDONLY | O_DIRECTORY); }

int main(void) {
    int root = folder(AT_FDCWD, "/"), sys = folder(AT_FDCWD, "/sys"), devices = folder(sys, "devices");
    int system = folder(devices, "system"), node = folder(system, "node"), self = folder(AT_FDCWD, "/proc/self");
    show("root", openat(root, "sys/devices/system/node/online", O_RDONLY));
    show("devices", openat(devices, "system/./cpu//online", O_RDONLY));
    show("system", openat(system, "node/online", O_RDONLY));
    show("node", openat(node, "node1/cpulist", O_RDONLY));
    show("up in it", openat(node, "node1/../node2/cpulist", O_RDONLY));
    show("up and down", openat(node, "../cpu/online", O_RDONLY));
    show("up and up", openat(node, "../../system/cpu/../../system/node/has_cpu", O_RDONLY));
    show("through a link", openat(AT_FDCWD, "/sys/devices/system/cpu/cpu7/node3/../node0/cpulist", O_RDONLY));
    show("through two", openat(AT_FDCWD, "/sys/bus/node/devices/node2/cpu5/../cpu6/../online", O_RDONLY));
    show("past it", openat(AT_FDCWD, "/sys/devices/system/cpu/cpu7/../../../../../proc/sys/kernel/ostype", O_RDONLY));
    show("out of it", openat(node, "../../../../proc/sys/kernel/ostype", O_RDONLY));
    show("from elsewhere", openat(AT_FDCWD, "/usr/../sys/devices/system/node/possible", O_RDONLY));
    struct stat one, other;
    int is_same = fstat(node, &one) == 0 && fstatat(system, "node", &other, 0) == 0 && one.st_ino == other.st_ino;
    is_same &= fstatat(node, "..", &one, 0) == 0 && fstat(system, &other) == 0 && one.st_ino == other.st_ino;
    printf("the same folders: %d\n", is_same);
    printf("there: %d, not there: %d\n", faccessat(system, "cpu/cpu7", F_OK, 0), faccessat(system, "cpu/cpu8", F_OK, 0));
    char link[64] = "", name[256] = "";
    if (readlinkat(system, "node/node2/cpu4", link, sizeof link - 1) < 0)
        perror("readlinkat");
    printf("a link: %s\n", link);
    FILE *status = fdopen(openat(self, "status", O_RDONLY), "r");
    while (fgets(name, sizeof name, status))
        if (strncmp(name, "Cpus_allowed_list", 17) == 0)
            printf("%s", name);
    int moved = chdir("/sys/devices/system") || chdir("cpu/cpu3");
    printf("in %s, %d\n", getcwd(name, sizeof name), moved);
    show("below", open("topology/physical_package_id", O_RDONLY));
    show("beside", open("../cpu4/topology/physical_package_id", O_RDONLY));
    moved = chdir("../..");
    printf("in %s, %d\n", getcwd(name, sizeof name), moved);
    show("again", open("cpu/online", O_RDONLY));
    moved = fchdir(node);
    printf("in %s, %d\n", getcwd(name, sizeof name), moved);
    moved = chdir("..") || fchdir(system);
    show("and again", open("node/online", O_RDONLY));
    printf("too short: %d\n", getcwd(name, 5) != NULL);
    return 0;
}
