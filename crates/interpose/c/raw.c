/* Calls of placement by their numbers, as programs without libnuma make them. `syscall` takes whatever its system
 * call takes, so here it is declared with the most there are; what the caller did not pass is passed on unread, in
 * registers and in the word of the stack that the real function reads as well. All numbers but these go on by a
 * jump: this function must not have a frame when a child returns twice from it. */
#include "state.h"

extern long syscall(long, long, long, long, long, long, long);
extern int prctl(int, unsigned long, unsigned long, unsigned long, unsigned long);

static void before_prctl(int option, unsigned long value) {
    /* For good: other threads may go on without the counter. */
    if (option == PR_SET_TSC_ && value == PR_TSC_SIGSEGV_) __atomic_store_n(&numalens_no_counter, 1, __ATOMIC_RELAXED);
}

EXPORT int prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d) {
    __typeof__(&prctl) real = NEXT(prctl);
    if (!real) {
        set_errno(ENOSYS_);
        return -1;
    }
    before_prctl(option, a);
    return real(option, a, b, c, d);
}

EXPORT long syscall(long number, long a, long b, long c, long d, long e, long f) {
    __typeof__(&syscall) real = NEXT(syscall);
    if (!real) {
        set_errno(ENOSYS_);
        return -1;
    }
    switch (number) {
        case SYS_SCHED_SETAFFINITY: case SYS_MBIND: case SYS_SET_MEMPOLICY: case SYS_MIGRATE_PAGES: case SYS_MOVE_PAGES: break;
        case SYS_PRCTL: before_prctl((int)a, (unsigned long)b); return real(number, a, b, c, d, e, f);
        default: return real(number, a, b, c, d, e, f);
    }
    uint64_t begun = numalens_now();
    long result = real(number, a, b, c, d, e, f);
    /* Within a function of the same name that this library has taken the place of, that one tells. */
    if (result < 0 || numalens_self.nested) return result;
    switch (number) {
        case SYS_SCHED_SETAFFINITY: numalens_tell_affinity((int)a); break;
        case SYS_MBIND: numalens_tell_mbind(begun, (uint64_t)a, (uint64_t)b, (int)c, (const unsigned long *)d, (unsigned long)e, (unsigned)f); break;
        case SYS_SET_MEMPOLICY: numalens_tell_policy((int)a, (const unsigned long *)b, (unsigned long)c); break;
        case SYS_MIGRATE_PAGES: numalens_tell_migrate(begun, (int)a); break;
        case SYS_MOVE_PAGES: numalens_tell_move(begun, (int)a, (unsigned long)b, (const int *)d); break;
    }
    return result;
}
