/* The channel between the interposer and the collector: the C twin of crates/event/src/layout.rs and record.rs, where
 * every field is explained. A test compares the two field by field. */
#ifndef NUMALENS_EVENT_H
#define NUMALENS_EVENT_H

#include <stddef.h>
#include <stdint.h>

#define NUMALENS_MAGIC UINT64_C(0x736e656c616d756e)
#define NUMALENS_VERSION 6
#define NUMALENS_PAGE 4096
#define NUMALENS_HEADER_BYTES NUMALENS_PAGE
#define NUMALENS_ACKNOWLEDGEMENTS 64
#define NUMALENS_NOTE_WORDS 8
#define NUMALENS_WIDE_WORDS 272
#define NUMALENS_PAYLOAD_WORD 16
#define NUMALENS_PAYLOAD_BYTES ((NUMALENS_WIDE_WORDS - NUMALENS_PAYLOAD_WORD) * 8)
#define NUMALENS_ATTEMPTS 64
#define NUMALENS_FLAG_ASK 1
#define NUMALENS_RUNTIME_LOG_START 4096
#define NUMALENS_RUNTIME_LOG_BYTES (256ul << 20)
#define NUMALENS_RUNTIME_LOG_MAGIC UINT64_C(0x73656d69746e7572)
#define NUMALENS_PUBLISHED (UINT64_C(1) << 63)
#define NUMALENS_MOST_NAME_BYTES 120

struct numalens_clock { uint64_t ticks, ns, ns_per_tick; };

struct numalens_header {
    uint64_t magic;
    uint32_t version;
    uint32_t open;
    uint32_t lanes_log2;
    uint32_t note_slots_log2;
    uint32_t wide_slots_log2;
    uint32_t collector_pid;
    uint64_t large;
    uint64_t mean;
    uint64_t large_mean;
    int32_t large_credit;
    uint32_t handshake;
    uint32_t handshake_ms;
    uint32_t doorbell;
    uint32_t reader_waiting;
    uint32_t ticket;
    uint64_t untracked;
    uint64_t unpassed;
    uint64_t unwrapped;
    uint64_t late;
    uint32_t every;
    uint32_t patience_ms;
    uint64_t runtime_log;
    uint32_t acknowledged[NUMALENS_ACKNOWLEDGEMENTS];
    uint32_t clock_in_force;
    uint32_t reserved_half;
    struct numalens_clock clock[2];
};

struct numalens_control {
    uint64_t head;
    uint64_t lost;
    uint64_t waited_in_vain;
    uint64_t reserved[5];
};

/* A note slot; a wide slot begins with one. */
struct numalens_note {
    uint64_t claim;
    uint16_t kind;
    uint8_t call;
    uint8_t flags;
    uint32_t payload_bytes;
    uint64_t time_ns;
    uint32_t pid;
    uint32_t tid;
    uint64_t operands[4];
};

struct numalens_wide {
    struct numalens_note note;
    uint64_t ip, sp, bp;
    uint64_t mean;
    uint64_t frames;
    uint64_t reserved[3];
    uint64_t payload[NUMALENS_PAYLOAD_BYTES / 8];
};

/* A runtime's frame, in front of the stack in a payload. */
struct numalens_frame {
    uint64_t method;
    int64_t bytecode;
};

_Static_assert(sizeof(struct numalens_header) <= NUMALENS_HEADER_BYTES, "the header fits its page");
_Static_assert(offsetof(struct numalens_header, large) == 32, "no padding before large");
_Static_assert(offsetof(struct numalens_header, untracked) == 80, "no padding before the counters");
_Static_assert(sizeof(struct numalens_control) == 64, "a control is a cache line");
_Static_assert(sizeof(struct numalens_note) == NUMALENS_NOTE_WORDS * 8, "a note is a cache line");
_Static_assert(sizeof(struct numalens_wide) == NUMALENS_WIDE_WORDS * 8, "a wide slot is as long as said");
_Static_assert(offsetof(struct numalens_wide, payload) == NUMALENS_PAYLOAD_WORD * 8, "the payload is where said");

enum numalens_kind {
    NUMALENS_ALLOC = 1,
    NUMALENS_FREE = 2,
    NUMALENS_MUNMAP = 3,
    NUMALENS_MREMAP = 4,
    NUMALENS_THREAD_START = 5,
    NUMALENS_THREAD_PLACED = 6,
    NUMALENS_POLICY = 7,
    NUMALENS_MBIND = 8,
    NUMALENS_MIGRATE_PAGES = 9,
    NUMALENS_MOVE_PAGES = 10,
    NUMALENS_PROCESS_START = 11,
    NUMALENS_FORK_CHILD = 12,
    NUMALENS_EXEC = 13,
    NUMALENS_EXEC_FAILED = 14,
    NUMALENS_PROCESS_EXIT = 15,
    NUMALENS_REQUEST = 16,
    NUMALENS_NAME = 17,
    NUMALENS_REGION = 18,
    NUMALENS_MAY_END = 19,
    NUMALENS_KEPT = 20,
};

/* The log of runtimes: crates/event/src/runtime_log.rs. */
enum numalens_told {
    NUMALENS_TOLD_METHOD = 1,
    NUMALENS_TOLD_CODE = 2,
    NUMALENS_TOLD_STUB = 3,
    NUMALENS_TOLD_PYTHON = 4,
    NUMALENS_TOLD_PERF_MAP = 5,
};

enum numalens_call {
    NUMALENS_CALL_MALLOC = 1,
    NUMALENS_CALL_CALLOC = 2,
    NUMALENS_CALL_REALLOC = 3,
    NUMALENS_CALL_ALIGNED = 4,
    NUMALENS_CALL_NEW = 5,
    NUMALENS_CALL_MMAP = 6,
    NUMALENS_CALL_DECLARED = 7,
    NUMALENS_CALL_PROTECT = 8,
};

#endif
