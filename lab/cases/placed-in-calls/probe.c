/* The first thread, on the last node, has the kernel place arrays in its system calls; threads on all nodes read them.
 * The call is an instruction of this file, so that its line is known whatever the C library does. */
#include "target.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#define MOST 16

static long call(long number, long a, long b, long c, long d, long e, long f)
{
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    long result = number;
    __asm__ volatile("syscall" // EXPECT call
                     : "+a"(result)
                     : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

static struct { uint64_t *data; int array; } of[MOST];
static int arrays;
static uint64_t sums[64];

/* Whether faults tell of it. Of what the kernel brings in without one, only who sees the calls knows. */
static int by_faults(void)
{
    return getenv("ONLY_FAULTS") != NULL;
}

static char *fresh(int extra)
{
    long at = call(SYS_mmap, 0, (long)tg.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | extra, -1, 0);
    if (at < 0 && at > -4096)
        tg_die("mmap");
    return (char *)at;
}

static void placed(const char *name, char *memory, long done, long wanted)
{
    if (done != wanted)
        tg_die(name);
    of[arrays].data = (uint64_t *)memory;
    of[arrays].array = tg_array(name, memory, tg.bytes);
    tg_touched(of[arrays].array, 0, 0, tg.bytes, "call");
    arrays++;
}

static void work(int slot)
{
    uint64_t sum = 0;
    size_t count = tg.bytes / 8;
    for (int i = 0; i < arrays; i++) {
        uint64_t *data = of[i].data;
        double start = tg_seconds();
        for (long round = 0; round < tg.rounds; round++) {
            for (size_t w = 0; w < count; w++)
                sum += data[w]; // EXPECT read
            TG_BARRIER();
        }
        tg_accessed(of[i].array, slot, 0, tg.bytes, (double)tg.rounds * (double)count, 0, tg_seconds() - start, "read");
    }
    sums[slot] = sum;
}

int main(int argc, char **argv)
{
    tg_start(argc, argv, "placed-in-calls", 1, 4);
    tg_enter(0, tg.nodes - 1);
    long bytes = (long)tg.bytes;
    char *input = malloc(tg.bytes), *memory;
    memset(input, 1, tg.bytes);
    int zero = open("/dev/zero", O_RDONLY), pair[2];
    if (zero < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
        tg_die("descriptors");

    memory = fresh(0);
    placed("read", memory, call(SYS_read, zero, (long)memory, bytes, 0, 0, 0), bytes);

    memory = fresh(0);
    struct iovec halves[2] = { { memory + bytes / 2, tg.bytes / 2 }, { memory, tg.bytes / 2 } };
    placed("readv", memory, call(SYS_readv, zero, (long)halves, 2, 0, 0, 0), bytes);

    memory = fresh(0);
    long got = 0;
    for (long part = 0; part < 64; part++) {
        if (send(pair[0], input, tg.bytes / 64, 0) != bytes / 64)
            tg_die("send");
        got += call(SYS_recvfrom, pair[1], (long)(memory + got), bytes - got, 0, 0, 0);
    }
    placed("recv", memory, got, bytes);

    memory = fresh(0);
    placed("getrandom", memory, call(SYS_getrandom, (long)memory, bytes, 0, 0, 0, 0), bytes);

    if (!by_faults()) {
        memory = fresh(MAP_POPULATE);
        placed("populate", memory, 0, 0);

        memory = fresh(0);
        placed("madvise", memory, call(SYS_madvise, (long)memory, bytes, MADV_POPULATE_WRITE, 0, 0, 0), 0);

        memory = fresh(0);
        placed("mlock", memory, call(SYS_mlock, (long)memory, bytes, 0, 0, 0, 0), 0);

        memory = fresh(0);
        struct iovec from = { input, tg.bytes }, to = { memory, tg.bytes };
        placed("process_vm_writev", memory, call(SYS_process_vm_writev, getpid(), (long)&from, 1, (long)&to, 1, 0), bytes);

        /* Read before: from the zero page. */
        memory = fresh(0);
        for (long at = 0; at < bytes; at += 4096)
            sums[0] += (uint64_t)memory[at];
        placed("zeros", memory, call(SYS_read, zero, (long)memory, bytes, 0, 0, 0), bytes);
    }

    /* Bound to the first node: a policy of the range wins. */
    memory = fresh(0);
    unsigned long first = 1ul << tg.node[0];
    if (syscall(SYS_mbind, memory, tg.bytes, MPOL_BIND, &first, 64ul, 0))
        tg_die("mbind");
    placed("bound", memory, call(SYS_read, zero, (long)memory, bytes, 0, 0, 0), bytes);
    tg.array[of[arrays - 1].array].bound = 1;

    tg_run(work);
    uint64_t total = 0;
    for (int i = 0; i < 64; i++)
        total += sums[i];
    printf("placed-in-calls: %lu\n", (unsigned long)total);
    tg_finish();
    return 0;
}
