/* See track.h. */
#include "track.h"

HIDDEN uint32_t numalens_filter[1 << (FILTER_LOG2 - 5)];
HIDDEN uint32_t numalens_tracked_count;
static uint8_t counts[1 << FILTER_LOG2];
static uint64_t tracked[1 << LINES_LOG2][8] __attribute__((aligned(64)));

/* A counter that has reached 255 stays there: a few frees then look once more. */
static void count(const void *address, int change) {
    uint32_t slot = (uint32_t)(address_hash(address) >> (64 - FILTER_LOG2));
    uint8_t *counter = &counts[slot], value = __atomic_load_n(counter, __ATOMIC_RELAXED);
    __atomic_fetch_add(&numalens_tracked_count, (uint32_t)change, __ATOMIC_RELAXED);
    while (value != 255 && !(value == 0 && change < 0)
           && !__atomic_compare_exchange_n(counter, &value, (uint8_t)(value + change), 1, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {}
    uint32_t *bits = &numalens_filter[slot / 32], bit = 1u << (slot % 32);
    if (change < 0 && value == 1) __atomic_fetch_and(bits, ~bit, __ATOMIC_SEQ_CST);
    /* Looked at again after the bit was cleared: another thread may have counted up in between. */
    if (__atomic_load_n(counter, __ATOMIC_SEQ_CST)) __atomic_fetch_or(bits, bit, __ATOMIC_SEQ_CST);
}

static uint64_t *line_of(const void *address, unsigned choice) {
    uint64_t hash = address_hash(address);
    return tracked[((hash >> 20) ^ choice) & ((1 << LINES_LOG2) - 1)];
}

HIDDEN void numalens_track_all(void) {
    for (size_t i = 0; i < sizeof numalens_filter / sizeof *numalens_filter; i++) __atomic_store_n(&numalens_filter[i], UINT32_MAX, __ATOMIC_RELAXED);
}

HIDDEN int numalens_track(const void *address) {
    /* One that was there has gone with the memory around it. */
    numalens_untrack(address);
    for (unsigned choice = 0; choice < 2; choice++) {
        uint64_t *line = line_of(address, choice);
        for (int i = 0; i < 8; i++) {
            uint64_t empty = 0;
            if (__atomic_load_n(&line[i], __ATOMIC_RELAXED)) continue;
            if (!__atomic_compare_exchange_n(&line[i], &empty, (uint64_t)address, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) continue;
            count(address, 1);
            return 1;
        }
    }
    return 0;
}

HIDDEN int numalens_untrack(const void *address) {
    if (!address) return 0; /* 0 marks an empty place */
    for (unsigned choice = 0; choice < 2; choice++) {
        uint64_t *line = line_of(address, choice);
        for (int i = 0; i < 8; i++) {
            uint64_t here = (uint64_t)address;
            if (__atomic_load_n(&line[i], __ATOMIC_RELAXED) != here) continue;
            if (!__atomic_compare_exchange_n(&line[i], &here, 0, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) continue;
            count(address, -1);
            return 1;
        }
    }
    return 0;
}
