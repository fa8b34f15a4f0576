/* The live allocations that the collector knows of, so that only their release is told.
 *
 * Three tables in the library's own static memory, never locked, of fixed size. `tracked` holds the addresses, eight to
 * a cache line; an address may stand in two lines, so nothing needs to move and a removal leaves no mark. When both are
 * full the allocation is not tracked, which is counted, and not told. `counts` has the number of tracked addresses by
 * hash, and `numalens_filter` one bit for each of these: is it more than 0? Every free looks at one bit (of 8 KB, which
 * stay in the first-level cache) and nearly always finds it clear. */
#ifndef NUMALENS_TRACK_H
#define NUMALENS_TRACK_H

#include "state.h"

#define FILTER_LOG2 16
#define LINES_LOG2 15

extern HIDDEN uint32_t numalens_filter[1 << (FILTER_LOG2 - 5)];
extern HIDDEN uint32_t numalens_tracked_count;

static inline uint64_t address_hash(const void *address) {
    return ((uint64_t)address >> 4) * UINT64_C(0x9e3779b97f4a7c15);
}

static inline int numalens_maybe_tracked(const void *address) {
    uint32_t slot = (uint32_t)(address_hash(address) >> (64 - FILTER_LOG2));
    return __atomic_load_n(&numalens_filter[slot / 32], __ATOMIC_RELAXED) >> (slot % 32) & 1;
}

/* Charges the thread with n bytes; true when the slow path has to look whether this allocation is told. */
static inline int numalens_charge(size_t n) {
    return unlikely(n >= __atomic_load_n(&numalens_large, __ATOMIC_RELAXED)) || unlikely((numalens_self.countdown -= (int64_t)n) < 0);
}

HIDDEN void numalens_track_all(void);             /* from here on every block is taken for one that the collector knows */
HIDDEN int numalens_track(const void *address);   /* once, however often it is told; 0: no room */
HIDDEN int numalens_untrack(const void *address); /* was it tracked? */

#endif
