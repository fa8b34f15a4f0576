/* What the program asks for by include/numalens.h, where no agent does it: the numbers are that header's, and
 * crates/event/src/request.rs'. */
#include "state.h"
#include "../../../include/numalens.h"

/* A start or stop must not be lost in a full ring: the reader empties it within milliseconds. */
enum { PATIENCE_MS = 1000 };

/* As numalens_ask_ of the header; rdx comes back with the agent's time, where there is an agent. */
static uint64_t request(unsigned long what, const void *key, uint64_t *bytes) {
    uint64_t done = 0;
    __asm__ volatile(".byte 0x0f, 0x1f, 0x84, 0x00\n\t.long 0x616d756e" : "+a"(done), "+d"(*bytes) : "D"(what), "S"(key) : "memory");
    return done;
}

/* What is told of the block afterwards must have a later time than the agent's, though the clock was set in between. */
static uint64_t ask(unsigned long what, const void *key, size_t n, uint64_t *time) {
    uint64_t bytes = n, done = request(what, key, &bytes);
    uint64_t now = numalens_now();
    *time = bytes != n && bytes >= now ? bytes + 1 : now;
    return done;
}
HIDDEN uint64_t numalens_born(const void *key, size_t n) {
    uint64_t time;
    ask(NUMALENS_REQUEST_BORN, key, n, &time);
    return time;
}
HIDDEN size_t numalens_dies(const void *key, uint64_t *time) { return ask(NUMALENS_REQUEST_DIES, key, 0, time); }

HIDDEN uint64_t numalens_leaves(const void *address, size_t n) {
    uint64_t time;
    ask(NUMALENS_REQUEST_LEAVES, address, n, &time);
    return time;
}

HIDDEN uint64_t numalens_when_moved(void) {
    uint64_t time = 0;
    return request(NUMALENS_REQUEST_WHEN_MOVED, NULL, &time) ? time : 0;
}

HIDDEN void numalens_tell_text(enum numalens_kind kind, uint64_t first, const char *name, int must) {
    if (!numalens_connect()) return;
    uint64_t text[(NUMALENS_MOST_NAME_BYTES + 7) / 8] = {0};
    uint32_t bytes = 0;
    for (; name && bytes < NUMALENS_MOST_NAME_BYTES && name[bytes]; bytes++) ((char *)text)[bytes] = name[bytes];
    struct wide_record record = {.kind = kind, .time = numalens_now(), .operands = {first}, .payload = text, .payload_bytes = (bytes + 7) & ~7u};
    for (int tries = 0; !numalens_tell_wide(&record) && must && tries < PATIENCE_MS; tries++) {
        const struct timespec64 millisecond = {0, 1000000};
        sys3(SYS_NANOSLEEP, &millisecond, 0, 0);
    }
}

HIDDEN void numalens_phase(unsigned long what, const char *name) {
    uint64_t bytes = 0;
    if (!request(what, name, &bytes)) numalens_tell_text(NUMALENS_REQUEST, what, name, 0);
}

/* The frame of the call is where a block is allocated. */
EXPORT __attribute__((noinline)) void numalens_hook(unsigned long what, const void *first, size_t second) {
    switch (what) {
    case NUMALENS_REQUEST_START:
    case NUMALENS_REQUEST_STOP:
    case NUMALENS_REQUEST_MOVED: numalens_tell_text(NUMALENS_REQUEST, what, NULL, 1); break;
    case NUMALENS_REQUEST_BEGIN:
    case NUMALENS_REQUEST_END:
    case NUMALENS_REQUEST_MARK: numalens_tell_text(NUMALENS_REQUEST, what, first, 0); break;
    case NUMALENS_REQUEST_ALLOC: numalens_told_alloc(first, second, __builtin_frame_address(0)); break;
    case NUMALENS_REQUEST_FREE: numalens_told_free(first); break;
    case NUMALENS_REQUEST_NAME: numalens_tell_text(NUMALENS_NAME, (uint64_t)first, (const char *)second, 0); break;
    }
}

/* For languages that cannot emit the instruction (python/numalens/marks.py). */
EXPORT void numalens_ask(unsigned long what, const char *name) {
    uint64_t bytes = 0;
    if (what >= NUMALENS_REQUEST_START && what <= NUMALENS_REQUEST_MARK && !request(what, name, &bytes)) numalens_hook(what, name, 0);
}
