/* Threads: their start, with what it tells of their stacks, and the CPUs they may run on. */
#include "state.h"

extern int pthread_create(void *, const void *, void *(*)(void *), void *);
extern int pthread_attr_getstacksize(const void *, size_t *);
extern int sched_setaffinity(int, size_t, const void *);
extern int pthread_setaffinity_np(unsigned long, size_t, const void *);
extern const char *gnu_get_libc_version(void);

HIDDEN void numalens_tell_placement(uint32_t tid) {
    if (!numalens_connect()) return;
    uint64_t mask[16] = {0}; /* 1024 CPUs */
    long bytes = tid ? sys3(SYS_SCHED_GETAFFINITY, tid, sizeof mask, mask) : 0;
    struct wide_record record = {.kind = NUMALENS_THREAD_PLACED, .flags = bytes > 0 ? 0 : NUMALENS_FLAG_ASK, .time = numalens_now(),
        .operands = {tid}, .payload = mask, .payload_bytes = bytes > 0 ? (uint32_t)bytes & ~7u : 0};
    numalens_tell_wide(&record);
}

/* What a starting thread needs, kept here from pthread_create until the thread has read it: a few at a time, and a
 * thread that finds no place starts unwrapped. */
struct start { void *(*routine)(void *); void *argument; uint64_t window; uint32_t creator, used; };
static struct start starts[256];

static struct start *take_place(void) {
    static uint32_t turn;
    uint32_t first = __atomic_fetch_add(&turn, 1, __ATOMIC_RELAXED);
    for (uint32_t i = 0; i < 256; i++) {
        struct start *place = &starts[(first + i) % 256];
        uint32_t unused = 0;
        if (__atomic_compare_exchange_n(&place->used, &unused, 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) return place;
    }
    __atomic_fetch_add(&numalens_channel->unwrapped, 1, __ATOMIC_RELAXED);
    return NULL;
}

static void *begin_thread(void *given) {
    struct start *place = given, start = *place;
    __atomic_store_n(&place->used, 0, __ATOMIC_RELEASE);
    numalens_self.stack_high = (uint64_t)((void **)__builtin_frame_address(0) + 2);
    numalens_self.stack_window = start.window;
    numalens_tell(NUMALENS_THREAD_START, numalens_now(), start.creator, (uint64_t)start.routine, 0, 0);
    numalens_tell_placement(numalens_tid());
    return start.routine(start.argument);
}

/* How far below its first frame a thread's stack surely reaches. An eighth less than its size, because thread control
 * blocks may lie above the first frame. */
static uint64_t stack_window(const void *attributes) {
    size_t size = 128 << 10; /* musl's default */
    if (!attributes || !NEXT(pthread_attr_getstacksize) || NEXT(pthread_attr_getstacksize)(attributes, &size)) {
        uint64_t limit[2] = {0};
        if (NEXT(gnu_get_libc_version) && sys3(SYS_GETRLIMIT, 3, limit, 0) == 0) size = limit[0] < (8 << 20) ? limit[0] : 2 << 20;
    }
    return size - size / 8;
}

EXPORT int pthread_create(void *thread, const void *attributes, void *(*routine)(void *), void *argument) {
    __typeof__(&pthread_create) real = NEXT(pthread_create);
    if (!real) return EAGAIN_;
    struct start *place = numalens_connect() ? take_place() : NULL;
    if (!place) return real(thread, attributes, routine, argument);
    place->routine = routine;
    place->argument = argument;
    place->window = stack_window(attributes);
    place->creator = numalens_tid();
    int failed = real(thread, attributes, begin_thread, place);
    if (failed) __atomic_store_n(&place->used, 0, __ATOMIC_RELEASE);
    return failed;
}

/* A child of vfork that places itself is about to become another program, which tells for itself. */
HIDDEN void numalens_tell_affinity(int tid) {
    if (numalens_connect() && !numalens_is_vfork_child()) numalens_tell_placement(tid ? (uint32_t)tid : numalens_tid());
}

EXPORT int sched_setaffinity(int tid, size_t size, const void *mask) {
    __typeof__(&sched_setaffinity) real = NEXT(sched_setaffinity);
    int failed = -1;
    if (real) {
        numalens_self.nested++;
        failed = real(tid, size, mask);
        numalens_self.nested--;
    }
    else {
        long result = sys3(SYS_SCHED_SETAFFINITY, tid, size, mask);
        if (result < 0) set_errno((int)-result);
        else failed = 0;
    }
    if (!failed) numalens_tell_affinity(tid);
    return failed;
}

/* The kernel's id of a thread known by its pthread_t. In glibc and musl that is the address of the thread's control
 * block, and static TLS lies at one distance from it in every thread. 0 when that thread has not told anything yet. */
static uint32_t tid_of(unsigned long thread) {
    unsigned long self;
    __asm__("movq %%fs:0, %0" : "=r"(self));
    if (thread == self) return numalens_tid();
    const struct thread_state *other = (const struct thread_state *)((unsigned long)&numalens_self - self + thread);
    return other->pid == numalens_pid() ? other->tid : 0;
}

EXPORT int pthread_setaffinity_np(unsigned long thread, size_t size, const void *mask) {
    __typeof__(&pthread_setaffinity_np) real = NEXT(pthread_setaffinity_np);
    if (!real) return ENOSYS_;
    int failed = real(thread, size, mask);
    if (!failed && numalens_connect()) numalens_tell_placement(tid_of(thread));
    return failed;
}
