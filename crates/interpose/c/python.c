/* The frames of Python: which function and instruction of each this thread is executing.
 *
 * The interpreter keeps them as a list that begins at the thread's state. Where fields are differs between versions;
 * the table below has what the headers of each say (3.8 to 3.13, compiled with Py_BUILD_CORE). Any other version's are
 * not read. A thread's own state is told by PyGILState_GetThisThreadState, a function of the API that reads a
 * thread-specific value; nothing else of Python is called, and nothing is written. Each code object says itself that it
 * is one; where something else is found, the list ends. A Python that ends has no frames any more.
 *
 * What a function is called and its lines go to the log of runtimes, once for each. */
#include "runtime_log.h"

struct layout {
    uint8_t minor, ascii;                  /* bytes of the header of an ASCII text */
    uint8_t compact;                       /* the same of any other text */
    uint8_t in_thread, through;            /* the innermost frame: in the thread's state, and, where not NONE, in what that points to */
    uint8_t code, back, at, owner;         /* in a frame */
    uint8_t file, name, lines, first_line; /* in a code object */
    uint8_t instructions;                  /* in a code object, where frames point to one; else NONE */
    uint8_t unit;                          /* bytes of what `at` counts */
};
enum { MOST_INSTRUCTIONS = 0xffff /* that a frame tells apart */ };
enum { NONE = 255, OWNED_BY_C = 3, TYPE = 8, LENGTH = 16, STATE = 32, BYTES = 32 };

static const struct layout layouts[] = {
    {8, 48, 72, 24, NONE, 32, 24, 104, NONE, 104, 112, 120, 40, NONE, 1},
    {9, 48, 72, 24, NONE, 32, 24, 104, NONE, 104, 112, 120, 40, NONE, 1},
    {10, 48, 72, 24, NONE, 32, 24, 96, NONE, 104, 112, 120, 40, NONE, 2},
    {11, 48, 72, 56, 8, 32, 48, 56, 69, 112, 128, 136, 72, 184, 1},
    {12, 40, 56, 56, 0, 0, 8, 56, 70, 112, 128, 136, 68, 192, 1},
    {13, 40, 56, 72, NONE, 0, 8, 56, 70, 112, 128, 136, 68, 200, 1},
};

static const struct layout *layout; /* NULL: no Python, or none that is known */
static void *(*thread_state)(void);
static int (*is_initialized)(void); /* not any more, before the states of threads are freed */
static uint64_t code_type;

static uint64_t word(uint64_t address) { return *(const uint64_t *)address; }

static const struct layout *layout_of(const char *version) {
    uint32_t minor = 0;
    if (!version || version[0] != '3' || version[1] != '.') return NULL;
    for (version += 2; *version >= '0' && *version <= '9' && minor < 100; version++) minor = minor * 10 + (uint32_t)(*version - '0');
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (layouts[i].minor == minor) return &layouts[i];
    return NULL;
}

/* When the library joins its process: whoever looks for a symbol later may have to wait for the loader's lock, which a
 * forked child would do for ever. So a Python that a program loads afterwards is not found. */
HIDDEN void numalens_find_python(void) {
    const char *(*version)(void) = (const char *(*)(void))numalens_anywhere("Py_GetVersion");
    if (!version) return;
    thread_state = (void *(*)(void))numalens_anywhere("PyGILState_GetThisThreadState");
    is_initialized = (int (*)(void))numalens_anywhere("Py_IsInitialized");
    code_type = (uint64_t)numalens_anywhere("PyCode_Type");
    const struct layout *found = thread_state && is_initialized && code_type ? layout_of(version()) : NULL;
    __atomic_store_n(&layout, found, __ATOMIC_RELEASE);
}

/* Lines of a code object, as (number of the instruction, line), given to `record`, or counted. An instruction has two
 * bytes, as have what stands between them. */
struct lines { struct log_record *record; uint32_t count; int64_t line; };

static void add_line(struct lines *to, uint64_t offset, int64_t line) {
    if (to->count && line == to->line) return;
    to->line = line;
    to->count++;
    if (to->record) numalens_log_put(to->record, (uint32_t)(offset / 2) | (uint64_t)(uint32_t)line << 32);
}

/* 3.8, 3.9: bytes and lines to the next (Objects/lnotab_notes.txt). 3.10: bytes of each, and its line (PEP 626). */
static void old_lines(struct lines *to, const uint8_t *table, uint64_t n, int64_t line) {
    uint64_t offset = 0;
    if (layout->minor < 10) add_line(to, 0, line);
    for (uint64_t i = 0; i + 1 < n; i += 2) {
        int8_t more = (int8_t)table[i + 1];
        if (layout->minor == 10) {
            if (more != -128) add_line(to, offset, line += more);
            offset += table[i];
        } else {
            offset += table[i];
            if (more) add_line(to, offset, line += more);
        }
    }
}

/* From 3.11 on (Objects/locations.md): a byte says what follows and for how many instructions. */
static void new_lines(struct lines *to, const uint8_t *table, uint64_t n, int64_t line) {
    uint64_t offset = 0;
    for (uint64_t i = 0; i < n;) {
        uint32_t kind = table[i] >> 3 & 15, instructions = (table[i] & 7u) + 1;
        i++;
        if (kind == 13 || kind == 14) {
            uint64_t value = 0;
            for (uint32_t shift = 0; i < n && shift < 60; shift += 6) {
                value |= (uint64_t)(table[i] & 63) << shift;
                if (!(table[i++] & 64)) break;
            }
            line += value & 1 ? -(int64_t)(value >> 1) : (int64_t)(value >> 1);
        } else if (kind >= 10 && kind <= 12) line += kind - 10;
        if (kind != 15) add_line(to, offset, line);
        while (i < n && !(table[i] & 128)) i++;
        offset += instructions * 2;
    }
}

static void lines_of(struct lines *to, uint64_t code) {
    uint64_t table = word(code + layout->lines);
    const uint8_t *bytes = (const uint8_t *)(table + BYTES);
    int64_t first = *(const int32_t *)(code + layout->first_line);
    if (layout->minor <= 10) old_lines(to, bytes, word(table + LENGTH), first);
    else new_lines(to, bytes, word(table + LENGTH), first);
}

/* A text in UTF-8, as far as it is short; returns its bytes. */
enum { MOST_TEXT = 480 };

static size_t text_of(char *to, uint64_t text) {
    uint32_t state = *(const uint32_t *)(text + STATE), kind = state >> 2 & 7, compact = state >> 5 & 1, ascii = state >> 6 & 1;
    uint64_t n = word(text + LENGTH), from = text + (ascii ? layout->ascii : layout->compact);
    size_t used = 0;
    if (!compact) return 0;
    for (uint64_t i = 0; i < n && used + 4 <= MOST_TEXT; i++) {
        uint32_t c = kind == 1 ? ((const uint8_t *)from)[i] : kind == 2 ? ((const uint16_t *)from)[i] : ((const uint32_t *)from)[i];
        uint32_t bytes = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
        static const uint8_t first[] = {0, 0, 0xc0, 0xe0, 0xf0};
        to[used] = (char)(first[bytes] | c >> 6 * (bytes - 1));
        for (uint32_t b = 1; b < bytes; b++) to[used + b] = (char)(0x80 | (c >> 6 * (bytes - 1 - b) & 63));
        used += bytes;
    }
    return used;
}

/* A function by its code, in 47 bits: another one may have its place afterwards. */
static uint64_t id_of(uint64_t code) {
    uint64_t mixed = (code ^ word(code + layout->lines) << 20 ^ *(const uint32_t *)(code + layout->first_line)) * UINT64_C(0x9e3779b97f4a7c15);
    return mixed >> 17 | 1;
}

static void tell_function(uint64_t id, uint64_t code) {
    if (!numalens_is_new_method(id)) return;
    char name[MOST_TEXT], file[MOST_TEXT];
    size_t name_bytes = text_of(name, word(code + layout->name)), file_bytes = text_of(file, word(code + layout->file));
    struct lines counted = {0};
    lines_of(&counted, code);
    struct log_record record;
    if (!numalens_log_begin(&record, NUMALENS_TOLD_METHOD, 3 * 8 + (size_t)counted.count * 8 + name_bytes + file_bytes)) return;
    numalens_log_put(&record, id);
    numalens_log_put(&record, (uint64_t)name_bytes << 32);
    numalens_log_put(&record, file_bytes | (uint64_t)counted.count << 32);
    struct lines written = {.record = &record};
    lines_of(&written, code);
    numalens_log_text(&record, name, name_bytes);
    numalens_log_text(&record, file, file_bytes);
    numalens_log_end(&record);
}

/* For whoever reads the states of threads from outside (crates/collect/src/runtimes/python.rs): once a process. */
static void tell_interpreter(uint64_t state) {
    static uint32_t told_by;
    uint32_t pid = numalens_pid();
    if (likely(__atomic_load_n(&told_by, __ATOMIC_RELAXED) == pid) || __atomic_exchange_n(&told_by, pid, __ATOMIC_RELAXED) == pid) return;
    struct log_record record;
    if (!numalens_log_begin(&record, NUMALENS_TOLD_PYTHON, 3 * 8)) return;
    numalens_log_put(&record, layout->minor);
    numalens_log_put(&record, state);
    numalens_log_put(&record, code_type);
    numalens_log_end(&record);
}

/* The state of this thread; 0: it has none, or there is no Python. */
static uint64_t own_state(void) {
    if (likely(!__atomic_load_n(&layout, __ATOMIC_ACQUIRE)) || !is_initialized()) return 0;
    uint64_t state = (uint64_t)thread_state();
    if (state) tell_interpreter(state);
    return state;
}

/* A forked child may allocate little that is told. */
HIDDEN void numalens_python_forked(void) { own_state(); }

HIDDEN int numalens_python_frames(struct numalens_frame *frames, int most) {
    uint64_t frame = own_state();
    if (!frame) return 0;
    frame = word(frame + layout->in_thread);
    if (frame && layout->through != NONE) frame = word(frame + layout->through);
    int count = 0;
    for (; frame && count < most; frame = word(frame + layout->back)) {
        if (layout->owner != NONE && *(const uint8_t *)(frame + layout->owner) == OWNED_BY_C) continue;
        uint64_t code = word(frame + layout->code);
        if (!code || word(code + TYPE) != code_type) break;
        int64_t at = layout->instructions == NONE ? (int64_t)*(const int32_t *)(frame + layout->at) * layout->unit
                                                  : (int64_t)(word(frame + layout->at) - (code + layout->instructions));
        at = at < 0 ? 0 : at / 2 < MOST_INSTRUCTIONS ? at / 2 : MOST_INSTRUCTIONS;
        uint64_t id = id_of(code);
        tell_function(id, code);
        frames[count++] = (struct numalens_frame){id, at};
    }
    return count;
}
