/* Joining the channel, and writing records to it. */
#include "ring.h"
#include "track.h"

HIDDEN TLS struct thread_state numalens_self;
HIDDEN size_t numalens_large;
HIDDEN struct numalens_header *numalens_channel;
HIDDEN int numalens_every;

static struct process_state without_page;
HIDDEN struct process_state *numalens_process = &without_page;

extern void *__libc_stack_end __attribute__((weak));
HIDDEN void numalens_find_operators(void);

static int joined; /* 0: not tried, 1: being tried, 2: tried */
enum { PROT_RW = 3, MAP_SHARED_ = 1, MAP_PRIVATE_ANONYMOUS = 0x22, MADV_WIPEONFORK_ = 18, RLIMIT_STACK_ = 3, ESRCH_ = 3 };

static struct numalens_header *map_channel(const char *path) {
    long fd = sys3(SYS_OPEN, path, 02 | 02000000 /* O_RDWR | O_CLOEXEC */, 0);
    if (fd < 0) return NULL;
    uint64_t status[18] = {0};
    long failed = sys3(SYS_FSTAT, fd, status, 0);
    uint64_t bytes = status[6];
    long address = -1;
    if (!failed && bytes >= NUMALENS_HEADER_BYTES) address = sys6(SYS_MMAP, 0, (long)bytes, PROT_RW, MAP_SHARED_, fd, 0);
    sys3(SYS_CLOSE, fd, 0, 0);
    if (address < 0 && address > -4096) return NULL;
    struct numalens_header *channel = (struct numalens_header *)address;
    if (channel->magic == NUMALENS_MAGIC && channel->version == NUMALENS_VERSION && channel->lanes_log2 <= 6
        && channel->note_slots_log2 < 24 && channel->wide_slots_log2 < 24) {
        struct ring last = numalens_ring(channel, (1u << channel->lanes_log2) - 1, 1);
        uint64_t needed = (uint64_t)(last.slots - (char *)channel) + ((uint64_t)last.slot_bytes << last.slots_log2);
        if (needed <= bytes) return channel;
    }
    sys3(SYS_MUNMAP, address, bytes, 0);
    return NULL;
}

static void stay_silent(void) {
    __atomic_store_n(&numalens_large, SIZE_MAX, __ATOMIC_RELAXED);
    __atomic_store_n(&joined, 2, __ATOMIC_RELEASE);
}

static void know_main_stack(void) {
    struct thread_state *self = &numalens_self;
    if (sys3(SYS_GETTID, 0, 0, 0) != sys3(SYS_GETPID, 0, 0, 0)) return;
    uint64_t limit[2] = {0};
    sys3(SYS_GETRLIMIT, RLIMIT_STACK_, limit, 0);
    self->stack_high = &__libc_stack_end && __libc_stack_end ? (uint64_t)__libc_stack_end : (uint64_t)environ;
    /* The kernel keeps at least this much below the main stack free of other mappings. */
    self->stack_window = limit[0] < (UINT64_C(64) << 20) ? limit[0] : UINT64_C(64) << 20;
}

static COLD int join(void) {
    if (!&environ || !environ) return 0; /* libc is not up yet: try again later */
    int untried = 0;
    if (!__atomic_compare_exchange_n(&joined, &untried, 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) return 0;
    char *path;
    struct numalens_header *channel = numalens_take_environment(&path) ? map_channel(path) : NULL;
    if (!channel) {
        stay_silent();
        return 0;
    }
    long page = sys6(SYS_MMAP, 0, NUMALENS_PAGE, PROT_RW, MAP_PRIVATE_ANONYMOUS, -1, 0);
    if (page > 0 || page < -4096) {
        if (sys3(SYS_MADVISE, page, NUMALENS_PAGE, MADV_WIPEONFORK_) == 0) numalens_process = (struct process_state *)page;
        else sys3(SYS_MUNMAP, page, NUMALENS_PAGE, 0);
    }
    know_main_stack();
    int counter = 0;
    sys3(SYS_PRCTL, PR_GET_TSC_, (long)&counter, 0);
    numalens_no_counter = counter == PR_TSC_SIGSEGV_; /* inherited from who executed this program */
    numalens_find_operators();
    numalens_find_python();
    numalens_process->pid = (uint32_t)sys3(SYS_GETPID, 0, 0, 0);
    numalens_process->lived = 1;
    if (channel->every) {
        numalens_track_all();
        __atomic_store_n(&numalens_every, 1, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&numalens_large, channel->large, __ATOMIC_RELAXED);
    __atomic_store_n(&numalens_channel, channel, __ATOMIC_RELEASE);
    __atomic_store_n(&joined, 2, __ATOMIC_RELEASE);
    numalens_tell(NUMALENS_PROCESS_START, numalens_now(), (uint64_t)sys3(SYS_GETPPID, 0, 0, 0), 0, 0, 0);
    numalens_tell_placement(numalens_tid());
    return 1;
}

HIDDEN int numalens_connect(void) {
    struct numalens_header *channel = __atomic_load_n(&numalens_channel, __ATOMIC_ACQUIRE);
    if (likely(channel != NULL)) {
        if (likely(__atomic_load_n(&channel->open, __ATOMIC_RELAXED) == 1)) return 1;
        __atomic_store_n(&numalens_large, SIZE_MAX, __ATOMIC_RELAXED);
        return 0;
    }
    return __atomic_load_n(&joined, __ATOMIC_ACQUIRE) == 0 ? join() : 0;
}

__attribute__((constructor)) static void begin(void) {
    numalens_connect();
    if (__atomic_load_n(&joined, __ATOMIC_ACQUIRE) == 0) stay_silent();
}

HIDDEN int numalens_no_counter;

/* The agents' clock of an exact recording, by the arithmetic that they use: ClockAnchor in
 * crates/event/src/exact.rs. */
static uint64_t agents_time(const struct numalens_header *channel) {
    const struct numalens_clock *clock = &channel->clock[__atomic_load_n(&channel->clock_in_force, __ATOMIC_ACQUIRE) & 1];
    uint64_t rate = clock->ns_per_tick;
    if (!rate || __atomic_load_n(&numalens_no_counter, __ATOMIC_RELAXED)) return 0;
    uint64_t ticks = __builtin_ia32_rdtsc();
    uint64_t since = ticks > clock->ticks ? ticks - clock->ticks : 0;
    return clock->ns + (uint64_t)((unsigned __int128)since * rate >> 32);
}

HIDDEN uint64_t numalens_before(void) {
    const struct numalens_header *channel = __atomic_load_n(&numalens_channel, __ATOMIC_ACQUIRE);
    return channel ? agents_time(channel) : 0;
}

HIDDEN uint64_t numalens_now(void) {
    uint64_t told = numalens_before();
    if (told) return told;
    struct timespec64 now = {0, 0};
    static int (*clock)(int, struct timespec64 *);
    if (!clock) {
        void *found = numalens_next("clock_gettime");
        if (found) clock = (int (*)(int, struct timespec64 *))found;
    }
    if (clock && !__atomic_load_n(&numalens_no_counter, __ATOMIC_RELAXED)) clock(1 /* CLOCK_MONOTONIC */, &now);
    else sys3(SYS_CLOCK_GETTIME, 1, &now, 0);
    return (uint64_t)now.seconds * UINT64_C(1000000000) + (uint64_t)now.nanoseconds;
}

HIDDEN void numalens_fork_child(void) {
    numalens_process->pid = (uint32_t)sys3(SYS_GETPID, 0, 0, 0);
    numalens_process->exiting = 0;
    numalens_process->lived = 0;
    numalens_tell(NUMALENS_FORK_CHILD, numalens_now(), (uint64_t)sys3(SYS_GETPPID, 0, 0, 0), 0, 0, 0);
}

HIDDEN uint32_t numalens_pid(void) {
    if (unlikely(!numalens_process->pid)) numalens_fork_child();
    return numalens_process->pid;
}

HIDDEN uint32_t numalens_tid(void) {
    struct thread_state *self = &numalens_self;
    uint32_t pid = numalens_pid();
    if (unlikely(self->pid != pid)) {
        self->tid = (uint32_t)sys3(SYS_GETTID, 0, 0, 0);
        self->pid = pid;
    }
    return self->tid;
}

HIDDEN int numalens_is_vfork_child(void) {
    uint32_t pid = numalens_process->pid;
    return pid && pid != (uint32_t)sys3(SYS_GETPID, 0, 0, 0);
}

static void ring_the_bell(struct numalens_header *channel) {
    __atomic_fetch_add(&channel->doorbell, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&channel->reader_waiting, __ATOMIC_SEQ_CST))
        sys6(SYS_FUTEX, (long)&channel->doorbell, 1 /* FUTEX_WAKE, shared */, 1, 0, 0, 0);
}

static int hand_over(struct numalens_header *channel, const struct ring *ring, const struct claim *claim) {
    int in_time = numalens_publish(claim);
    if (unlikely(!in_time)) __atomic_fetch_add(&channel->late, 1, __ATOMIC_RELAXED);
    /* A quarter of the ring since the last time: a sleeping reader should come before it is full. */
    if (unlikely((claim->position & ((UINT64_C(1) << ring->slots_log2) / 4 - 1)) == 0)) ring_the_bell(channel);
    return in_time;
}

/* A slot; of a full ring, too, when somebody empties it while it is worth to wait. */
static void *slot_of(struct numalens_header *channel, const struct ring *ring, uint32_t tid, struct claim *claim) {
    uint64_t *in_vain = &ring->control->waited_in_vain;
    uint32_t patience = __atomic_load_n(in_vain, __ATOMIC_RELAXED) ? 0 : channel->patience_ms;
    for (uint32_t waited = 0;; waited++) {
        void *slot = numalens_claim(ring, tid, claim);
        if (likely(slot != NULL)) {
            if (unlikely(__atomic_load_n(in_vain, __ATOMIC_RELAXED))) __atomic_store_n(in_vain, 0, __ATOMIC_RELAXED);
            return slot;
        }
        int waits = waited < patience && __atomic_load_n(&channel->open, __ATOMIC_RELAXED) == 1
            && sys3(SYS_KILL, channel->collector_pid, 0, 0) != -ESRCH_;
        if (!waits) break;
        ring_the_bell(channel);
        const struct timespec64 millisecond = {0, 1000000};
        sys3(SYS_NANOSLEEP, &millisecond, 0, 0);
    }
    __atomic_store_n(in_vain, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&ring->control->lost, 1, __ATOMIC_RELAXED);
    return NULL;
}

HIDDEN int numalens_tell(enum numalens_kind kind, uint64_t time, uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
    if (!numalens_connect()) return 0;
    struct numalens_header *channel = numalens_channel;
    uint32_t tid = numalens_tid();
    struct ring ring = numalens_ring(channel, tid, 0);
    struct claim claim;
    struct numalens_note *note = slot_of(channel, &ring, tid, &claim);
    if (!note) return 0;
    note->kind = (uint16_t)kind;
    note->call = note->flags = 0;
    note->payload_bytes = 0;
    note->time_ns = time;
    note->pid = numalens_process->pid;
    note->tid = tid;
    note->operands[0] = a;
    note->operands[1] = b;
    note->operands[2] = c;
    note->operands[3] = d;
    return hand_over(channel, &ring, &claim);
}

/* Only agents have what is told taken in in order with all else: their clock tells that there are any. */
HIDDEN void numalens_may_end(const void *address, uint64_t time) {
    if (numalens_before()) numalens_tell(NUMALENS_MAY_END, time, (uint64_t)address, 0, 0, 0);
}

/* Copies the stack from `from` up as far as it is known to be readable: to the known end of the thread's own stack,
 * else (a coroutine's or a signal's stack, a thread not started through pthread_create) to the end of the page. */
static uint32_t copy_stack(uint64_t *to, uint64_t from, uint64_t room) {
    const struct thread_state *self = &numalens_self;
    uint64_t end = (from | (NUMALENS_PAGE - 1)) + 1;
    if (from < self->stack_high && self->stack_high - from <= self->stack_window) end = self->stack_high;
    if (end - from > room) end = from + room;
    uint32_t words = (uint32_t)((end - from) / 8);
    /* One instruction, which neither needs libc nor fetches the lines that it overwrites. */
    uint64_t left = words;
    __asm__ volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(left) : : "memory");
    return words * 8;
}

HIDDEN int numalens_tell_wide(const struct wide_record *record) {
    if (!numalens_connect()) return 0;
    struct numalens_header *channel = numalens_channel;
    uint32_t tid = numalens_tid();
    struct ring ring = numalens_ring(channel, tid, 1);
    struct claim claim;
    struct numalens_wide *wide = slot_of(channel, &ring, tid, &claim);
    if (!wide) return 0;
    wide->note.kind = (uint16_t)record->kind;
    wide->note.call = record->call;
    wide->note.flags = record->flags;
    wide->note.time_ns = record->time;
    wide->note.pid = numalens_process->pid;
    wide->note.tid = tid;
    for (int i = 0; i < 4; i++) wide->note.operands[i] = record->operands[i];
    wide->mean = record->mean;
    wide->ip = wide->sp = wide->bp = 0;
    wide->frames = record->frame_count;
    uint64_t *to = wide->payload;
    for (uint32_t i = 0; i < record->frame_count; i++) *to++ = record->frames[i].method, *to++ = (uint64_t)record->frames[i].bytecode;
    uint32_t before = (uint32_t)(to - wide->payload) * 8;
    if (record->frame) {
        /* A frame is [saved frame pointer of the caller][return address]; above it is the caller's stack. */
        wide->bp = (uint64_t)record->frame[0];
        wide->ip = (uint64_t)record->frame[1];
        wide->sp = (uint64_t)(record->frame + 2);
        wide->note.payload_bytes = before + copy_stack(to, wide->sp, NUMALENS_PAYLOAD_BYTES - before);
    } else {
        wide->note.payload_bytes = before + record->payload_bytes;
        for (uint32_t i = 0; i < record->payload_bytes / 8; i++) to[i] = ((const uint64_t *)record->payload)[i];
    }
    return hand_over(channel, &ring, &claim);
}

HIDDEN void numalens_tell_and_wait(enum numalens_kind kind, uint64_t status, int wait) {
    if (!numalens_connect()) return;
    struct numalens_header *channel = numalens_channel;
    uint32_t ticket = 0;
    if (wait && channel->handshake) {
        ticket = __atomic_add_fetch(&channel->ticket, 1, __ATOMIC_RELAXED);
        if (!ticket) ticket = __atomic_add_fetch(&channel->ticket, 1, __ATOMIC_RELAXED);
    }
    uint64_t start = numalens_now();
    if (!numalens_tell(kind, start, ticket, status, 0, 0)) return;
    ring_the_bell(channel);
    if (!ticket) return;
    uint64_t limit = (uint64_t)channel->handshake_ms * 1000000;
    uint32_t *answer = &channel->acknowledged[ticket % NUMALENS_ACKNOWLEDGEMENTS];
    for (;;) {
        uint32_t answered = __atomic_load_n(answer, __ATOMIC_ACQUIRE);
        /* A later ticket in this place: ours was answered before, or is past waiting for. */
        if (answered && (int32_t)(answered - ticket) >= 0) return;
        uint64_t waited = numalens_now() - start;
        if (waited >= limit || __atomic_load_n(&channel->open, __ATOMIC_RELAXED) != 1) return;
        if (sys3(SYS_KILL, channel->collector_pid, 0, 0) == -ESRCH_) return;
        uint64_t slice = limit - waited < 20000000 ? limit - waited : 20000000;
        struct timespec64 pause = {0, (int64_t)slice};
        sys6(SYS_FUTEX, (long)answer, 0 /* FUTEX_WAIT, shared */, answered, (long)&pause, 0, 0);
    }
}
