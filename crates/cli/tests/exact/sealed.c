// Code in memory that stays writable, executed so much that its pages are sealed, and then changed in every way there
// is. With an argument (it is observed) waits until they are. Prints the page that the code counts in, and how often it
// was called.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: %s\n", __LINE__, #what); exit(1); } } while (0)

typedef int function(uint64_t *);

static unsigned char *code;
static uint64_t *counter;
static uint64_t calls;
static int observed;

// mov eax, value; add qword ptr [rdi], 1; ret
static void make(unsigned char *at, int value) {
    unsigned char bytes[] = {0xb8, 0, 0, 0, 0, 0x48, 0x83, 0x07, 0x01, 0xc3};
    memcpy(bytes + 1, &value, 4);
    memcpy(at, bytes, sizeof bytes);
}

static int call(unsigned char *at) {
    calls++;
    return ((function *)at)(counter);
}

static void change(unsigned char *at, int value) {
    *(volatile int *)(at + 1) = value;
}

static int is_sealed(unsigned char *at) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512], mode[8];
    unsigned long start, end;
    int found = 0;
    while (fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%lx %7s", &start, &end, mode) == 3 && start <= (unsigned long)at && (unsigned long)at < end)
            found = mode[1] == '-';
    fclose(maps);
    return found;
}

// Calls it until its page is sealed.
static void heat(unsigned char *at, int value) {
    for (int round = 0; round < 20000; round++) {
        for (int i = 0; i < 10000; i++)
            CHECK(call(at) == value);
        if (!observed || is_sealed(at))
            return;
    }
    CHECK(!"its page is not sealed");
}

static void *change_in_thread(void *value) {
    change(code, (int)(intptr_t)value);
    return NULL;
}

static sigjmp_buf back;
static volatile int got;

static void handler(int signal) {
    got = signal;
    if (signal == SIGSEGV)
        siglongjmp(back, 1);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "mask") == 0) {
        sigset_t inherited;
        sigprocmask(SIG_SETMASK, NULL, &inherited);
        return !sigismember(&inherited, SIGSEGV);
    }
    observed = argc > 1;
    code = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    // Where nothing was before.
    counter = mmap((void *)0x200000000000, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned char *data = code + 2048, *second = code + 4096 + 64;
    make(code, 1);
    make(second, 100);
    heat(code, 1);
    heat(second, 100);

    // What stands beside code.
    for (int i = 1; i <= 100; i++) {
        *(volatile int *)(data + 4 * (i % 16)) = i;
        CHECK(*(volatile int *)(data + 4 * (i % 16)) == i);
        CHECK(call(code) == 1);
    }
    CHECK(!observed || is_sealed(code));
    // Across two sealed pages, and by an instruction that repeats.
    uint64_t across = 0x1122334455667788;
    memcpy(code + 4092, &across, 8);
    CHECK(memcmp(code + 4092, &across, 8) == 0);
    unsigned char *to = data + 512;
    unsigned long left = 48;
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(left) : "a"(7) : "memory");
    for (int i = 0; i < 48; i++)
        CHECK(data[512 + i] == 7);

    // Code itself.
    for (int value = 2; value < 20; value++) {
        change(code, value);
        CHECK(call(code) == value);
        CHECK(call(second) == 100);
    }
    heat(code, 19);
    // Atomically, as a compiler patches calls.
    __atomic_store_n((int *)(second + 1), 101, __ATOMIC_SEQ_CST);
    CHECK(call(second) == 101);
    __atomic_fetch_add((int *)(second + 1), 1, __ATOMIC_SEQ_CST);
    CHECK(call(second) == 102);

    // With all signals blocked.
    sigset_t all, before, pending;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    change(code, 20);
    CHECK(call(code) == 20);
    sigset_t now;
    sigprocmask(SIG_SETMASK, NULL, &now);
    CHECK(sigismember(&now, SIGSEGV) && sigismember(&now, SIGTRAP) && sigismember(&now, SIGUSR1));
    sigprocmask(SIG_SETMASK, &before, NULL);

    // By another thread.
    pthread_t thread;
    heat(code, 20);
    pthread_create(&thread, NULL, change_in_thread, (void *)21);
    while (call(code) != 21)
        ;
    pthread_join(thread, NULL);
    heat(code, 21);

    // By the kernel.
    int pipes[2], value = 22;
    CHECK(pipe(pipes) == 0 && write(pipes[1], &value, 4) == 4);
    CHECK(read(pipes[0], code + 1, 4) == 4);
    CHECK(call(code) == 22);
    heat(code, 22);
    value = 23;
    struct iovec pieces[2] = {{code + 1, 2}, {code + 3, 2}};
    CHECK(write(pipes[1], &value, 4) == 4 && readv(pipes[0], pieces, 2) == 4);
    CHECK(call(code) == 23);
    heat(code, 23);
    int memory = open("/proc/self/mem", O_RDWR);
    value = 24;
    CHECK(pwrite(memory, &value, 4, (off_t)(uintptr_t)(code + 1)) == 4);
    CHECK(call(code) == 24);
    close(memory);

    // In a child.
    pid_t child = fork();
    if (child == 0) {
        change(second, 103);
        _exit(call(second) == 103 && call(code) == 24 ? 0 : 1);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(call(second) == 102);

    // Very often.
    for (int i = 0; i < 2000; i++) {
        change(second, i);
        CHECK(call(second) == i);
    }

    // Signals are the program's own.
    signal(SIGSEGV, handler);
    heat(code, 24);
    CHECK(mprotect(code, 4096, PROT_READ | PROT_EXEC) == 0);
    if (sigsetjmp(back, 1) == 0) {
        change(code, 25);
        CHECK(!"it could be written");
    }
    CHECK(got == SIGSEGV && call(code) == 24);
    CHECK(mprotect(code, 4096, PROT_READ | PROT_WRITE | PROT_EXEC) == 0);
    change(code, 26);
    CHECK(call(code) == 26);
    got = 0;
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, SIGSEGV);
    sigprocmask(SIG_BLOCK, &one, NULL);
    raise(SIGSEGV);
    sigpending(&pending);
    CHECK(got == 0 && sigismember(&pending, SIGSEGV));
    if (sigsetjmp(back, 1) == 0) {
        sigprocmask(SIG_UNBLOCK, &one, NULL);
        CHECK(!"it has not come");
    }
    CHECK(got == SIGSEGV);

    // A fault that is blocked ends the process.
    child = fork();
    if (child == 0) {
        sigprocmask(SIG_BLOCK, &one, NULL);
        *(volatile int *)16 = 1;
        _exit(3);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    // What is executed inherits the mask.
    child = fork();
    if (child == 0) {
        sigprocmask(SIG_BLOCK, &one, NULL);
        execl("/proc/self/exe", argv[0], "mask", (char *)NULL);
        _exit(4);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    printf("%lu %lu\n", (unsigned long)counter, (unsigned long)calls);
    CHECK(*counter == calls);
    return 0;
}
