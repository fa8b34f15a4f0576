/* Memory that is mapped several times: its policies belong to it, and each page has one home. For a machine of four
 * nodes with two CPUs each. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <numaif.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pages.h"

static char *map(int file, off_t offset, size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, file < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED, file, offset);
    if (at == MAP_FAILED)
        fail("mmap");
    return at;
}

static int memory_file(void)
{
    int file = memfd_create("memory", 0);
    if (file < 0 || ftruncate(file, BYTES))
        fail("memfd");
    return file;
}

static void bind(char *memory, size_t bytes, int mode, unsigned long nodes)
{
    if (mbind(memory, bytes, mode, nodes ? &nodes : NULL, nodes ? 64 : 0, 0))
        fail("mbind");
}

static void policy(const char *what, char *memory)
{
    int mode;
    unsigned long nodes = 0;
    if (get_mempolicy(&mode, &nodes, 64, memory, MPOL_F_ADDR))
        fail("get_mempolicy");
    printf("%s: policy %d of nodes %lx\n", what, mode, nodes);
}

static void ask(char *memory, int *nodes, int count)
{
    void *pages[PAGES];
    for (int i = 0; i < count; i++)
        pages[i] = memory + i * PAGE;
    if (move_pages(0, count, pages, NULL, nodes, 0))
        fail("move_pages");
}

static void homes(const char *what, char *memory, int count)
{
    int nodes[PAGES];
    ask(memory, nodes, count);
    printf("%s:", what);
    for (int i = 0; i < count; i++)
        printf(" %d", nodes[i]);
    puts("");
}

/* Nodes that follow each other, whichever is the first. */
static void round_of(const char *what, char *memory, int of)
{
    int nodes[PAGES], in_turn = 1;
    ask(memory, nodes, PAGES);
    for (int i = 1; i < PAGES; i++)
        in_turn &= nodes[i] == (nodes[i - 1] + 1) % of;
    printf("%s: %s\n", what, in_turn ? "in turn" : "not in turn");
}

static int move(char *memory, int count, int to, int flags, int *status)
{
    void *pages[PAGES];
    int nodes[PAGES];
    for (int i = 0; i < count; i++)
        pages[i] = memory + i * PAGE, nodes[i] = to;
    return move_pages(0, count, pages, nodes, status, flags);
}

__attribute__((noinline)) static uint64_t read_all(const char *memory)
{
    uint64_t sum = 0;
    for (int pass = 0; pass < PASSES; pass++)
        for (int i = 0; i < PAGES; i++)
            sum += *(const volatile uint64_t *)(memory + i * PAGE);
    return sum;
}

/* Two mappings of a process. */
static void mappings(void)
{
    int file = memory_file();
    char *one = map(file, 0, BYTES), *other = map(file, 0, BYTES), *later = map(file, PAGE, BYTES - PAGE);
    bind(one, BYTES, MPOL_BIND, 4);
    policy("by the other", other);
    touch(other);
    read_all(one);
    homes("placed by the other", one, PAGES);
    bind(later + PAGE, PAGE, MPOL_PREFERRED, 8);
    policy("a piece", one + 2 * PAGE);
    policy("before the piece", one + PAGE);
    policy("behind the piece", one + 3 * PAGE);
    bind(other, BYTES, MPOL_DEFAULT, 0);
    policy("taken away by the other", one);
    policy("the piece as well", one + 2 * PAGE);

    file = memory_file();
    one = map(file, 0, BYTES), later = map(file, 3 * PAGE, BYTES - 3 * PAGE);
    bind(one, BYTES, MPOL_INTERLEAVE, 15);
    for (int i = PAGES - 1; i >= 0; i--)
        (i < 3 ? one + i * PAGE : later + (i - 3) * PAGE)[0] = 1;
    read_all(one);
    round_of("interleaved by the place in the memory", one, 4);

    /* A stored file has no policies: whoever maps it again finds none. */
    char name[] = "stored-XXXXXX";
    file = mkstemp(name);
    if (file < 0 || unlink(name) || ftruncate(file, BYTES))
        fail("file");
    one = map(file, 0, BYTES), other = map(file, 0, BYTES);
    bind(one, BYTES, MPOL_BIND, 4);
    policy("a stored file", one);
    policy("a stored file by the other", other);
}

/* A thread's own interleaving goes by the place in memory that is shared. */
static void of_thread(void)
{
    unsigned long all = 15;
    char *memory = map(-1, 0, BYTES);
    if (set_mempolicy(MPOL_INTERLEAVE, &all, 64))
        fail("set_mempolicy");
    for (int i = 0; i < PAGES; i++)
        memory[(i * 3 % PAGES) * PAGE] = 1;
    round_of("interleaved by the thread", memory, 4);
}

static void wait_for(int child)
{
    int status;
    if (waitpid(child, &status, 0) < 0 || status)
        exit(4);
}

static void run(const char *program, const char *how, const char *what)
{
    fflush(stdout);
    int child = fork();
    if (!child) {
        execl(program, program, how, what, NULL);
        _exit(5);
    }
    wait_for(child);
}

/* A program that comes later. */
static void processes(const char *program)
{
    int segment = shmget(IPC_PRIVATE, BYTES, IPC_CREAT | 0600);
    char *memory = shmat(segment, NULL, 0), number[16];
    if (memory == (void *)-1)
        fail("shmat");
    bind(memory, BYTES, MPOL_BIND, 8);
    snprintf(number, sizeof number, "%d", segment);
    run(program, "attach", number);
    homes("the segment here", memory, 1);
    touch(memory);
    homes("the segment here, touched", memory, PAGES);
    shmctl(segment, IPC_RMID, NULL);

    memory = map(-1, 0, BYTES);
    fflush(stdout);
    int child = fork();
    if (!child) {
        bind(memory, BYTES / 2, MPOL_BIND, 2);
        _exit(0);
    }
    wait_for(child);
    policy("said by the child", memory);
    policy("not said by the child", memory + BYTES / 2);
}

/* A page has one home, whoever has moved it. */
static void moves(void)
{
    int status[PAGES];
    run_on(0);
    int file = memory_file();
    char *one = map(file, 0, BYTES), *other = map(file, 0, BYTES);
    touch(one);
    homes("placed", one, PAGES);
    printf("moved: %d\n", move(one, PAGES, 1, MPOL_MF_MOVE, status));
    read_all(other);
    homes("by the other", other, PAGES);
    /* They are mapped twice now. */
    printf("moved: %d", move(one, PAGES, 2, MPOL_MF_MOVE, status));
    printf(", %s\n", strerror(-status[0]));
    printf("moved: %d", move(one, PAGES, 2, MPOL_MF_MOVE_ALL, status));
    printf(", on %d\n", status[0]);
    homes("by the other", other, PAGES);
    unsigned long three = 8;
    if (mbind(other, BYTES, MPOL_BIND, &three, 64, MPOL_MF_MOVE_ALL))
        fail("mbind");
    homes("bound by the other", one, PAGES);
    unsigned long from = 8, to = 1;
    printf("migrated: %ld\n", migrate_pages(0, 64, &from, &to));
    homes("migrated", one, PAGES);
    homes("migrated", other, PAGES);
}

/* The same in another process, which waits in a system call meanwhile. */
static void moved_by_another(void)
{
    int there[2], back[2], status[PAGES];
    char byte = 0, *memory = map(-1, 0, BYTES);
    if (pipe(there) || pipe(back))
        fail("pipe");
    fflush(stdout);
    int child = fork();
    if (!child) {
        run_on(6);
        touch(memory);
        unsigned long one = 1;
        bind(memory, BYTES, MPOL_BIND, one);
        for (int turn = 0; turn < 2; turn++) {
            if (write(back[1], &byte, 1) != 1 || read(there[0], &byte, 1) != 1)
                _exit(6);
            read_all(memory);
        }
        homes("moved from outside", memory, PAGES);
        fflush(stdout);
        _exit(0);
    }
    run_on(0);
    if (read(back[0], &byte, 1) != 1)
        exit(7);
    volatile char sum = 0;
    for (int i = 0; i < PAGES; i++)
        sum += memory[i * PAGE];
    /* The child reads what is where it was, and then what is on the first node. */
    if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
        exit(8);
    printf("moved: %d\n", move(memory, PAGES, 0, MPOL_MF_MOVE_ALL, status));
    fflush(stdout);
    if (write(there[1], &byte, 1) != 1)
        exit(9);
    wait_for(child);
}

/* What numactl has said of a segment or a file. */
static void look(const char *path)
{
    int file = open(path, O_RDWR), segment = file < 0 ? -1 : shmget(ftok(path, 0), 0, 0);
    char *memory = segment < 0 ? map(file, 0, BYTES) : shmat(segment, NULL, 0);
    policy("numactl", memory);
    touch(memory);
    homes("numactl", memory, PAGES);
}

int main(int count, char **words)
{
    const char *how = count > 1 ? words[1] : "";
    if (!strcmp(how, "mappings"))
        mappings(), of_thread();
    if (!strcmp(how, "processes"))
        processes(words[0]);
    if (!strcmp(how, "moves"))
        moves();
    if (!strcmp(how, "another"))
        moved_by_another();
    if (!strcmp(how, "look"))
        look(words[2]);
    if (!strcmp(how, "key"))
        printf("%d\n", ftok(words[2], 0));
    if (!strcmp(how, "attach")) {
        char *memory = shmat(atoi(words[2]), NULL, 0);
        policy("attached", memory);
        memory[0] = 1;
        homes("attached", memory, 1);
    }
    return 0;
}
