/* Java's virtual machine: what code it makes, and which large objects.
 *
 * Who starts one looks JNI_CreateJavaVM up by name in libjvm.so. Here it gets a function that calls that one and,
 * before it returns, asks the machine for its own tool interface (JVMTI, which its documentation says may be asked for
 * at any time): no option of the command line and no variable of the environment, which the machine would print. It
 * calls back when a method has been compiled, with methods and bytecodes at each place; when it has made a stub; for
 * sampled allocations, with the Java stack; and around collections. Names and lines go to the log of runtimes, once for
 * each method; objects go the way of heap blocks, so that they come in order with all else.
 *
 * The interface is a table of functions, whose numbers, like those of events and capabilities, are part of its
 * specification: JDK 8 to 25 have the same. Without those of sampled allocations (before JDK 11) objects stay untold.
 *
 *  1. Nothing is asked of the machine within a collection: only memory is read there.
 *  2. An object has the address that its handle leads to. A weak reference keeps track of it: afterwards it is where
 *     that leads. HotSpot's handles are pointers to a pointer, with marks in the lowest bits.
 *  3. Where that pointer is not the address alone (ZGC's have colours), only what no collection moves is told: objects
 *     that have a page of their own. They end where others begin.
 *  4. A thread's allocation buffer has sampling points when it is given to the thread. That of the first thread is
 *     there before any can be asked for, and may be larger than all that a program makes: its first sample stands for
 *     what lies before it as well, from an object on that was made when the interface was asked for. */
#include "runtime_log.h"
#include "../../../include/numalens.h"

typedef void *const **environment; /* a pointer to the pointer to a table of functions */
typedef uint64_t method_id;

/* Functions of the tool interface, of a thread's native interface, and of the machine itself. */
enum { SET_EVENT_NOTIFICATION = 1, DEALLOCATE = 46, CLASS_SIGNATURE = 47, SOURCE_FILE_NAME = 49, METHOD_NAME = 63, DECLARING_CLASS = 64,
       LINE_NUMBERS = 69, STACK_TRACE = 103, SET_CALLBACKS = 121, GENERATE_EVENTS = 122, ADD_CAPABILITIES = 141, SET_SAMPLING_INTERVAL = 155 };
enum { DELETE_LOCAL_REFERENCE = 23, NEW_BYTE_ARRAY = 176, NEW_WEAK_REFERENCE = 226, DELETE_WEAK_REFERENCE = 227 };
enum { GET_ENVIRONMENT = 6 };
/* Events; their callbacks stand in the order of their numbers. */
enum { FIRST_EVENT = 50, COMPILED_METHOD_LOAD = 68, DYNAMIC_CODE_GENERATED = 70, COLLECTION_START = 81,
       COLLECTION_FINISH = 82, SAMPLED_OBJECT_ALLOC = 86, EVENTS_BEHIND = 87 };
/* Capabilities, by their bits. */
#define NAMES (UINT64_C(1) << 11 | UINT64_C(1) << 12 | UINT64_C(1) << 27)
#define COLLECTIONS (UINT64_C(1) << 31)
#define SAMPLED_OBJECTS (UINT64_C(1) << 43)
enum { VERSION_11 = 0x300b0000, VERSION_8 = 0x30010200, ENABLE = 1 };

#define CALL(env, number, ...) ((int (*)())(*(env))[number])(__VA_ARGS__)

/* The phase that a collection is. */
#define COLLECTION "garbage collection"

static environment tools;

static void deallocate(void *memory) {
    if (memory) CALL(tools, DEALLOCATE, tools, memory);
}

struct line { int64_t bytecode; int line; };

static void tell_method(method_id method) {
    if (!method || !numalens_is_new_method(method)) return;
    char *name = NULL, *class_name = NULL, *file = NULL;
    void *class = NULL;
    struct line *lines = NULL;
    int count = 0;
    if (CALL(tools, METHOD_NAME, tools, method, &name, NULL, NULL)) return;
    if (!CALL(tools, DECLARING_CLASS, tools, method, &class)) {
        if (CALL(tools, CLASS_SIGNATURE, tools, class, &class_name, NULL)) class_name = NULL;
        if (CALL(tools, SOURCE_FILE_NAME, tools, class, &file)) file = NULL;
    }
    if (CALL(tools, LINE_NUMBERS, tools, method, &count, &lines)) lines = NULL, count = 0;
    size_t name_bytes = length(name), class_bytes = class_name ? length(class_name) : 0, file_bytes = file ? length(file) : 0;
    struct log_record record;
    if (numalens_log_begin(&record, NUMALENS_TOLD_METHOD, 3 * 8 + (size_t)count * 8 + name_bytes + class_bytes + file_bytes)) {
        numalens_log_put(&record, method);
        numalens_log_put(&record, class_bytes | (uint64_t)name_bytes << 32);
        numalens_log_put(&record, file_bytes | (uint64_t)(uint32_t)count << 32);
        for (int i = 0; i < count; i++) numalens_log_put(&record, (uint32_t)lines[i].bytecode | (uint64_t)(uint32_t)lines[i].line << 32);
        numalens_log_text(&record, class_name, class_bytes);
        numalens_log_text(&record, name, name_bytes);
        numalens_log_text(&record, file, file_bytes);
        numalens_log_end(&record);
    }
    deallocate(name), deallocate(class_name), deallocate(file), deallocate(lines);
}

/* What stands behind the code that was compiled, as jvmticmlr.h has it: where the methods are that were inlined. */
struct places { void *pc; int frames; method_id *methods; int *bytecodes; };
struct compiled { int kind, major, minor; struct compiled *next; int count; struct places *places; };
struct location { void *pc; int64_t bytecode; };
enum { INLINED = 2 };

static void tell_code(method_id method, int bytes, const void *start, const struct compiled *inlined, const struct location *map, int locations) {
    uint64_t count = inlined ? (uint64_t)inlined->count : (uint64_t)locations, words = 4;
    for (uint64_t i = 0; i < count; i++) words += 2 + 2 * (inlined ? (uint64_t)inlined->places[i].frames : 1);
    struct log_record record;
    if (!numalens_log_begin(&record, NUMALENS_TOLD_CODE, words * 8)) return;
    numalens_log_put(&record, (uint64_t)start);
    numalens_log_put(&record, (uint32_t)bytes);
    numalens_log_put(&record, method);
    numalens_log_put(&record, count);
    for (uint64_t i = 0; i < count; i++) {
        const struct places *place = inlined ? &inlined->places[i] : NULL;
        numalens_log_put(&record, (uint64_t)(place ? place->pc : map[i].pc));
        numalens_log_put(&record, place ? (uint64_t)place->frames : 1);
        for (int f = 0; f < (place ? place->frames : 1); f++) {
            numalens_log_put(&record, place ? place->methods[f] : method);
            numalens_log_put(&record, (uint64_t)(int64_t)(place ? place->bytecodes[f] : map[i].bytecode));
        }
    }
    numalens_log_end(&record);
}

static void compiled(environment env, method_id method, int bytes, const void *start, int locations, const struct location *map, const struct compiled *information) {
    (void)env;
    while (information && information->kind != INLINED) information = information->next;
    tell_method(method);
    for (int i = 0; information && i < information->count; i++)
        for (int f = 0; f < information->places[i].frames; f++) tell_method(information->places[i].methods[f]);
    tell_code(method, bytes, start, information, map, locations);
}

static void stub(environment env, const char *name, const void *start, int bytes) {
    (void)env;
    size_t n = name ? length(name) : 0;
    struct log_record record;
    if (!numalens_log_begin(&record, NUMALENS_TOLD_STUB, 3 * 8 + n)) return;
    numalens_log_put(&record, (uint64_t)start);
    numalens_log_put(&record, (uint32_t)bytes);
    numalens_log_put(&record, n);
    numalens_log_text(&record, name, n);
    numalens_log_end(&record);
}

/* Objects that have been told, until they are gone. A place belongs to who has taken it until it says what is there;
 * from then on only collections change it, which are alone. What collections look at lies together. */
enum { OBJECTS = 8192, FRAMES = 24, NAME_BYTES = 64 };
#define STAYS (UINT64_C(4) << 20) /* bytes of what ZGC does not move */
enum state { FREE, TAKEN, LIVES, DEAD };
struct object {
    uint64_t address;
    void *reference;
    uint32_t state;
};
struct known {
    uint64_t bytes, around;
    int frames;
    char class_name[NAME_BYTES];
    struct numalens_frame at[FRAMES];
};
static struct object objects[OBJECTS];
static struct known known[OBJECTS];
static uint32_t first_free, ever_used; /* places behind that were never taken */

static struct known *known_of(const struct object *object) { return &known[object - objects]; }

/* Bytes between samples. A program shows what it is made of as it starts, so they are close together at first; farther
 * apart where there would be more than so many within a tenth of a second, or as half of the places that are left are
 * taken. */
enum { INTERVAL_AT_FIRST = 64 << 10, LARGEST_INTERVAL = 64 << 20, MOST_SAMPLES = 200 };
#define WINDOW_NS UINT64_C(100000000)
/* Between two samples lies hardly ever more than so many times as much: memory behind was given by other threads. */
enum { GAPS = 8 };
static uint32_t interval = INTERVAL_AT_FIRST;
static uint32_t taken, most_taken = OBJECTS / 2, samples_now;
static uint64_t window;

static void sample_less(uint32_t from) {
    if (from >= LARGEST_INTERVAL || !__atomic_compare_exchange_n(&interval, &from, 2 * from, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return;
    CALL(tools, SET_SAMPLING_INTERVAL, tools, (int)(2 * from));
}

static void pace(void) {
    uint64_t now = numalens_now() / WINDOW_NS, before = __atomic_exchange_n(&window, now, __ATOMIC_RELAXED);
    if (before != now) __atomic_store_n(&samples_now, 0, __ATOMIC_RELAXED);
    uint32_t from = __atomic_load_n(&interval, __ATOMIC_RELAXED);
    if (__atomic_add_fetch(&samples_now, 1, __ATOMIC_RELAXED) > MOST_SAMPLES) {
        __atomic_store_n(&samples_now, 0, __ATOMIC_RELAXED);
        sample_less(from);
    }
    uint32_t most = __atomic_load_n(&most_taken, __ATOMIC_RELAXED);
    if (most < OBJECTS && __atomic_load_n(&taken, __ATOMIC_RELAXED) > most
        && __atomic_compare_exchange_n(&most_taken, &most, most + (OBJECTS - most + 1) / 2, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        sample_less(from);
}

static uint64_t address_of(const void *reference) {
    const uint64_t *handle = (const uint64_t *)((uint64_t)reference & ~UINT64_C(7));
    return handle ? *handle : 0;
}

static void leave(struct object *place, enum state state) {
    __atomic_fetch_sub(&taken, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&place->state, state, __ATOMIC_RELEASE);
}

static struct object *take_place(environment jni) {
    uint32_t first = __atomic_load_n(&first_free, __ATOMIC_RELAXED);
    for (uint32_t i = 0; i < OBJECTS; i++) {
        struct object *place = &objects[(first + i) % OBJECTS];
        uint32_t state = __atomic_load_n(&place->state, __ATOMIC_RELAXED);
        if ((state != FREE && state != DEAD) || !__atomic_compare_exchange_n(&place->state, &state, TAKEN, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) continue;
        if (state == DEAD) CALL(jni, DELETE_WEAK_REFERENCE, jni, place->reference);
        __atomic_fetch_add(&taken, 1, __ATOMIC_RELAXED);
        __atomic_store_n(&first_free, (first + i + 1) % OBJECTS, __ATOMIC_RELAXED);
        uint32_t behind = (uint32_t)(place - objects) + 1, used = __atomic_load_n(&ever_used, __ATOMIC_RELAXED);
        while (used < behind && !__atomic_compare_exchange_n(&ever_used, &used, behind, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
        return place;
    }
    return NULL;
}

/* What class names begin to end with whose classes the machine makes: a number and an address, of this run alone
 * (`Trades$$Lambda$15.0x00007faa10043cb0`, `LambdaForm$MH/0x0000000800c03000`). */
static size_t made_up_from(const char *name, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (begins(name + i, "$$Lambda")) return i + sizeof "$$Lambda" - 1;
        if (begins(name + i + 1, "0x") && (name[i] == '.' || name[i] == '/')) return i;
    }
    return n;
}

/* `[Ljava/lang/String;` as a person writes it: `java.lang.String[]`. */
static void class_name(char *to, const char *signature) {
    static const char *const primitive[] = {"Bbyte", "Cchar", "Ddouble", "Ffloat", "Iint", "Jlong", "Sshort", "Zboolean"};
    int dimensions = 0, n = 0;
    while (*signature == '[') signature++, dimensions++;
    const char *text = signature, *end = text + length(text);
    for (size_t i = 0; i < sizeof primitive / sizeof *primitive; i++)
        if (*signature == primitive[i][0] && !signature[1]) text = primitive[i] + 1, end = text + length(text);
    if (*signature == 'L' && end > text + 1) text++, end--;
    end = text + made_up_from(text, (size_t)(end - text));
    while (text < end && n + 2 * dimensions + 1 < NAME_BYTES) to[n++] = *text == '/' ? '.' : *text, text++;
    for (; dimensions && n + 3 < NAME_BYTES; dimensions--) to[n++] = '[', to[n++] = ']';
    to[n] = 0;
}

/* Between two collections memory is given once. */
static uint64_t latest_collection;

/* `mean`: bytes between samples, when it is told for the first time. */
static int tell_object(const struct object *object, uint64_t mean) {
    const struct known *is = known_of(object);
    struct told_object told = {.address = object->address, .bytes = is->bytes, .mean = mean, .around = is->around, .since = latest_collection,
        .frames = is->at, .frame_count = is->frames};
    if (!numalens_told_object(&told)) return 0;
    numalens_tell_text(NUMALENS_NAME, object->address, is->class_name, 0);
    return 1;
}

/* What the first thread's buffer holds of the program is before its first sample: `place` has taken the object that was
 * made before. */
static struct { environment jni; struct object *place; } first_buffer;
#define LARGEST_BUFFER (UINT64_C(4) << 20)

static void begin_first_buffer(environment jni) {
    if (numalens_every) return; /* then a sample stands for itself alone */
    void *made = ((void *(*)())(*jni)[NEW_BYTE_ARRAY])(jni, 0);
    struct object *place = made ? take_place(jni) : NULL;
    if (place) {
        place->reference = ((void *(*)())(*jni)[NEW_WEAK_REFERENCE])(jni, made);
        first_buffer.place = place;
        first_buffer.jni = jni;
    }
    if (made) ((void (*)())(*jni)[DELETE_LOCAL_REFERENCE])(jni, made);
}

/* The memory before a sample of the thread that begin_first_buffer() was called by. A collection may have ended it. */
static void tell_first_buffer(const struct object *sample, uint64_t mean) {
    struct object *place = first_buffer.place;
    struct known *is = known_of(place), *like = known_of(sample);
    first_buffer.jni = NULL;
    place->address = address_of(place->reference);
    uint64_t bytes = sample->address - place->address;
    int is_before = like->frames && place->address && like->bytes < mean && bytes <= LARGEST_BUFFER;
    *is = *like;
    is->around = bytes;
    if (is_before && tell_object(place, bytes)) {
        __atomic_store_n(&place->state, LIVES, __ATOMIC_RELEASE);
    } else {
        leave(place, DEAD);
    }
}

static void sampled(environment env, environment jni, void *thread, void *handle, void *class, int64_t bytes) {
    (void)env, (void)thread;
    if (bytes <= 0 || !numalens_connect()) return;
    pace();
    uint64_t mean = __atomic_load_n(&interval, __ATOMIC_RELAXED);
    struct object *place = take_place(jni);
    if (!place) return;
    struct known *is = known_of(place);
    char *signature = NULL;
    is->bytes = (uint64_t)bytes;
    is->around = is->bytes < mean ? GAPS * mean : is->bytes;
    is->frames = 0;
    is->class_name[0] = 0;
    place->reference = ((void *(*)())(*jni)[NEW_WEAK_REFERENCE])(jni, handle);
    if (CALL(tools, STACK_TRACE, tools, NULL, 0, FRAMES, is->at, &is->frames)) is->frames = 0;
    for (int i = 0; i < is->frames; i++) tell_method(is->at[i].method);
    if (!CALL(tools, CLASS_SIGNATURE, tools, class, &signature, NULL)) class_name(is->class_name, signature);
    deallocate(signature);
    /* A collection may come at any of these calls, and while this thread is here. */
    place->address = address_of(handle);
    if (jni == first_buffer.jni) tell_first_buffer(place, mean);
    int is_tracked = place->reference && address_of(place->reference) == place->address;
    int is_told = is->frames && place->address && (is_tracked || is->bytes >= STAYS) && tell_object(place, mean);
    if (!is_told || !is_tracked) {
        leave(place, place->reference ? DEAD : FREE);
        return;
    }
    for (;;) {
        __atomic_store_n(&place->state, LIVES, __ATOMIC_RELEASE);
        uint64_t now = address_of(place->reference);
        if (now == place->address || !now) return;
        uint32_t mine = LIVES;
        if (!__atomic_compare_exchange_n(&place->state, &mine, TAKEN, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) return;
        numalens_told_free((const void *)place->address);
        place->address = now;
        tell_object(place, 0);
    }
}

static void collection_starts(environment env) {
    (void)env;
    latest_collection = numalens_now();
    numalens_phase(NUMALENS_REQUEST_BEGIN, COLLECTION);
}

/* Objects that have gone or moved first make room for those that have moved. */
static void collection_ends(environment env) {
    (void)env;
    for (int turn = 0; turn < 2; turn++)
        for (struct object *object = objects; object < objects + ever_used; object++) {
            if (__atomic_load_n(&object->state, __ATOMIC_ACQUIRE) != LIVES) continue;
            uint64_t now = address_of(object->reference);
            if (now == object->address) continue;
            if (turn == 0) numalens_told_free((const void *)object->address);
            else if (now) object->address = now, tell_object(object, 0);
            else leave(object, DEAD);
        }
    latest_collection = numalens_now();
    numalens_phase(NUMALENS_REQUEST_END, COLLECTION);
}

static void begin(environment machine, environment jni) {
    environment env = NULL;
    if (!numalens_connect() || tools) return;
    if (CALL(machine, GET_ENVIRONMENT, machine, &env, VERSION_11) && CALL(machine, GET_ENVIRONMENT, machine, &env, VERSION_8)) return;
    uint64_t names[2] = {NAMES}, collections[2] = {COLLECTIONS}, sampling[2] = {SAMPLED_OBJECTS};
    if (CALL(env, ADD_CAPABILITIES, env, names)) return;
    tools = env;
    latest_collection = numalens_now();
    int collects = !CALL(env, ADD_CAPABILITIES, env, collections), samples = !CALL(env, ADD_CAPABILITIES, env, sampling);
    static void *callbacks[EVENTS_BEHIND - FIRST_EVENT] = {
        [COMPILED_METHOD_LOAD - FIRST_EVENT] = compiled,
        [DYNAMIC_CODE_GENERATED - FIRST_EVENT] = stub,
        [COLLECTION_START - FIRST_EVENT] = collection_starts,
        [COLLECTION_FINISH - FIRST_EVENT] = collection_ends,
        [SAMPLED_OBJECT_ALLOC - FIRST_EVENT] = sampled,
    };
    CALL(env, SET_CALLBACKS, env, callbacks, (int)sizeof callbacks);
    if (samples && collects) CALL(env, SET_SAMPLING_INTERVAL, env, INTERVAL_AT_FIRST), begin_first_buffer(jni);
    const int events[] = {COMPILED_METHOD_LOAD, DYNAMIC_CODE_GENERATED, COLLECTION_START, COLLECTION_FINISH, SAMPLED_OBJECT_ALLOC};
    for (size_t i = 0; i < sizeof events / sizeof *events; i++) {
        int wanted = events[i] == SAMPLED_OBJECT_ALLOC ? samples && collects : events[i] < COLLECTION_START || collects;
        if (wanted) CALL(env, SET_EVENT_NOTIFICATION, env, ENABLE, events[i], NULL);
    }
    CALL(env, GENERATE_EVENTS, env, DYNAMIC_CODE_GENERATED);
    CALL(env, GENERATE_EVENTS, env, COMPILED_METHOD_LOAD);
}

static int (*real_create)(environment *, void **, void *);

static int create(environment *machine, void **thread, void *arguments) {
    int failed = real_create(machine, thread, arguments);
    if (!failed && machine && thread) begin(*machine, *thread);
    return failed;
}

/* Who calls is told by the return address, so that the real function is jumped to. */
EXPORT void *dlsym(void *handle, const char *name) {
    static void *(*next)(void *, const char *);
    void *(*real)(void *, const char *) = __atomic_load_n(&next, __ATOMIC_RELAXED);
    if (unlikely(!real)) {
        real = (void *(*)(void *, const char *))numalens_next_at_start("dlsym");
        if (!real) real = (void *(*)(void *, const char *))numalens_next("dlsym");
        if (!real) return NULL;
        __atomic_store_n(&next, real, __ATOMIC_RELAXED);
    }
    static const char wanted[] = "JNI_CreateJavaVM";
    if (likely(!name || !begins(name, wanted) || name[sizeof wanted - 1])) return real(handle, name);
    void *found = real(handle, name);
    if (!found || !numalens_connect()) return found;
    real_create = (int (*)(environment *, void **, void *))found;
    return (void *)create;
}
