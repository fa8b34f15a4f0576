/* Mappings that the program makes through libc. (malloc's own go past these names.) */
#include "state.h"

extern void *mmap(void *, size_t, int, int, int, long);
extern void *mmap64(void *, size_t, int, int, int, long);
extern int munmap(void *, size_t);
extern int mprotect(void *, size_t, int);
extern int pkey_mprotect(void *, size_t, int, int);
extern void *mremap(void *, size_t, size_t, int, ...);

#define FAILED ((void *)-1)
#define FRAME ((void *const *)__builtin_frame_address(0))

static void *result_of(long result) {
    if (result >= 0 || result < -4095) return (void *)result;
    set_errno((int)-result);
    return FAILED;
}

enum { ANONYMOUS = 0x20, ACCESS = 7 /* PROT_READ, PROT_WRITE, PROT_EXEC */ };

/* Addresses have been reserved: what gives access to memory may allocate. */
static int has_reserved;

static void note(void *address, size_t n, int protection, int flags, long offset, void *const *frame) {
    if (address == FAILED || !numalens_connect()) return;
    if (!(protection & ACCESS) && flags & ANONYMOUS) __atomic_store_n(&has_reserved, 1, __ATOMIC_RELAXED);
    struct wide_record record = {.kind = NUMALENS_ALLOC, .call = NUMALENS_CALL_MMAP, .time = numalens_now(),
        .operands = {(uint64_t)address, n, (uint32_t)protection | (uint64_t)(uint32_t)flags << 32, (uint64_t)offset}, .frame = frame};
    numalens_tell_wide(&record);
}

EXPORT void *mmap(void *address, size_t n, int protection, int flags, int fd, long offset) {
    void *mapped = NEXT(mmap) ? NEXT(mmap)(address, n, protection, flags, fd, offset)
                              : result_of(sys6(SYS_MMAP, (long)address, (long)n, protection, flags, fd, offset));
    note(mapped, n, protection, flags, offset, FRAME);
    return mapped;
}

EXPORT void *mmap64(void *address, size_t n, int protection, int flags, int fd, long offset) {
    void *mapped = NEXT(mmap64) ? NEXT(mmap64)(address, n, protection, flags, fd, offset)
                                : result_of(sys6(SYS_MMAP, (long)address, (long)n, protection, flags, fd, offset));
    note(mapped, n, protection, flags, offset, FRAME);
    return mapped;
}

/* The time at which memory is about to go: before it has, as afterwards its addresses may be somebody else's. What
 * is taken in in order waits until it is told whether it has gone. 0: nobody wants to know. */
static uint64_t time_of_leaving(const void *address, size_t n) {
    if (!numalens_connect()) return 0;
    uint64_t time = numalens_every ? numalens_leaves(address, n) : numalens_now();
    numalens_may_end(address, time);
    return time;
}

EXPORT int munmap(void *address, size_t n) {
    uint64_t time = time_of_leaving(address, n);
    int failed = NEXT(munmap) ? NEXT(munmap)(address, n) : result_of(sys3(SYS_MUNMAP, address, n, 0)) == FAILED ? -1 : 0;
    if (time) numalens_tell(failed ? NUMALENS_KEPT : NUMALENS_MUNMAP, time, (uint64_t)address, n, 0, 0);
    return failed;
}

static int accessible(int result, void *address, size_t n, int protection, void *const *frame) {
    if (result || !(protection & ACCESS) || !__atomic_load_n(&has_reserved, __ATOMIC_RELAXED)) return result;
    if (!numalens_connect()) return result;
    struct wide_record record = {.kind = NUMALENS_ALLOC, .call = NUMALENS_CALL_PROTECT, .time = numalens_now(),
        .operands = {(uint64_t)address, n, (uint32_t)protection, 0}, .frame = frame};
    numalens_tell_wide(&record);
    return result;
}

EXPORT int mprotect(void *address, size_t n, int protection) {
    int result = NEXT(mprotect) ? NEXT(mprotect)(address, n, protection)
                                : result_of(sys3(SYS_MPROTECT, address, n, protection)) == FAILED ? -1 : 0;
    return accessible(result, address, n, protection, FRAME);
}

EXPORT int pkey_mprotect(void *address, size_t n, int protection, int key) {
    int result;
    if (NEXT(pkey_mprotect)) result = NEXT(pkey_mprotect)(address, n, protection, key);
    else result = result_of(sys6(SYS_PKEY_MPROTECT, (long)address, (long)n, protection, key, 0, 0)) == FAILED ? -1 : 0;
    return accessible(result, address, n, protection, FRAME);
}

EXPORT void *mremap(void *address, size_t old_size, size_t new_size, int flags, ...) {
    __builtin_va_list more;
    __builtin_va_start(more, flags);
    void *wanted = flags & 2 /* MREMAP_FIXED */ ? __builtin_va_arg(more, void *) : NULL;
    __builtin_va_end(more);
    uint64_t time = time_of_leaving(address, old_size);
    void *moved = NEXT(mremap) ? NEXT(mremap)(address, old_size, new_size, flags, wanted)
                               : result_of(sys6(SYS_MREMAP, (long)address, (long)old_size, (long)new_size, flags, (long)wanted, 0));
    if (!time) return moved;
    uint64_t when = numalens_when_moved();
    if (moved != FAILED) numalens_tell(NUMALENS_MREMAP, when ? when : time, (uint64_t)address, old_size, (uint64_t)moved, new_size);
    /* It was there until then. */
    if (moved == FAILED || when) numalens_tell(NUMALENS_KEPT, time, (uint64_t)address, 0, 0, 0);
    return moved;
}
