// Small blocks that share a page, and a large one, used by two threads before, in and after pauses. How often each is
// accessed in each part is known. With an argument the user starts and stops the counting, who is told which by a line
// and says by another that it is done.
#include <fcntl.h>
#include <numalens.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BIG = 200000 };

static pthread_barrier_t barrier;
static volatile long *common, *lent, *used, *late, *kept;
static volatile char *large;
static int by_user;
static volatile pid_t other_thread;

static __attribute__((noinline)) void reads(volatile long *block, int times) {
    for (int i = 0; i < times; i++) (void)block[i % 4];
}

static __attribute__((noinline)) void writes(volatile long *block, int times) {
    for (int i = 0; i < times; i++) block[i % 4] = i;
}

static __attribute__((noinline)) void fills(volatile char *block, int times) {
    for (int i = 0; i < times; i++) block[i * 512] = 1;
}

// What a thread counts while the counters are read belongs to one part or the other. So the other thread waits at the
// barrier, and is not only on its way there.
static void wait_until_it_waits(void) {
    char path[64], line[256] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", other_thread);
    for (const char *state = 0; !state || state[2] != 'S'; state = strrchr(line, ')')) {
        sched_yield();
        int status = open(path, O_RDONLY);
        if (status < 0 || read(status, line, sizeof line - 1) <= 0 || close(status)) exit(1);
    }
}

static void turn(int on) {
    char answer;
    if (other_thread) wait_until_it_waits();
    if (!by_user) {
        if (on) numalens_start();
        else numalens_stop();
    } else if (write(1, on ? "start\n" : "stop \n", 6) != 6 || read(0, &answer, 1) != 1) {
        exit(1);
    }
}

static void meet(void) {
    pthread_barrier_wait(&barrier);
}

// Between two of them only the main thread runs.
static void *other(void *unused) {
    other_thread = (pid_t)syscall(SYS_gettid);
    // Before the first start.
    reads(common, 50);
    writes(lent, 7);
    meet();
    meet();
    // Counted.
    reads(common, 20);
    writes(lent, 3);
    fills(large, 5);
    meet();
    meet();
    // A pause.
    reads(common, 400);
    writes(late, 9);
    fills(large, 100);
    meet();
    meet();
    // Counted.
    writes(common, 2);
    reads(late, 4);
    meet();
    meet();
    // A pause, in which it ends.
    writes(common, 77);
    return unused;
}

int main(int count, char **arguments) {
    (void)arguments;
    by_user = count > 1;
    pthread_barrier_init(&barrier, 0, 2);
    common = (volatile long *)malloc(48);  // EXPECT common block
    lent = (volatile long *)malloc(48);    // EXPECT lent block
    used = (volatile long *)malloc(48);    // EXPECT used block
    kept = (volatile long *)malloc(48);    // EXPECT kept block
    large = (volatile char *)malloc(BIG);  // EXPECT large block
    pthread_t thread;
    pthread_create(&thread, 0, other, 0);
    writes(common, 100);
    writes(kept, 60);
    writes(used, 13);
    meet();
    turn(1);
    meet();
    writes(common, 30);
    writes(used, 11);
    reads(used, 4);
    meet();
    turn(0);
    free((void *)used);
    late = (volatile long *)malloc(48);  // EXPECT late block
    if (late != used) return 1;
    writes(late, 1000);
    meet();
    writes(common, 1000);
    fills(large, 300);
    meet();
    free((void *)large);
    turn(1);
    meet();
    reads(common, 6);
    writes(late, 8);
    reads(kept, 21);
    meet();
    turn(0);
    free((void *)late);
    meet();
    pthread_join(thread, 0);
    other_thread = 0;
    reads(kept, 500);
    // Once more, with nobody else there.
    turn(1);
    writes(kept, 10);
    turn(0);
    writes(kept, 99);
    return 0;
}
