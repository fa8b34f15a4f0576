/* C++ operator new and delete of allocators that bring their own.
 *
 * Those of libstdc++ and libc++ call malloc and free by name, which come here as such (heap.c). jemalloc, tcmalloc,
 * mimalloc and others define the operators beside malloc and go straight to their blocks. So all operators are
 * defined here, too, and at first everybody is bound to these; as soon as the library begins, it looks at who would
 * have been called:
 *
 *     the next definition after this library    what is here
 *     beside a malloc (an allocator's)          stays, tells, and calls that one
 *     elsewhere (the C++ library's)             is withdrawn from the dynamic symbols; who is bound already is led on
 *                                               by a jump
 *     nowhere                                   is withdrawn: a C++ library that is loaded later, where only its
 *                                               module sees it, is bound as it would be without this library. But it
 *                                               stays where somebody has asked whether there is one, by a weak
 *                                               reference: now there is
 *
 * What is in the global scope from the beginning goes before all that is loaded later, so where one stays it leads
 * to what everybody would have. An operator of the program's own stands before this library; what that one calls is
 * seen.
 *
 * new may throw, through the frame here: nothing is held around the call that would have to be undone. Whether an
 * allocator's operator has called a malloc of this library after all is seen by what that returned; from then on it
 * is led on as well. */
#include "track.h"

extern void *malloc(size_t);
extern void *aligned_alloc(size_t, size_t);
extern void free(void *);

/* The arguments as they are in registers, however many an operator has: the first is a size or a block. */
typedef void *operation(uint64_t, uint64_t, uint64_t);
struct operator { const char *name; operation *real; uint32_t state; };
enum { UNKNOWN, LEADS_ON, TELLS };

/* Where there is no C++ library: somebody would have done without, had nothing been here. */
static void *some_block(uint64_t n, uint64_t unused, uint64_t too) { return (void)unused, (void)too, malloc(n); }
static void *some_aligned(uint64_t n, uint64_t alignment, uint64_t unused) { return (void)unused, aligned_alloc(alignment, n); }
static void *no_block(uint64_t block, uint64_t unused, uint64_t too) { return (void)unused, (void)too, free((void *)block), NULL; }

static uint32_t lead(struct operator *op, const struct numalens_definition *next, const void *caller) {
    uint32_t state = next->beside_malloc ? TELLS : LEADS_ON;
    void *real = next->found ? next->found : numalens_next_of(op->name, caller);
    if (!real) real = op->name[2] == 'd' ? (void *)no_block : op->name[5] == 'S' ? (void *)some_aligned : (void *)some_block;
    __atomic_store_n(&op->real, (operation *)real, __ATOMIC_RELAXED);
    __atomic_store_n(&op->state, state, __ATOMIC_RELEASE);
    return state;
}

/* Also before the library has begun: the initialisers of others may run first. */
static inline uint32_t settle(struct operator *op, const void *caller) {
    uint32_t state = __atomic_load_n(&op->state, __ATOMIC_ACQUIRE);
    if (likely(state != UNKNOWN)) return state;
    struct numalens_definition next = {.name = op->name};
    numalens_next_several(&next, 1);
    return lead(op, &next, caller);
}

#define SLOW static __attribute__((noinline))

SLOW void *slow_new(uint64_t n, uint64_t second, uint64_t third, struct operator *op) {
    void *const *frame = (void *const *)__builtin_frame_address(0);
    if (settle(op, frame[1]) != TELLS) return op->real(n, second, third);
    struct thread_state *self = &numalens_self;
    uint64_t before = numalens_before();
    self->made_bytes = 0;
    void *block = op->real(n, second, third);
    if ((uint64_t)block - self->made < self->made_bytes) __atomic_store_n(&op->state, LEADS_ON, __ATOMIC_RELAXED);
    else if (!self->nested) numalens_gave(NUMALENS_CALL_NEW, block, n, before, frame);
    return block;
}
static inline void *new_block(uint64_t n, uint64_t second, uint64_t third, struct operator *op) {
    uint32_t state = __atomic_load_n(&op->state, __ATOMIC_ACQUIRE);
    if (likely(state == LEADS_ON || (state == TELLS && !numalens_charge(n)))) return op->real(n, second, third);
    return slow_new(n, second, third, op);
}

SLOW void *slow_delete(uint64_t block, uint64_t second, uint64_t third, struct operator *op) {
    if (settle(op, __builtin_return_address(0)) != TELLS) return op->real(block, second, third);
    struct thread_state *self = &numalens_self;
    numalens_takes((void *)block);
    /* It may come to free, which is to say nothing more of it. */
    self->ending = block;
    op->real(block, second, third);
    self->ending = 0;
    return NULL;
}
static inline void *delete_block(uint64_t block, uint64_t second, uint64_t third, struct operator *op) {
    uint32_t state = __atomic_load_n(&op->state, __ATOMIC_ACQUIRE);
    if (likely(state == LEADS_ON || (state == TELLS && !numalens_maybe_tracked((void *)block)))) return op->real(block, second, third);
    return slow_delete(block, second, third, op);
}

/* One or many (a); with a size (m), an alignment (St11align_val_t), or returning NULL rather than throwing
 * (RKSt9nothrow_t). */
#define NEWS(X) X(_Znwm) X(_Znam) X(_ZnwmRKSt9nothrow_t) X(_ZnamRKSt9nothrow_t) X(_ZnwmSt11align_val_t) X(_ZnamSt11align_val_t) \
    X(_ZnwmSt11align_val_tRKSt9nothrow_t) X(_ZnamSt11align_val_tRKSt9nothrow_t)
#define DELETES(X) X(_ZdlPv) X(_ZdaPv) X(_ZdlPvm) X(_ZdaPvm) X(_ZdlPvRKSt9nothrow_t) X(_ZdaPvRKSt9nothrow_t) \
    X(_ZdlPvSt11align_val_t) X(_ZdaPvSt11align_val_t) X(_ZdlPvmSt11align_val_t) X(_ZdaPvmSt11align_val_t) \
    X(_ZdlPvSt11align_val_tRKSt9nothrow_t) X(_ZdaPvSt11align_val_tRKSt9nothrow_t)

#define INDEX(symbol) at_##symbol,
enum { NEWS(INDEX) DELETES(INDEX) OPERATORS };
#define ROW(symbol) {#symbol, NULL, UNKNOWN},
static struct operator operators[OPERATORS] = {NEWS(ROW) DELETES(ROW)};

#define DEFINE_NEW(symbol) \
    EXPORT void *symbol(uint64_t n, uint64_t second, uint64_t third) { return new_block(n, second, third, &operators[at_##symbol]); }
#define DEFINE_DELETE(symbol) \
    EXPORT void *symbol(uint64_t block, uint64_t second, uint64_t third) { return delete_block(block, second, third, &operators[at_##symbol]); }
NEWS(DEFINE_NEW)
DELETES(DEFINE_DELETE)

__attribute__((constructor)) static void begin(void) {
    struct numalens_definition next[OPERATORS];
    const char *withdrawn[OPERATORS];
    int count = 0, missing = 0;
    for (int i = 0; i < OPERATORS; i++) next[i] = (struct numalens_definition){.name = operators[i].name};
    numalens_next_several(next, OPERATORS);
    for (int i = 0; i < OPERATORS; i++) missing |= !next[i].found;
    if (missing) numalens_find_references(next, OPERATORS);
    for (int i = 0; i < OPERATORS; i++) {
        if (!next[i].found) {
            if (!next[i].referenced) withdrawn[count++] = next[i].name;
            continue;
        }
        uint32_t state = __atomic_load_n(&operators[i].state, __ATOMIC_ACQUIRE);
        if (state == UNKNOWN) state = lead(&operators[i], &next[i], NULL);
        if (state == LEADS_ON) withdrawn[count++] = next[i].name;
    }
    numalens_withdraw(withdrawn, count);
}
