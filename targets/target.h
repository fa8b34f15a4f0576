/* What the targets share: options, pinning, and the truth file.
 *
 * A target knows by construction which thread touches what, and the kernel knows where its pages are. Before it frees
 * anything, it writes both as JSON (`--truth FILE`): the oracle that a recording of the same run is compared with.
 *
 *   { "schema": 1, "target": NAME, "pid": N,
 *     "threads":  [ { "thread": SLOT, "tid": N, "cpus": "0-1", "node": N or null } ]      as the thread saw itself; the
 *                     node of its CPUs, or that its memory policy binds it to. A thread that moves has several slots
 *     "arrays":   [ { "name": S, "base": ADDRESS, "size": BYTES, "page_size": 4096,
 *                     "bound": BOOL      whether the program bound or moved it to nodes explicitly
 *                     "homes": [ [PAGE, COUNT, NODE], ... ]      runs of pages; NODE is negative (an errno) for no page
 *                     "disagreeing": N } ]      pages for which get_mempolicy named another node than move_pages did
 *     "touches":  [ { "array": S, "thread": SLOT, "from": BYTE, "to": BYTE, "tag": S } ]   who touched first
 *     "accesses": [ { "array": S, "thread": SLOT, "tag": S, "home": NODE, "reads": X, "writes": X, "seconds": X } ] }
 *
 * `tag` is the word after EXPECT in the comment on the source line that makes the access. `seconds` is the thread's CPU
 * time in that loop, split over homes as its accesses are: what an estimate of time must agree with.
 * Beside FILE go FILE.numa_maps and FILE.maps, the process's own, of the same moment.
 *
 * Everything is static: a target is this header and one source file. Programs in other languages link foreign.c.
 */
#ifndef TARGET_H
#define TARGET_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define TG_PAGE 4096ul
#define TG_MAX_THREADS 512
#define TG_MAX_ARRAYS 64
#define TG_MAX_NODES 64
#define TG_MAX_FACTS 8192
#define TG_NO_NODE (-1)

struct tg_fact {
    int array, slot;
    size_t from, to;
    const char *tag;
    double reads, writes, seconds; /* of the whole range */
};

/* Accesses to the pages of one home. */
struct tg_row {
    int array, slot, home; /* negative: no home */
    const char *tag;
    double reads, writes, seconds;
};

static struct tg {
    const char *name;
    /* Options. */
    int threads;
    size_t bytes;
    long rounds;
    int pin;
    char truth[4096];
    /* The machine: nodes that have CPUs, and nodes that have memory only. */
    int nodes, node[TG_MAX_NODES];
    cpu_set_t cpus_of[TG_MAX_NODES];
    int bare_nodes, bare_node[TG_MAX_NODES];
    /* What is known. */
    int arrays, touches, accesses, rows;
    struct { const char *name; char *base; size_t bytes; int bound; } array[TG_MAX_ARRAYS];
    struct { int known, tid, node; cpu_set_t cpus; } thread[TG_MAX_THREADS];
    struct tg_fact touch[TG_MAX_FACTS], access[TG_MAX_FACTS];
    struct tg_row row[TG_MAX_FACTS];
} tg;

static pthread_mutex_t tg_lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((unused, noreturn)) static void tg_die(const char *what)
{
    fprintf(stderr, "%s: %s: %s\n", tg.name, what, strerror(errno));
    exit(1);
}

/* A kernel list, "0-3,8", as a set. */
static void tg_parse_list(const char *text, cpu_set_t *set)
{
    CPU_ZERO(set);
    while (*text >= '0' && *text <= '9') {
        char *end;
        long first = strtol(text, &end, 10), last = first;
        if (*end == '-')
            last = strtol(end + 1, &end, 10);
        for (long i = first; i <= last && i < CPU_SETSIZE; i++)
            CPU_SET(i, set);
        text = *end == ',' ? end + 1 : end;
    }
}

static void tg_print_list(FILE *out, const cpu_set_t *set)
{
    const char *comma = "";
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (!CPU_ISSET(i, set))
            continue;
        int last = i;
        while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, set))
            last++;
        if (last == i)
            fprintf(out, "%s%d", comma, i);
        else
            fprintf(out, "%s%d-%d", comma, i, last);
        comma = ",";
        i = last;
    }
}

static int tg_read_list(const char *path, cpu_set_t *set)
{
    char line[4096] = "";
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    if (!fgets(line, sizeof line, file))
        line[0] = 0;
    fclose(file);
    tg_parse_list(line, set);
    return 1;
}

static void tg_read_machine(void)
{
    for (int node = 0; node < TG_MAX_NODES; node++) {
        char path[128];
        cpu_set_t cpus;
        snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpulist", node);
        if (!tg_read_list(path, &cpus))
            continue;
        if (CPU_COUNT(&cpus)) {
            tg.node[tg.nodes] = node;
            tg.cpus_of[tg.nodes++] = cpus;
        } else {
            tg.bare_node[tg.bare_nodes++] = node;
        }
    }
    if (!tg.nodes) { /* a kernel without NUMA */
        tg.nodes = 1;
        if (sched_getaffinity(0, sizeof tg.cpus_of[0], &tg.cpus_of[0]))
            tg_die("sched_getaffinity");
    }
}

/* Reads the options; `mib` and `rounds` are this target's defaults, meant for one to two seconds. */
__attribute__((unused)) static void tg_start(int argc, char **argv, const char *name, double mib, long rounds)
{
    double scale = 1;
    tg.name = name;
    tg.threads = 4;
    for (int i = 1; i < argc; i++) {
        const char *option = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (!strcmp(option, "--pin")) {
            tg.pin = 1;
            continue;
        }
        if (value && !strcmp(option, "--threads"))
            tg.threads = atoi(value);
        else if (value && !strcmp(option, "--size"))
            mib = atof(value);
        else if (value && !strcmp(option, "--rounds"))
            rounds = atol(value);
        else if (value && !strcmp(option, "--scale"))
            scale = atof(value);
        else if (value && !strcmp(option, "--truth"))
            snprintf(tg.truth, sizeof tg.truth, "%s", value);
        else {
            fprintf(stderr, "usage: %s [--threads N] [--size MIB] [--rounds N] [--scale FACTOR OF ROUNDS] [--pin] [--truth FILE]\n", name);
            exit(2);
        }
        i++;
    }
    tg.rounds = (long)(rounds * scale + 0.5);
    if (tg.rounds < 1)
        tg.rounds = 1;
    if (tg.threads < 1 || tg.threads > TG_MAX_THREADS - 1 || mib <= 0) {
        fprintf(stderr, "%s: --threads takes 1 to %d, --size more than 0\n", name, TG_MAX_THREADS - 1);
        exit(2);
    }
    /* Whole pages for every thread, so that blocks and pages have common borders. */
    size_t unit = TG_PAGE * (size_t)tg.threads;
    tg.bytes = ((size_t)(mib * 1048576) + unit - 1) / unit * unit;
    tg_read_machine();
    /* A page has one user, or few, whatever the host's setting is. */
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
}

/* The node that thread number `index` belongs to when pinned: index mod N, over the nodes that have CPUs. */
__attribute__((unused)) static int tg_node_of(int index) { return tg.node[index % tg.nodes]; }

/* To be called by a thread once its CPUs and policy are final: notes them under this slot. */
static void tg_note_thread(int slot)
{
    cpu_set_t cpus;
    int node = TG_NO_NODE, mode = 0;
    unsigned long bound[16] = { 0 }; /* nodes 0 to 1023, as many as any kernel has */
    if (sched_getaffinity(0, sizeof cpus, &cpus))
        tg_die("sched_getaffinity");
    for (int n = 0; n < tg.nodes; n++) {
        cpu_set_t within;
        CPU_AND(&within, &cpus, &tg.cpus_of[n]);
        if (CPU_EQUAL(&within, &cpus))
            node = tg.node[n];
    }
    if (syscall(SYS_get_mempolicy, &mode, bound, sizeof bound * 8, NULL, 0ul) == 0 && (mode & 0xff) == MPOL_BIND) {
        int count = 0, only = 0;
        for (int n = 0; n < (int)sizeof bound * 8; n++)
            if (bound[n / 64] >> (n % 64) & 1)
                count++, only = n;
        if (count == 1)
            node = only;
    }
    pthread_mutex_lock(&tg_lock);
    tg.thread[slot].known = 1;
    tg.thread[slot].tid = (int)syscall(SYS_gettid);
    tg.thread[slot].node = node;
    tg.thread[slot].cpus = cpus;
    pthread_mutex_unlock(&tg_lock);
}

/* Called by each thread at its start. `slot` numbers it in the truth (the main thread is 0); with --pin it is bound to
 * one CPU of node `index` mod N. */
__attribute__((unused)) static void tg_enter(int slot, int index)
{
    if (tg.pin) {
        cpu_set_t *node = &tg.cpus_of[index % tg.nodes], one;
        int skip = index / tg.nodes % CPU_COUNT(node), cpu = 0;
        while (!CPU_ISSET(cpu, node) || skip-- > 0)
            cpu++;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        if (sched_setaffinity(0, sizeof one, &one))
            tg_die("sched_setaffinity");
    }
    tg_note_thread(slot);
}

/* Names `bytes` bytes at `base` in the truth. */
__attribute__((unused)) static int tg_array(const char *name, void *base, size_t bytes)
{
    if (!base)
        tg_die(name);
    if (tg.arrays == TG_MAX_ARRAYS)
        abort();
    pthread_mutex_lock(&tg_lock);
    tg.array[tg.arrays].name = name;
    tg.array[tg.arrays].base = base;
    tg.array[tg.arrays].bytes = bytes;
    tg.array[tg.arrays].bound = 0;
    int array = tg.arrays++;
    pthread_mutex_unlock(&tg_lock);
    return array;
}

/* Thread `slot` was the first to touch bytes [from, to), on the line tagged `tag`. */
__attribute__((unused)) static void tg_touched(int array, int slot, size_t from, size_t to, const char *tag)
{
    pthread_mutex_lock(&tg_lock);
    if (tg.touches == TG_MAX_FACTS)
        abort();
    tg.touch[tg.touches++] = (struct tg_fact){ .array = array, .slot = slot, .from = from, .to = to, .tag = tag };
    pthread_mutex_unlock(&tg_lock);
}

/* Thread `slot` read and wrote bytes [from, to) evenly, so many accesses in all, in `seconds` of its CPU time. */
__attribute__((unused)) static void tg_accessed(int array, int slot, size_t from, size_t to, double reads, double writes,
                                                double seconds, const char *tag)
{
    pthread_mutex_lock(&tg_lock);
    if (tg.accesses == TG_MAX_FACTS)
        abort();
    tg.access[tg.accesses++] = (struct tg_fact){ array, slot, from, to, tag, reads, writes, seconds };
    pthread_mutex_unlock(&tg_lock);
}

/* CPU time of the calling thread. */
__attribute__((unused)) static double tg_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Child number `number` of a fork keeps its own truth: FILE.NUMBER. What the parent knew is forgotten. */
__attribute__((unused)) static void tg_child(int number)
{
    size_t length = strlen(tg.truth);
    if (length)
        snprintf(tg.truth + length, sizeof tg.truth - length, ".%d", number);
    tg.arrays = tg.touches = tg.accesses = tg.rows = 0;
    memset(tg.thread, 0, sizeof tg.thread);
}

static void tg_copy(const char *from, const char *suffix)
{
    char path[4200], buffer[65536];
    size_t n;
    snprintf(path, sizeof path, "%s%s", tg.truth, suffix);
    FILE *in = fopen(from, "r"), *out = fopen(path, "w");
    if (!out)
        tg_die(path);
    while (in && (n = fread(buffer, 1, sizeof buffer, in)) > 0)
        fwrite(buffer, 1, n, out);
    if (in)
        fclose(in);
    fclose(out);
}

/* Asks the kernel for the home of every page; the query moves nothing. The caller frees. */
static int *tg_homes(const char *base, size_t pages)
{
    int *home = calloc(pages ? pages : 1, sizeof *home);
    void **address = malloc((pages ? pages : 1) * sizeof *address);
    if (!home || !address)
        tg_die("out of memory");
    for (size_t p = 0; p < pages; p++)
        address[p] = (void *)(base + p * TG_PAGE);
    if (pages && syscall(SYS_move_pages, 0, pages, address, NULL, home, 0) < 0)
        for (size_t p = 0; p < pages; p++)
            home[p] = errno == ENOSYS ? tg.node[0] : -errno; /* a kernel without NUMA has one node */
    free(address);
    return home;
}

/* Pages for which get_mempolicy, which answers otherwise than move_pages, names another node. */
static size_t tg_disagreeing(const char *base, size_t pages, const int *home)
{
    size_t differing = 0;
    for (size_t p = 0; p < pages; p++) {
        int node = -1; /* MPOL_F_NODE | MPOL_F_ADDR: the node of the page at the address */
        if (home[p] < 0)
            continue;
        if (syscall(SYS_get_mempolicy, &node, NULL, 0ul, base + p * TG_PAGE, 3ul) == 0 && node != home[p])
            differing++;
    }
    return differing;
}

/* Splits the accesses reported so far over the homes that pages have now. To be called before pages move. */
__attribute__((unused)) static void tg_settle(void)
{
    if (!tg.truth[0])
        return;
    for (int a = 0; a < tg.arrays; a++) {
        uintptr_t base = (uintptr_t)tg.array[a].base, first = base / TG_PAGE;
        size_t pages = (base + tg.array[a].bytes + TG_PAGE - 1) / TG_PAGE - first;
        int *home = tg_homes((char *)(first * TG_PAGE), pages);
        for (int i = 0; i < tg.accesses; i++) {
            struct tg_fact *f = &tg.access[i];
            size_t at[TG_MAX_NODES + 1] = { 0 }; /* bytes of the range by home; the last: of pages that have none */
            if (f->array != a)
                continue;
            for (size_t p = (base + f->from) / TG_PAGE - first; p < pages; p++) {
                uintptr_t low = (first + p) * TG_PAGE, high = low + TG_PAGE;
                low = low > base + f->from ? low : base + f->from;
                high = high < base + f->to ? high : base + f->to;
                if (low >= high)
                    break;
                at[home[p] < 0 || home[p] >= TG_MAX_NODES ? TG_MAX_NODES : home[p]] += high - low;
            }
            for (int n = 0; n <= TG_MAX_NODES; n++) {
                double share = (double)at[n] / (double)(f->to - f->from);
                if (!at[n])
                    continue;
                if (tg.rows == TG_MAX_FACTS)
                    abort();
                tg.row[tg.rows++] = (struct tg_row){ a, f->slot, n == TG_MAX_NODES ? -1 : n, f->tag,
                                                     f->reads * share, f->writes * share, f->seconds * share };
            }
        }
        free(home);
    }
    tg.accesses = 0;
}

/* CPU time of our parent in clock ticks; 0 when it cannot be read. */
__attribute__((unused)) static long tg_watcher_ticks(void)
{
    char path[64];
    long user = 0, system = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)getppid());
    FILE *stat = fopen(path, "r");
    if (!stat || fscanf(stat, "%*d %*s %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %ld %ld", &user, &system) != 2)
        user = system = 0;
    if (stat)
        fclose(stat);
    return user + system;
}

/* Whoever watches asks for homes some time after the accesses: pages must not move before. It is done when it has been
 * idle for a second; on a busy machine that takes a while. We do nothing meanwhile, so that there is no more to do. */
__attribute__((unused)) static void tg_wait_for_watcher(void)
{
    long quarter = sysconf(_SC_CLK_TCK) / 4, idle = 0, before = tg_watcher_ticks();
    for (int quarters = 0; idle < 4 && quarters < 120; quarters++) {
        nanosleep(&(struct timespec){ .tv_nsec = 250 * 1000 * 1000 }, NULL);
        long now = tg_watcher_ticks();
        idle = now - before < quarter / 2 ? idle + 1 : 0;
        before = now;
    }
}

/* Writes the truth, when it was asked for. Arrays must still be there. */
__attribute__((unused)) static void tg_finish(void)
{
    const char *comma = "";
    fflush(stdout);
    if (!tg.truth[0])
        return;
    tg_settle();
    FILE *out = fopen(tg.truth, "w");
    if (!out)
        tg_die(tg.truth);
    fprintf(out, "{\"schema\":1,\"target\":\"%s\",\"pid\":%d,\n\"threads\":[", tg.name, (int)getpid());
    for (int i = 0; i < TG_MAX_THREADS; i++) {
        if (!tg.thread[i].known)
            continue;
        fprintf(out, "%s\n{\"thread\":%d,\"tid\":%d,\"cpus\":\"", comma, i, tg.thread[i].tid);
        tg_print_list(out, &tg.thread[i].cpus);
        if (tg.thread[i].node == TG_NO_NODE)
            fprintf(out, "\",\"node\":null}");
        else
            fprintf(out, "\",\"node\":%d}", tg.thread[i].node);
        comma = ",";
    }
    fprintf(out, "],\n\"arrays\":[");
    for (int a = 0; a < tg.arrays; a++) {
        char *first = (char *)((uintptr_t)tg.array[a].base / TG_PAGE * TG_PAGE);
        size_t pages = (size_t)(tg.array[a].base + tg.array[a].bytes - first + TG_PAGE - 1) / TG_PAGE;
        int *home = tg_homes(first, pages);
        fprintf(out, "%s\n{\"name\":\"%s\",\"base\":%lu,\"size\":%zu,\"page_size\":%lu,\"bound\":%s,\"disagreeing\":%zu,\"homes\":[", a ? "," : "",
                tg.array[a].name, (unsigned long)(uintptr_t)tg.array[a].base, tg.array[a].bytes, TG_PAGE, tg.array[a].bound ? "true" : "false",
                tg_disagreeing(first, pages, home));
        for (size_t p = 0; p < pages;) {
            size_t run = 1;
            while (p + run < pages && home[p + run] == home[p])
                run++;
            fprintf(out, "%s[%lu,%zu,%d]", p ? "," : "", (unsigned long)((uintptr_t)first / TG_PAGE + p), run, home[p]);
            p += run;
        }
        fprintf(out, "]}");
        free(home);
    }
    fprintf(out, "],\n\"touches\":[");
    for (int i = 0; i < tg.touches; i++) {
        struct tg_fact *t = &tg.touch[i];
        fprintf(out, "%s\n{\"array\":\"%s\",\"thread\":%d,\"from\":%zu,\"to\":%zu,\"tag\":\"%s\"}", i ? "," : "",
                tg.array[t->array].name, t->slot, t->from, t->to, t->tag);
    }
    fprintf(out, "],\n\"accesses\":[");
    for (int i = 0; i < tg.rows; i++) {
        struct tg_row *r = &tg.row[i];
        fprintf(out, "%s\n{\"array\":\"%s\",\"thread\":%d,\"tag\":\"%s\",\"home\":", i ? "," : "", tg.array[r->array].name, r->slot, r->tag);
        if (r->home < 0)
            fprintf(out, "null");
        else
            fprintf(out, "%d", r->home);
        fprintf(out, ",\"reads\":%.1f,\"writes\":%.1f,\"seconds\":%.6f}", r->reads, r->writes, r->seconds);
    }
    fprintf(out, "]}\n");
    if (fclose(out))
        tg_die(tg.truth);
    tg_copy("/proc/self/numa_maps", ".numa_maps");
    tg_copy("/proc/self/maps", ".maps");
}

/* Runs `work(slot, bytes)` in tg.threads new threads, slots 1 to N; thread of slot s belongs to node s mod N, so that
 * pinned threads lie as the virtual machine would spread them (main is thread 0). */
struct tg_worker { pthread_t id; int slot; void (*work)(int slot); };

static void *tg_worker_main(void *argument)
{
    struct tg_worker *worker = argument;
    tg_enter(worker->slot, worker->slot);
    worker->work(worker->slot);
    return NULL;
}

__attribute__((unused)) static void tg_run(void (*work)(int slot))
{
    struct tg_worker *worker = calloc((size_t)tg.threads, sizeof *worker);
    if (!worker)
        tg_die("out of memory");
    for (int i = 0; i < tg.threads; i++) {
        worker[i].slot = i + 1;
        worker[i].work = work;
        if ((errno = pthread_create(&worker[i].id, NULL, tg_worker_main, &worker[i])))
            tg_die("pthread_create");
    }
    for (int i = 0; i < tg.threads; i++)
        pthread_join(worker[i].id, NULL);
    free(worker);
}

/* Keeps the compiler from moving or merging memory accesses across this point. */
#define TG_BARRIER() __asm__ volatile("" ::: "memory")

#endif
