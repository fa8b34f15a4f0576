/* The malloc family.
 *
 * Each function has a fast path of a few instructions that ends in a jump to the real one, and a slow path, jumped
 * to as well, so that its frame stands exactly where the called function's would: above it is the caller.
 *
 * Which allocations are told: sizes of at least `numalens_large` each, as long as there is credit; the others by
 * their bytes, as a Poisson process: the distance to the next recorded byte is drawn from an exponential
 * distribution, so an allocation of s bytes is recorded with probability 1 - exp(-s / mean) whatever the program's
 * pattern, and the reader turns size and mean into the bytes that it stands for. When the credit is spent, large ones
 * are sampled the same way, with a larger mean.
 *
 * Where every block is to be told, `numalens_large` is 1 and all of them are, with no table of those that live: the
 * agent, which counts by address, is told of each as it begins and before it ends, so that it knows how long it was.
 *
 * realloc is a release and an allocation. A C++ new arrives here as its malloc, or by operators.c. */
#include "track.h"

extern void *malloc(size_t);
extern void *calloc(size_t, size_t);
extern void *realloc(void *, size_t);
extern void *reallocarray(void *, size_t, size_t);
extern void free(void *);
extern int posix_memalign(void **, size_t, size_t);
extern void *aligned_alloc(size_t, size_t);
extern void *memalign(size_t, size_t);
extern void *valloc(size_t);
extern void *pvalloc(size_t);

/* Until first used these resolve themselves; the fast paths need not look. */
static void *first_malloc(size_t);
static void *first_calloc(size_t, size_t);
static void *first_realloc(void *, size_t);
static void first_free(void *);
static void *(*real_malloc)(size_t) = first_malloc;
static void *(*real_calloc)(size_t, size_t) = first_calloc;
static void *(*real_realloc)(void *, size_t) = first_realloc;
static void (*real_free)(void *) = first_free;

static COLD void *no_memory(void) {
    set_errno(ENOMEM_);
    return NULL;
}
static COLD void *first_malloc(size_t n) {
    void *(*found)(size_t) = (void *(*)(size_t))numalens_next("malloc");
    return found ? (real_malloc = found)(n) : no_memory();
}
static COLD void *first_calloc(size_t n, size_t m) {
    void *(*found)(size_t, size_t) = (void *(*)(size_t, size_t))numalens_next("calloc");
    return found ? (real_calloc = found)(n, m) : no_memory();
}
static COLD void *first_realloc(void *p, size_t n) {
    void *(*found)(void *, size_t) = (void *(*)(void *, size_t))numalens_next("realloc");
    return found ? (real_realloc = found)(p, n) : no_memory();
}
static COLD void first_free(void *p) {
    void (*found)(void *) = (void (*)(void *))numalens_next("free");
    if (found) (real_free = found)(p);
}

/* -ln(u) * mean for a random u in (0, 1]: the distance to the next recorded byte. log2 in 16 bits of fixed point, one
 * bit for each squaring. */
static int64_t draw(struct thread_state *self, uint64_t mean) {
    self->random ^= self->random << 13;
    self->random ^= self->random >> 7;
    self->random ^= self->random << 17;
    uint64_t u = (self->random >> 32) + 1; /* 1 ... 2^32 */
    unsigned whole = 63 - (unsigned)__builtin_clzll(u);
    uint64_t mantissa = u << (31 - (whole & 31)); /* 1.31 bits, in [1, 2) */
    if (whole == 32) return 0;
    uint64_t logarithm = whole;
    for (int bit = 0; bit < 16; bit++) {
        mantissa = (mantissa * mantissa) >> 31;
        logarithm <<= 1;
        if (mantissa >> 32) {
            logarithm |= 1;
            mantissa >>= 1;
        }
    }
    uint64_t bits = (UINT64_C(32) << 16) - logarithm;
    return (int64_t)(((bits * mean) >> 16) * 45426 >> 16); /* ln 2 = 45426 / 65536 */
}

static uint64_t positive(uint64_t mean) {
    return mean < 1 ? 1 : mean > (UINT64_C(1) << 40) ? UINT64_C(1) << 40 : mean;
}

/* The mean to draw with next: the collector's, doubled for every 16384 live allocations that are tracked, so that large
 * heaps neither fill the table nor make every free look into it. */
static uint64_t next_mean(const struct numalens_header *channel) {
    uint32_t doublings = __atomic_load_n(&numalens_tracked_count, __ATOMIC_RELAXED) >> 14;
    return positive(positive(channel->mean) << (doublings < 16 ? doublings : 16));
}

static COLD void begin_thread(struct thread_state *self, const struct numalens_header *channel, size_t n) {
    self->random = ((uint64_t)self ^ (uint64_t)numalens_tid() << 32 ^ numalens_now()) * UINT64_C(0x9e3779b97f4a7c15) | 1;
    self->mean = next_mean(channel);
    self->countdown = draw(self, self->mean) - (n < numalens_large ? (int64_t)n : 0);
    self->large_countdown = draw(self, positive(channel->large_mean));
}

/* The credit belongs to all threads of all processes, so that together they never flood the reader. Spent, it costs
 * a load. */
static int take_credit(struct numalens_header *channel) {
    if (__atomic_load_n(&channel->large_credit, __ATOMIC_RELAXED) <= 0) return 0;
    if (__atomic_fetch_sub(&channel->large_credit, 1, __ATOMIC_RELAXED) > 0) return 1;
    __atomic_fetch_add(&channel->large_credit, 1, __ATOMIC_RELAXED);
    return 0;
}

/* Whether this allocation is to be told, and the mean that it was sampled with (0: all such are told). */
static int chosen(size_t n, uint64_t *mean) {
    struct thread_state *self = &numalens_self;
    if (!numalens_connect()) {
        self->countdown = INT64_MAX;
        return 0;
    }
    const struct numalens_header *channel = numalens_channel;
    if (unlikely(!self->random)) begin_thread(self, channel, n);
    *mean = 0;
    if (n >= numalens_large) {
        if (numalens_every || take_credit(numalens_channel)) return 1;
        if (n < (UINT64_C(1) << 40) && (self->large_countdown -= (int64_t)n) >= 0) return 0;
        *mean = positive(channel->large_mean);
        self->large_countdown = draw(self, *mean);
        return 1;
    }
    if (self->countdown >= 0) return 0;
    *mean = self->mean;
    self->mean = next_mean(channel);
    self->countdown = draw(self, self->mean);
    return 1;
}

/* The size of the mapping that glibc made for this block alone, and that it moves whole when the block grows; 0 for any
 * other. Such a block begins 16 bytes into its first page, after its size, a multiple of the page size, with flag 2. */
static uint64_t own_mapping(const void *p) {
    if ((uint64_t)p % NUMALENS_PAGE != 16) return 0;
    uint64_t size = ((const uint64_t *)p)[-1];
    return size % NUMALENS_PAGE == 2 ? size - 2 : 0;
}

/* The collector is to know of a block that lives, by this key. Returns the time to tell of it with; 0: there is no
 * room for it. `mapping`: of its own, so all its pages are fresh, and go with it. */
static uint64_t know(const void *key, size_t n, uint64_t mapping) {
    if (numalens_every) return numalens_born(key, n);
    if (numalens_track(key)) return n < numalens_large || mapping ? numalens_now() : numalens_born(key, n);
    __atomic_fetch_add(&numalens_channel->untracked, 1, __ATOMIC_RELAXED);
    return 0;
}

/* It is about to end. Returns how long it was, or 1 where that is not known, with the time to tell of it with; 0:
 * the collector does not know of it. */
static size_t forget(const void *key, uint64_t *time) {
    if (!numalens_every && !numalens_untrack(key)) return 0;
    size_t n = key ? numalens_dies(key, time) : 0;
    return n || !key ? n : 1;
}

/* Of Python on a stack: the rest of a record is for the native one. */
enum { PYTHON_FRAMES = 16 };

/* `before` is the time before the real call, or 0: what the allocator touched since then of a block, it touched for
 * it. */
static void note(enum numalens_call call, void *address, size_t n, uint64_t before, void *const *frame) {
    uint64_t mean, time;
    if (!address || !chosen(n, &mean)) return;
    uint64_t mapping = own_mapping(address);
    if (!(time = know(address, n, mapping))) return;
    struct numalens_frame frames[PYTHON_FRAMES];
    struct wide_record record = {.kind = NUMALENS_ALLOC, .call = (uint8_t)call, .time = time,
        .operands = {(uint64_t)address, n, before, mapping}, .mean = mean, .frames = frames, .frame = frame};
    record.frame_count = (uint32_t)numalens_python_frames(frames, PYTHON_FRAMES);
    if (call == NUMALENS_CALL_MALLOC && numalens_is_operator_new((uint64_t)frame[1])) record.call = NUMALENS_CALL_NEW;
    if (numalens_tell_wide(&record)) numalens_process->lived = 1;
    else forget(address, &time);
}

HIDDEN void numalens_gave(enum numalens_call call, void *address, size_t n, uint64_t before, void *const *frame) {
    note(call, address, n, before, frame);
}

HIDDEN void numalens_takes(void *p) {
    uint64_t time;
    if (forget(p, &time)) numalens_tell(NUMALENS_FREE, time, (uint64_t)p, 0, 0, 0);
}

/* A block of an allocator of the program's own. It may begin where the memory does that it is carved out of, so it
 * is tracked under another address. */
static const void *key_of_told(const void *block) { return (const void *)((uint64_t)block | UINT64_C(1) << 63); }

static int tell_block(const void *block, size_t n, struct wide_record *record) {
    if (!chosen(n, &record->mean) || !(record->time = know(key_of_told(block), n, 0))) return 0;
    record->kind = NUMALENS_ALLOC;
    record->call = NUMALENS_CALL_DECLARED;
    record->operands[0] = (uint64_t)block;
    record->operands[1] = n;
    int told = numalens_tell_wide(record);
    if (told) numalens_process->lived = 1;
    else forget(key_of_told(block), &record->time);
    return told;
}

HIDDEN void numalens_told_alloc(const void *block, size_t n, void *const *frame) {
    struct wide_record record = {.frame = frame};
    if (block && numalens_charge(n)) tell_block(block, n, &record);
}

HIDDEN int numalens_told_object(const struct told_object *object) {
    const void *at = (const void *)object->address;
    struct wide_record record = {.kind = NUMALENS_ALLOC, .call = NUMALENS_CALL_DECLARED, .time = know(key_of_told(at), object->bytes, 0),
        .operands = {object->address, object->bytes, object->since, numalens_every ? 0 : object->around}, .mean = object->mean,
        .frames = object->frames, .frame_count = (uint32_t)object->frame_count};
    if (!record.time) return 0;
    int told = numalens_tell_wide(&record);
    if (told) numalens_process->lived = 1;
    else forget(key_of_told(at), &record.time);
    return told;
}

HIDDEN void numalens_told_free(const void *block) {
    uint64_t time;
    if (numalens_maybe_tracked(key_of_told(block)) && forget(key_of_told(block), &time))
        numalens_tell(NUMALENS_FREE, time, (uint64_t)block, 1, 0, 0);
}

#define FRAME ((void *const *)__builtin_frame_address(0))
#define SLOW static __attribute__((noinline))

/* The real functions may call each other by name, and so those here (musl's calloc and realloc call malloc, its
 * memalign aligned_alloc): of those that come here only the outermost call is told. */
#define OUTERMOST(call) ({ \
    numalens_self.nested++; \
    __typeof__(call) result_ = (call); \
    numalens_self.nested--; \
    result_; })

/* An operator new that is under way may return it (operators.c). */
static inline void *made(void *p, size_t n) {
    numalens_self.made = (uint64_t)p;
    numalens_self.made_bytes = p ? n : 0;
    return p;
}

SLOW void *slow_malloc(size_t n) {
    if (numalens_self.nested) return real_malloc(n);
    uint64_t before = numalens_before();
    void *p = made(real_malloc(n), n);
    note(NUMALENS_CALL_MALLOC, p, n, before, FRAME);
    return p;
}
EXPORT void *malloc(size_t n) {
    return numalens_charge(n) ? slow_malloc(n) : real_malloc(n);
}

SLOW void *slow_calloc(size_t n, size_t m) {
    uint64_t before = numalens_before();
    void *p = OUTERMOST(real_calloc(n, m));
    note(NUMALENS_CALL_CALLOC, p, n * m, before, FRAME);
    return p;
}
EXPORT void *calloc(size_t n, size_t m) {
    size_t bytes;
    if (unlikely(__builtin_mul_overflow(n, m, &bytes))) return real_calloc(n, m);
    return numalens_charge(bytes) ? slow_calloc(n, m) : real_calloc(n, m);
}

SLOW void slow_free(void *p) {
    if ((uint64_t)p != numalens_self.ending) numalens_takes(p);
    real_free(p);
}
EXPORT void free(void *p) {
    if (unlikely(numalens_maybe_tracked(p))) slow_free(p);
    else real_free(p);
}

/* The old block ends before the real call, as others may have its memory before that returns, or goes on where the
 * call fails: the collector, which takes all in in order, is told to wait for which. Size 0 releases, as in glibc;
 * where it does not (musl), the result is told like any other. */
static void *move(void *p, size_t n, void *const *frame) {
    uint64_t before = 0;
    size_t was_tracked = p && numalens_maybe_tracked(p) ? forget(p, &before) : 0;
    if (was_tracked) numalens_may_end(p, before);
    uint64_t begun = numalens_before(), old = was_tracked ? own_mapping(p) : 0;
    void *moved = OUTERMOST(real_realloc(p, n));
    if (was_tracked) {
        int ended = moved || !n;
        numalens_tell(ended ? NUMALENS_FREE : NUMALENS_KEPT, before, (uint64_t)p, 0, 0, 0);
        if (!ended && (numalens_every || numalens_track(p))) numalens_born(p, was_tracked);
        uint64_t new = old && moved ? own_mapping(moved) : 0;
        if (new) numalens_tell(NUMALENS_MREMAP, before, (uint64_t)p - 16, old, (uint64_t)moved - 16, new);
    }
    if (n >= numalens_large || numalens_self.countdown < 0) note(NUMALENS_CALL_REALLOC, moved, n, begun, frame);
    return moved;
}
SLOW void *slow_realloc(void *p, size_t n) { return move(p, n, FRAME); }
EXPORT void *realloc(void *p, size_t n) {
    int charged = numalens_charge(n);
    return charged || unlikely(numalens_maybe_tracked(p)) ? slow_realloc(p, n) : real_realloc(p, n);
}
/* Not forwarded: the real one would call realloc, which is the one here. */
EXPORT __attribute__((noinline)) void *reallocarray(void *p, size_t n, size_t m) {
    size_t bytes;
    if (__builtin_mul_overflow(n, m, &bytes)) return no_memory();
    numalens_charge(bytes);
    return move(p, bytes, FRAME);
}

#define ALIGNED(call, address, n) \
    uint64_t before = numalens_before(); \
    __typeof__(call) result = OUTERMOST(call); \
    if (!numalens_self.nested && numalens_charge(n)) note(NUMALENS_CALL_ALIGNED, made(address, n), n, before, FRAME); \
    return result

EXPORT int posix_memalign(void **place, size_t alignment, size_t n) {
    ALIGNED(NEXT(posix_memalign)(place, alignment, n), result ? NULL : *place, n);
}
EXPORT void *aligned_alloc(size_t alignment, size_t n) { ALIGNED(NEXT(aligned_alloc)(alignment, n), result, n); }
EXPORT void *memalign(size_t alignment, size_t n) { ALIGNED(NEXT(memalign)(alignment, n), result, n); }
EXPORT void *valloc(size_t n) { ALIGNED(NEXT(valloc)(n), result, n); }
EXPORT void *pvalloc(size_t n) { ALIGNED(NEXT(pvalloc)(n), result, (n + NUMALENS_PAGE - 1) & -(size_t)NUMALENS_PAGE); }
