/* Memory policies. libnuma's own functions call these through its exported wrappers, and so through here; where libnuma
 * is not loaded the names still mean the system calls. */
#include "state.h"

extern long set_mempolicy(int, const unsigned long *, unsigned long);
extern long mbind(void *, unsigned long, int, const unsigned long *, unsigned long, unsigned);
extern long migrate_pages(int, unsigned long, const unsigned long *, const unsigned long *);
extern long move_pages(int, unsigned long, void **, const int *, int *, int);

static long result_of(long result) {
    if (result >= 0 || result < -4095) return result;
    set_errno((int)-result);
    return -1;
}

static void tell_nodes(enum numalens_kind kind, const unsigned long *nodes, unsigned long bits, uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
    if (!numalens_connect()) return;
    uint64_t mask[1024 / 64] = {0}; /* a bit for each node */
    unsigned long used = nodes && bits ? bits - 1 : 0; /* the kernel looks at one bit less than it is told */
    struct wide_record record = {.kind = kind, .time = numalens_now(), .operands = {a, b, c, d}, .payload = mask};
    if (used > 1024) {
        record.flags = NUMALENS_FLAG_ASK;
        used = 1024;
    }
    for (unsigned long word = 0; word * 64 < used; word++) {
        mask[word] = nodes[word];
        if (used - word * 64 < 64) mask[word] &= (UINT64_C(1) << (used - word * 64)) - 1;
    }
    record.payload_bytes = (uint32_t)((used + 63) / 64 * 8);
    numalens_tell_wide(&record);
}

/* What a function does on behalf of the program, `syscall` included, it does not tell a second time. */
#define WITHIN(call) ({ numalens_self.nested++; long result_ = (call); numalens_self.nested--; result_; })

HIDDEN void numalens_tell_policy(int mode, const unsigned long *nodes, unsigned long bits) {
    tell_nodes(NUMALENS_POLICY, nodes, bits, (uint64_t)(uint32_t)mode, 0, 0, 0);
}

EXPORT long set_mempolicy(int mode, const unsigned long *nodes, unsigned long bits) {
    __typeof__(&set_mempolicy) real = NEXT(set_mempolicy);
    long result = real ? WITHIN(real(mode, nodes, bits)) : result_of(sys3(SYS_SET_MEMPOLICY, mode, nodes, bits));
    if (result == 0) numalens_tell_policy(mode, nodes, bits);
    return result;
}

/* Calls that move pages are told with the time when they began: homes may be read anew while they run. */

HIDDEN void numalens_tell_mbind(uint64_t begun, uint64_t address, uint64_t n, int mode, const unsigned long *nodes, unsigned long bits, unsigned flags) {
    tell_nodes(NUMALENS_MBIND, nodes, bits, address, n, (uint32_t)mode | (uint64_t)flags << 32, begun);
}

EXPORT long mbind(void *address, unsigned long n, int mode, const unsigned long *nodes, unsigned long bits, unsigned flags) {
    __typeof__(&mbind) real = NEXT(mbind);
    uint64_t begun = numalens_now();
    long result = real ? WITHIN(real(address, n, mode, nodes, bits, flags))
                       : result_of(sys6(SYS_MBIND, (long)address, (long)n, mode, (long)nodes, (long)bits, flags));
    if (result == 0) numalens_tell_mbind(begun, (uint64_t)address, n, mode, nodes, bits, flags);
    return result;
}

static uint64_t process(int pid) { return pid ? (uint32_t)pid : numalens_pid(); }

HIDDEN void numalens_tell_migrate(uint64_t begun, int pid) {
    if (numalens_connect()) numalens_tell(NUMALENS_MIGRATE_PAGES, numalens_now(), process(pid), begun, 0, 0);
}

EXPORT long migrate_pages(int pid, unsigned long bits, const unsigned long *from, const unsigned long *to) {
    __typeof__(&migrate_pages) real = NEXT(migrate_pages);
    uint64_t begun = numalens_now();
    long result = real ? WITHIN(real(pid, bits, from, to))
                       : result_of(sys6(SYS_MIGRATE_PAGES, pid, (long)bits, (long)from, (long)to, 0, 0));
    if (result >= 0) numalens_tell_migrate(begun, pid);
    return result;
}

/* Without destinations it only asks. */
HIDDEN void numalens_tell_move(uint64_t begun, int pid, unsigned long count, const int *nodes) {
    if (nodes && numalens_connect()) numalens_tell(NUMALENS_MOVE_PAGES, numalens_now(), process(pid), count, begun, 0);
}

EXPORT long move_pages(int pid, unsigned long count, void **pages, const int *nodes, int *status, int flags) {
    __typeof__(&move_pages) real = NEXT(move_pages);
    uint64_t begun = numalens_now();
    long result = real ? WITHIN(real(pid, count, pages, nodes, status, flags))
                       : result_of(sys6(SYS_MOVE_PAGES, pid, (long)count, (long)pages, (long)nodes, (long)status, flags));
    if (result >= 0) numalens_tell_move(begun, pid, count, nodes);
    return result;
}
