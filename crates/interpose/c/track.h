/* The live allocations that the collector knows of, so that only their release is told.
 *
 * Two tables in the library's own static memory, never locked, of fixed size. `filter` counts tracked addresses by hash:
 * every free looks at one of its bytes (64 KB, which stays in the second-level cache) and nearly always finds 0. `tracked`
 * holds the addresses themselves, eight to a cache line; an address may stand in two lines, so nothing needs to move
 * and a removal leaves no mark. When both are full the allocation is not tracked, which is counted, and not told. */
#ifndef NUMALENS_TRACK_H
#define NUMALENS_TRACK_H

#include "state.h"

#define FILTER_LOG2 16
#define LINES_LOG2 15

extern HIDDEN uint8_t numalens_filter[1 << FILTER_LOG2];

static inline uint64_t address_hash(const void *address) {
    return ((uint64_t)address >> 4) * UINT64_C(0x9e3779b97f4a7c15);
}

static inline int numalens_maybe_tracked(const void *address) {
    return __atomic_load_n(&numalens_filter[address_hash(address) >> (64 - FILTER_LOG2)], __ATOMIC_RELAXED);
}

HIDDEN int numalens_track(const void *address);   /* 0: no room */
HIDDEN int numalens_untrack(const void *address); /* was it tracked? */

#endif
