/* Memory that the kernel places in calls of one thread and that another one works on: in_calls. Says of each: how,
 * tid, first page, pages. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#define PAGE 4096L
#define PAGES 32L
#define BYTES (PAGES * PAGE)

static int zero, pair[2], file;
static volatile long total;

static char *fresh(int extra) {
    char *memory = mmap(0, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | extra, -1, 0);
    if (memory == MAP_FAILED) exit(9);
    return memory;
}

static void *use(void *memory) {
    for (long at = 0; at < BYTES; at += 64) total += ((volatile char *)memory)[at];
    return 0;
}

static void by_another(const char *how, char *memory) {
    pthread_t other;
    pthread_create(&other, 0, use, memory);
    pthread_join(other, 0);
    printf("%s %d %lx %ld\n", how, gettid(), (long)memory / PAGE, PAGES);
}

static void must(long got, long wanted) {
    if (got != wanted) {
        perror("call");
        exit(8);
    }
}

static char *blocked;
static atomic_int begun;

static void *blocks(void *unused) {
    (void)unused;
    char *memory = blocked;
    begun = gettid();
    must(recv(pair[1], memory, BYTES, MSG_WAITALL), BYTES);
    return 0;
}

static void noticed(int signal) { (void)signal; }

int main(void) {
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    zero = open("/dev/zero", O_RDONLY);
    file = memfd_create("file", 0);
    must(ftruncate(file, BYTES), 0);
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    static char input[BYTES];
    memset(input, 1, BYTES);

    char *memory = fresh(0);
    must(read(zero, memory, BYTES), BYTES);
    by_another("read", memory);

    memory = fresh(0);
    for (long at = 0; at < BYTES; at += 1000) read(zero, memory + at, at + 1000 < BYTES ? 1000 : BYTES - at);
    by_another("read", memory);

    memory = fresh(0);
    struct iovec pieces[2] = {{memory + BYTES / 2, BYTES / 2}, {memory, BYTES / 2}};
    must(readv(zero, pieces, 2), BYTES);
    by_another("readv", memory);

    memory = fresh(0);
    must(pread(file, memory, BYTES, 0), BYTES);
    by_another("pread", memory);

    memory = fresh(0);
    for (int part = 0; part < 4; part++) {
        must(send(pair[0], input, BYTES / 4, 0), BYTES / 4);
        must(recv(pair[1], memory + part * (BYTES / 4), BYTES - part * (BYTES / 4), 0), BYTES / 4);
    }
    by_another("recv", memory);

    memory = fresh(0);
    struct iovec all = {memory, BYTES};
    struct msghdr message = {.msg_iov = &all, .msg_iovlen = 1};
    must(send(pair[0], input, BYTES, 0), BYTES);
    must(recvmsg(pair[1], &message, MSG_WAITALL), BYTES);
    by_another("recv", memory);

    memory = fresh(0);
    must(getrandom(memory, BYTES, 0), BYTES);
    by_another("getrandom", memory);

    by_another("mmap", fresh(MAP_POPULATE));

    memory = fresh(0);
    must(madvise(memory, BYTES, MADV_POPULATE_WRITE), 0);
    by_another("madvise", memory);

    memory = fresh(0);
    must(mlock(memory, BYTES), 0);
    by_another("mlock", memory);

    memory = fresh(0);
    struct iovec from = {input, BYTES}, to = {memory, BYTES};
    must(process_vm_writev(getpid(), &from, 1, &to, 1, 0), BYTES);
    by_another("process_vm_writev", memory);

    memory = fresh(0);
    must(process_vm_readv(getpid(), &(struct iovec){memory, BYTES}, 1, &from, 1, 0), BYTES);
    by_another("process_vm_readv", memory);

    /* Read before, from the zero page. */
    memory = fresh(0);
    for (int round = 0; round < 9; round++) use(memory);
    must(read(zero, memory, BYTES), BYTES);
    by_another("read", memory);

    /* Read before, from a file. */
    memory = mmap(0, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    use(memory);
    must(read(zero, memory, BYTES), BYTES);
    by_another("read", memory);

    /* A thread that waits for it, with a signal meanwhile; a third one looks at what has come. */
    signal(SIGUSR1, noticed);
    blocked = fresh(0);
    pthread_t waiting;
    pthread_create(&waiting, 0, blocks, 0);
    while (!begun) sched_yield();
    pthread_kill(waiting, SIGUSR1);
    must(send(pair[0], input, BYTES / 2, 0), BYTES / 2);
    while (!((volatile char *)blocked)[BYTES / 2 - 1]) sched_yield();
    must(send(pair[0], input, BYTES / 2, 0), BYTES / 2);
    pthread_join(waiting, 0);
    use(blocked);
    printf("recv %d %lx %ld\n", begun, (long)blocked / PAGE, PAGES);

    /* A child's own copies of what it has from its parent. */
    memory = fresh(0);
    memset(memory, 1, BYTES);
    fflush(stdout);
    if (!fork()) {
        must(read(zero, memory, BYTES), BYTES);
        use(memory);
        printf("read %d %lx %ld\n", gettid(), (long)memory / PAGE, PAGES);
        fflush(stdout);
        _exit(0);
    }
    wait(0);
    return 0;
}
