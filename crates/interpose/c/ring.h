/* The writer's half of the ring; the protocol is explained in crates/event/src/ring.rs. */
#ifndef NUMALENS_RING_H
#define NUMALENS_RING_H

#include "state.h"

struct ring { struct numalens_control *control; char *slots; uint32_t slots_log2, slot_bytes; };
struct claim { uint64_t *word, owned; uint64_t position; };

static inline struct ring numalens_ring(struct numalens_header *channel, uint32_t tid, int wide) {
    uint32_t lanes = 1u << channel->lanes_log2, lane = tid & (lanes - 1);
    size_t notes = (size_t)NUMALENS_NOTE_WORDS * 8 << channel->note_slots_log2;
    size_t wides = (size_t)NUMALENS_WIDE_WORDS * 8 << channel->wide_slots_log2;
    size_t data = (NUMALENS_HEADER_BYTES + (size_t)lanes * 2 * sizeof(struct numalens_control) + NUMALENS_PAGE - 1) & -(size_t)NUMALENS_PAGE;
    char *base = (char *)channel;
    return (struct ring){
        .control = (struct numalens_control *)(base + NUMALENS_HEADER_BYTES) + lane * 2 + wide,
        .slots = base + data + lane * (notes + wides) + (wide ? notes : 0),
        .slots_log2 = wide ? channel->wide_slots_log2 : channel->note_slots_log2,
        .slot_bytes = wide ? NUMALENS_WIDE_WORDS * 8 : NUMALENS_NOTE_WORDS * 8,
    };
}

/* Reserves a slot; NULL when the ring is full. */
static inline void *numalens_claim(const struct ring *ring, uint32_t tid, struct claim *claim) {
    for (int attempt = 0; attempt < NUMALENS_ATTEMPTS; attempt++) {
        uint64_t position = __atomic_load_n(&ring->control->head, __ATOMIC_ACQUIRE), head = position;
        uint64_t *word = (uint64_t *)(ring->slots + (position & ((UINT64_C(1) << ring->slots_log2) - 1)) * ring->slot_bytes);
        uint64_t open = (position >> ring->slots_log2) << 33, found = open;
        int mine = __atomic_compare_exchange_n(word, &found, open | tid, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
        if (!mine && (((found >> 33) - (open >> 33)) & 0x7fffffff) >= 0x40000000) break;
        __atomic_compare_exchange_n(&ring->control->head, &head, position + 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
        if (mine) {
            *claim = (struct claim){.word = word, .owned = open | tid, .position = position};
            return word;
        }
    }
    return NULL;
}

/* Hands the filled slot over; 0 when the reader had given it up. */
static inline int numalens_publish(const struct claim *claim) {
    uint64_t owned = claim->owned;
    return __atomic_compare_exchange_n(claim->word, &owned, owned | UINT64_C(1) << 32, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

#endif
