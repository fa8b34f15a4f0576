/* The log of runtimes: the protocol is explained in crates/event/src/runtime_log.rs. */
#include "runtime_log.h"

enum { PROT_RW = 3, MAP_SHARED_NORESERVE = 0x4001, O_RDWR_CLOEXEC = 02 | 02000000 };

static char *mapped; /* NULL: not yet; the log itself afterwards, or `none` */
static char none[1];

static char *map_log(void) {
    char path[64];
    int found = numalens_channel->runtime_log && numalens_beside_channel(path, sizeof path, (uint32_t)numalens_channel->runtime_log);
    long fd = found ? sys3(SYS_OPEN, path, O_RDWR_CLOEXEC, 0) : -1;
    if (fd < 0) return none;
    uint64_t status[18] = {0};
    long failed = sys3(SYS_FSTAT, fd, status, 0), address = -1;
    if (!failed && status[6] >= NUMALENS_RUNTIME_LOG_BYTES)
        address = sys6(SYS_MMAP, 0, (long)NUMALENS_RUNTIME_LOG_BYTES, PROT_RW, MAP_SHARED_NORESERVE, fd, 0);
    sys3(SYS_CLOSE, fd, 0, 0);
    if (address < 0 && address > -4096) return none;
    if (((const uint64_t *)address)[2] == NUMALENS_RUNTIME_LOG_MAGIC) return (char *)address;
    sys3(SYS_MUNMAP, address, NUMALENS_RUNTIME_LOG_BYTES, 0);
    return none;
}

static char *the_log(void) {
    char *log = __atomic_load_n(&mapped, __ATOMIC_ACQUIRE);
    if (likely(log != NULL)) return log;
    char *fresh = map_log(), *before = NULL;
    if (__atomic_compare_exchange_n(&mapped, &before, fresh, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) return fresh;
    if (fresh != none) sys3(SYS_MUNMAP, fresh, NUMALENS_RUNTIME_LOG_BYTES, 0);
    return before;
}

HIDDEN int numalens_log_begin(struct log_record *record, enum numalens_told told, uint64_t bytes) {
    if (!numalens_connect()) return 0;
    char *log = the_log();
    if (log == none) return 0;
    bytes = (bytes + 3 * 8 + 7) & ~UINT64_C(7);
    uint64_t *head = (uint64_t *)log, room = NUMALENS_RUNTIME_LOG_BYTES - NUMALENS_RUNTIME_LOG_START;
    uint64_t at = __atomic_load_n(head, __ATOMIC_RELAXED);
    do {
        if (bytes > room || at > room - bytes) {
            __atomic_fetch_add(head + 1, bytes, __ATOMIC_RELAXED);
            return 0;
        }
    } while (!__atomic_compare_exchange_n(head, &at, at + bytes, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    uint64_t *words = (uint64_t *)(log + NUMALENS_RUNTIME_LOG_START + at);
    *record = (struct log_record){.words = words, .word = (uint64_t)told << 32 | bytes, .end = (char *)words + bytes};
    __atomic_store_n(words, record->word, __ATOMIC_RELEASE);
    words[1] = numalens_pid() | (uint64_t)numalens_tid() << 32;
    words[2] = numalens_now();
    record->at = (char *)(words + 3);
    return 1;
}

HIDDEN void numalens_log_put(struct log_record *record, uint64_t value) {
    if (record->at + 8 > record->end) return;
    *(uint64_t *)record->at = value;
    record->at += 8;
}

HIDDEN void numalens_log_text(struct log_record *record, const char *text, size_t bytes) {
    for (size_t i = 0; i < bytes && record->at < record->end; i++) *record->at++ = text[i];
}

HIDDEN void numalens_log_end(struct log_record *record) {
    __atomic_store_n(record->words, record->word | NUMALENS_PUBLISHED, __ATOMIC_RELEASE);
}

/* Methods that have been told. One that finds no place is told again, but there is an end to that. */
enum { METHODS = 1 << 16, PROBES = 16 };
static uint64_t told_methods[METHODS];

HIDDEN int numalens_is_new_method(uint64_t method) {
    /* A forked child tells its own. */
    method ^= (uint64_t)numalens_pid() << 40;
    if (!method) return 0;
    uint64_t slot = method * UINT64_C(0x9e3779b97f4a7c15) >> 48;
    for (int i = 0; i < PROBES; i++) {
        uint64_t *place = &told_methods[(slot + (uint64_t)i) % METHODS], found = 0;
        if (__atomic_load_n(place, __ATOMIC_RELAXED) == method) return 0;
        if (__atomic_compare_exchange_n(place, &found, method, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return 1;
        if (found == method) return 0;
    }
    static uint32_t again;
    return __atomic_add_fetch(&again, 1, __ATOMIC_RELAXED) < METHODS;
}
