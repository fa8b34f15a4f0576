/* OpenMP's parallel regions, told as phases (NUMALENS_REGION): by the place in the program that begins one, from
 * when to when.
 *
 * The place is the code of the region: a function that GNU's compilers make of it, at the line of its directive.
 * (Where the call returns to may be somebody else's: a region at the end of its function is begun by a jump, and
 * within another region by the runtime.) OMPT tells where it returns to.
 *
 * Two ways in, as runtimes offer them:
 *  - GNU's libgomp has no interface for tools: the calls that compilers make for `#pragma omp parallel` are wrapped
 *    here.
 *  - LLVM's and Intel's have OMPT: the runtime looks for `ompt_start_tool` and calls back when a region begins and
 *    ends. A tool of the program's own goes first; then regions have no names.
 *
 * A process may hold several runtimes (Python modules bring their own libgomp each), and what is called must be the
 * caller's: its threads' numbers would be wrong in another's region. So the real function is looked for by the needs
 * of the object that has the region, and kept with its place.
 *
 * Programs begin up to a million regions a second. What is told of one are at most a thousand spans a second:
 * instances that follow within a millisecond go into the span before, whose end waits in a table until the next one,
 * or the end of the process.
 *
 *     instance   |--| |-| |---|   |--|        |----|
 *     told       |----------------------|     |----|        so ends are late by at most what is still waiting
 */
#include "state.h"

enum { AT_ONCE_NS = 1000000, PLACES = 512 };

/* As a return address, which is one byte behind what it is about at least. */
static const void *place_of(void (*body)(void *)) { return (const char *)body + 1; }

/* A place that begins regions, and the runtime's function that it means. */
struct place { const void *call; void *real; };
static struct place places[PLACES];

/* A span that has not been told yet: of a place and a thread. */
struct span { uint32_t lock, tid, pid; const void *call; uint64_t first, last, told; };
static struct span spans[PLACES];

static size_t slot_of(const void *call, uint32_t salt) {
    uint64_t mixed = ((uint64_t)call ^ (uint64_t)salt << 32) * 0x9e3779b97f4a7c15ull;
    return mixed >> 55; /* PLACES of them */
}

static void tell(const struct span *span) {
    if (span->first) numalens_tell(NUMALENS_REGION, numalens_now(), (uint64_t)span->call, span->first, span->last, span->tid);
}

static void lasted(const void *call, uint64_t first, uint64_t last) {
    if (!numalens_connect()) return;
    struct span now = {.tid = numalens_tid(), .pid = numalens_pid(), .call = call, .first = first, .last = last};
    struct span *kept = &spans[slot_of(call, now.tid)];
    /* Held by another thread, or by the one that this signal handler has interrupted. */
    if (__atomic_exchange_n(&kept->lock, 1, __ATOMIC_ACQUIRE)) {
        tell(&now);
        return;
    }
    if (kept->call != call || kept->tid != now.tid || kept->pid != now.pid) {
        if (kept->pid == now.pid) tell(kept); /* else a parent's, before it forked */
        now.lock = 1;
        *kept = now;
    } else if (!kept->first) {
        kept->first = first;
    }
    kept->last = last;
    if (last - kept->told >= AT_ONCE_NS) {
        tell(kept);
        kept->first = 0;
        kept->told = last;
    }
    __atomic_store_n(&kept->lock, 0, __ATOMIC_RELEASE);
}

/* What still waits, as the program ends. */
HIDDEN void numalens_tell_regions(void) {
    uint32_t pid = numalens_pid();
    for (int i = 0; i < PLACES; i++) {
        if (!__atomic_load_n(&spans[i].call, __ATOMIC_RELAXED) || __atomic_exchange_n(&spans[i].lock, 1, __ATOMIC_ACQUIRE)) continue;
        if (spans[i].pid == pid) tell(&spans[i]);
        spans[i].first = 0;
        __atomic_store_n(&spans[i].lock, 0, __ATOMIC_RELEASE);
    }
}

static void *real_of(const char *name, const void *call) {
    struct place *place = &places[slot_of(call, 0)];
    if (__atomic_load_n(&place->call, __ATOMIC_ACQUIRE) == call) {
        void *real = __atomic_load_n(&place->real, __ATOMIC_RELAXED);
        /* Another place may have taken the slot in between. */
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (real && __atomic_load_n(&place->call, __ATOMIC_RELAXED) == call) return real;
    }
    void *real = numalens_next_of(name, call);
    __atomic_store_n(&place->call, NULL, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    __atomic_store_n(&place->real, real, __ATOMIC_RELAXED);
    __atomic_store_n(&place->call, call, __ATOMIC_RELEASE);
    return real;
}

/* In a region whose runtime may tell of it as well. */
static TLS uint32_t wrapped;

/* Without a runtime (who looks whether there is one finds these) a region is its first thread's alone. */
#define REGION(name, parameters, ...) \
    extern void name parameters; \
    EXPORT void name parameters { \
        const void *call = place_of(body); \
        __typeof__(&name) real = real_of(#name, call); \
        if (!real) { body(data); return; } \
        uint64_t first = numalens_now(); \
        wrapped++; \
        real(__VA_ARGS__); \
        wrapped--; \
        lasted(call, first, numalens_now()); \
    }
#define BODY void (*body)(void *), void *data, unsigned threads
#define LOOP(name) \
    REGION(name, (BODY, long start, long end, long step, long chunk, unsigned flags), body, data, threads, start, end, step, chunk, flags)
#define LOOP_OF_RUNTIME(name) \
    REGION(name, (BODY, long start, long end, long step, unsigned flags), body, data, threads, start, end, step, flags)

REGION(GOMP_parallel, (BODY, unsigned flags), body, data, threads, flags)
REGION(GOMP_parallel_sections, (BODY, unsigned count, unsigned flags), body, data, threads, count, flags)
LOOP(GOMP_parallel_loop_static)
LOOP(GOMP_parallel_loop_dynamic)
LOOP(GOMP_parallel_loop_guided)
LOOP(GOMP_parallel_loop_nonmonotonic_dynamic)
LOOP(GOMP_parallel_loop_nonmonotonic_guided)
LOOP_OF_RUNTIME(GOMP_parallel_loop_runtime)
LOOP_OF_RUNTIME(GOMP_parallel_loop_nonmonotonic_runtime)
LOOP_OF_RUNTIME(GOMP_parallel_loop_maybe_nonmonotonic_runtime)

extern unsigned GOMP_parallel_reductions(BODY, unsigned flags);
EXPORT unsigned GOMP_parallel_reductions(BODY, unsigned flags) {
    const void *call = place_of(body);
    __typeof__(&GOMP_parallel_reductions) real = real_of("GOMP_parallel_reductions", call);
    if (!real) { body(data); return 1; }
    uint64_t first = numalens_now();
    wrapped++;
    unsigned result = real(body, data, threads, flags);
    wrapped--;
    lasted(call, first, numalens_now());
    return result;
}

/* OMPT, as far as it is needed: OpenMP 5.0, chapter 4. */
union ompt_data { uint64_t value; void *ptr; };
typedef void (*ompt_function)(void);
struct ompt_result {
    int (*initialize)(ompt_function (*look_up)(const char *), int device, union ompt_data *tool);
    void (*finalize)(union ompt_data *tool);
    union ompt_data tool;
};
enum { OMPT_PARALLEL_BEGIN = 3, OMPT_PARALLEL_END = 4 };

static void region_begins(union ompt_data *task, const void *frame, union ompt_data *region, unsigned threads, int flags, const void *call) {
    (void)task, (void)frame, (void)threads, (void)flags, (void)call;
    region->value = wrapped ? 0 : numalens_now();
}

static void region_ends(union ompt_data *region, union ompt_data *task, int flags, const void *call) {
    (void)task, (void)flags;
    if (region->value) lasted(call, region->value, numalens_now());
}

static int begin(ompt_function (*look_up)(const char *), int device, union ompt_data *tool) {
    (void)device, (void)tool;
    int (*set)(int, ompt_function) = (int (*)(int, ompt_function))look_up("ompt_set_callback");
    if (!set) return 0;
    set(OMPT_PARALLEL_BEGIN, (ompt_function)region_begins);
    set(OMPT_PARALLEL_END, (ompt_function)region_ends);
    return 1;
}

static void finish(union ompt_data *tool) { (void)tool; }

static int names_tools(void) {
    static const char variable[] = "OMP_TOOL_LIBRARIES=";
    for (char **entry = &environ ? environ : NULL; entry && *entry; entry++) {
        size_t same = 0;
        while (same < sizeof variable - 1 && (*entry)[same] == variable[same]) same++;
        if (same == sizeof variable - 1) return (*entry)[same] != 0;
    }
    return 0;
}

extern struct ompt_result *ompt_start_tool(unsigned version, const char *runtime);
EXPORT struct ompt_result *ompt_start_tool(unsigned version, const char *runtime) {
    static struct ompt_result ours = {begin, finish, {0}};
    __typeof__(&ompt_start_tool) theirs = numalens_next("ompt_start_tool");
    struct ompt_result *result = theirs ? theirs(version, runtime) : NULL;
    if (result || names_tools() || !numalens_connect()) return result;
    return &ours;
}
