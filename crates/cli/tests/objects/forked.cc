// A child uses and frees a block that its parent made, and has one of its own.
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void put(volatile char *at, long bytes) {
    for (long i = 0; i < bytes; i++) at[i] = (char)i;
}

int main() {
    char *both = (char *)malloc(1 << 20); // EXPECT both
    put(both, 1 << 20);
    if (fork() == 0) {
        put(both, 1 << 20);
        char *own = (char *)malloc(2 << 20); // EXPECT child
        put(own, 2 << 20);
        free(both);
        free(own);
        _exit(0);
    }
    wait(0);
    char *last = (char *)malloc(3 << 20); // EXPECT parent
    put(last, 3 << 20);
    free(both);
    free(last);
    return 0;
}
