/* A program that forbids itself to read the time stamp counter: so do those that want to be replayed. What it reads
 * it with itself then is a signal; allocations, threads and children go on. With an argument it has been executed by
 * itself and has inherited that. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <x86intrin.h>

static void caught(int signal) {
    (void)signal;
    write(1, "caught\n", 7);
    _exit(0);
}

static void *allocate(void *argument) {
    for (size_t n = 0; n < 1000; n++) {
        char *block = malloc(10000 + n);
        memset(block, 1, 10000);
        free(block);
    }
    return argument;
}

int main(int argc, char **argv) {
    int mode = 0;
    prctl(PR_GET_TSC, &mode);
    printf("mode %d\n", mode);
    allocate(NULL);
    if (argc == 1) {
        if (syscall(SYS_prctl, PR_SET_TSC, PR_TSC_ENABLE) || prctl(PR_SET_TSC, PR_TSC_SIGSEGV)) return 1;
        allocate(NULL);
    }
    pthread_t thread;
    pthread_create(&thread, NULL, allocate, NULL);
    pthread_join(thread, NULL);
    fflush(stdout);
    int status = 0;
    if (fork() == 0) {
        allocate(NULL);
        signal(SIGSEGV, caught);
        return __rdtsc() == 0;
    }
    wait(&status);
    printf("child %d\n", status);
    fflush(stdout);
    if (argc == 1) execl(argv[0], argv[0], "again", NULL);
    return 0;
}
