// Children that are killed before they have run, and one whose parent has gone by then: what others do afterwards is
// recorded, and the child has what its parent had when it was forked.
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, LONGS = PAGE / (int)sizeof(long), KILLED = 20, PAGES = 30, MORE = 100 };

static __attribute__((noinline)) void writes(volatile long *block, int pages) {
    for (int i = 0; i < pages * LONGS; i++) block[i] = i;
}

static void *threads(void *unused) {
    writes((long *)aligned_alloc(PAGE, PAGES * PAGE), PAGES);  // EXPECT thread's
    return unused;
}

int main(void) {
    // All blocks come from one heap, one behind the other.
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    for (int i = 0; i < KILLED; i++) {
        pid_t child = fork();
        if (child == 0) _exit(0);
        kill(child, SIGKILL);
        waitpid(child, 0, 0);
    }
    pthread_t thread;
    if (pthread_create(&thread, 0, threads, 0) || pthread_join(thread, 0)) return 1;
    pid_t child = fork();
    if (child == 0) {
        writes((long *)aligned_alloc(PAGE, PAGES * PAGE), PAGES);  // EXPECT child's
        _exit(0);
    }
    waitpid(child, 0, 0);
    // Whoever is left behind comes to this process, not to the system's first one.
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    int orphan[2];
    if (pipe(orphan)) return 1;
    child = fork();
    if (child == 0) {
        long *block = (long *)aligned_alloc(PAGE, PAGES * PAGE);  // EXPECT inherited
        pid_t left = fork();
        if (left == 0) {
            writes(block, PAGES);
            _exit(0);
        }
        kill(left, SIGSTOP);
        free(block);
        writes((long *)aligned_alloc(PAGE, MORE * PAGE), MORE);  // EXPECT parent's
        _exit(write(orphan[1], &left, sizeof left) != sizeof left);
    }
    waitpid(child, 0, 0);
    if (read(orphan[0], &child, sizeof child) != sizeof child) return 1;
    kill(child, SIGCONT);
    waitpid(child, 0, 0);
    printf("thread's %d\nchild's %d\ninherited %d\nparent's %d\n", PAGES * LONGS, PAGES * LONGS, PAGES * LONGS, MORE * LONGS);
    return 0;
}
