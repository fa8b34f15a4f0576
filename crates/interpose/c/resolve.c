/* Finding the next definition of a function, without dlsym.
 *
 * dlsym may allocate (so malloc cannot use it to find malloc), lives in libdl before glibc 2.34 (which would have to be
 * linked) and takes the loader's lock. Reading the loaded objects' symbol tables has none of these: dl_iterate_phdr
 * lists the objects in search order, the first one after this library that defines the name has the definition that the
 * program would have used, and of several versions of a name the default one (not hidden) is meant. */
#define _GNU_SOURCE
#include <elf.h>
#include <link.h>
#include "state.h"

extern __typeof__(dl_iterate_phdr) dl_iterate_phdr __attribute__((weak));
extern HIDDEN const ElfW(Ehdr) __ehdr_start;
extern HIDDEN ElfW(Dyn) _DYNAMIC[];

struct search {
    const char *name;
    uint64_t caller;    /* look only in what this code's object needs; 0: everywhere */
    const char *needed; /* the library that is looked for, by the name that the caller's object has for it */
    int first;          /* look only in so many objects; 0: in all */
    int objects, after_this;
    void *found;
    size_t size;
};

static int same(const char *a, const char *b) {
    while (*a && *a == *b) a++, b++;
    return *a == *b;
}

struct tables { const ElfW(Sym) *symbols; const char *strings; const ElfW(Half) *versions; const uint32_t *gnu; const uint32_t *hash; };

static const ElfW(Sym) *usable(const struct tables *t, uint32_t index, const char *name) {
    const ElfW(Sym) *symbol = t->symbols + index;
    unsigned type = symbol->st_info & 15;
    if (symbol->st_shndx == SHN_UNDEF || (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE && type != STT_OBJECT)) return NULL;
    if (t->versions && t->versions[index] & 0x8000) return NULL;
    return same(t->strings + symbol->st_name, name) ? symbol : NULL;
}

static const ElfW(Sym) *look_up(const struct tables *t, const char *name) {
    if (t->gnu) {
        uint32_t hash = 5381;
        for (const char *c = name; *c; c++) hash = hash * 33 + (unsigned char)*c;
        uint32_t buckets = t->gnu[0], first = t->gnu[1], bloom = t->gnu[2];
        const uint32_t *bucket = (const uint32_t *)((const ElfW(Addr) *)(t->gnu + 4) + bloom);
        uint32_t index = buckets ? bucket[hash % buckets] : 0;
        for (; index >= first && index; index++) {
            uint32_t chained = bucket[buckets + index - first];
            if ((chained | 1) == (hash | 1)) {
                const ElfW(Sym) *symbol = usable(t, index, name);
                if (symbol) return symbol;
            }
            if (chained & 1) break;
        }
    } else if (t->hash) {
        for (uint32_t index = 1; index < t->hash[1]; index++) {
            const ElfW(Sym) *symbol = usable(t, index, name);
            if (symbol) return symbol;
        }
    }
    return NULL;
}

/* The soname of an object; NULL where it has none. */
static const char *own_name(const ElfW(Dyn) *dynamic, const char *strings) {
    for (; dynamic->d_tag != DT_NULL; dynamic++)
        if (dynamic->d_tag == DT_SONAME) return strings + dynamic->d_un.d_val;
    return NULL;
}

static struct tables tables_of(const ElfW(Dyn) *entry, ElfW(Addr) base) {
    struct tables t = {0};
    for (; entry->d_tag != DT_NULL; entry++) {
        /* glibc relocates these in place, musl and the vdso's do not. */
        ElfW(Addr) at = entry->d_un.d_ptr;
        const void *address = (const void *)(at < base ? at + base : at);
        if (entry->d_tag == DT_SYMTAB) t.symbols = address;
        if (entry->d_tag == DT_STRTAB) t.strings = address;
        if (entry->d_tag == DT_VERSYM) t.versions = address;
        if (entry->d_tag == DT_GNU_HASH) t.gnu = address;
        if (entry->d_tag == DT_HASH) t.hash = address;
    }
    return t;
}

/* Whether an object is this library; its dynamic section. */
static int is_this(const struct dl_phdr_info *object, const ElfW(Dyn) **dynamic) {
    int found = 0;
    *dynamic = NULL;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = object->dlpi_phdr + i;
        ElfW(Addr) start = object->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_DYNAMIC) *dynamic = (const ElfW(Dyn) *)start;
        if (segment->p_type == PT_LOAD && (ElfW(Addr))&__ehdr_start - start < segment->p_memsz) found = 1;
    }
    return found;
}

static void *address_of(const ElfW(Sym) *symbol, ElfW(Addr) base) {
    void *address = (void *)(base + symbol->st_value);
    return (symbol->st_info & 15) == STT_GNU_IFUNC ? ((void *(*)(void))address)() : address;
}

static int visit(struct dl_phdr_info *object, size_t size, void *data) {
    (void)size;
    struct search *search = data;
    if (search->first && search->objects++ >= search->first) return 1;
    const ElfW(Dyn) *dynamic;
    if (is_this(object, &dynamic)) {
        search->after_this = 1;
        return 0;
    }
    if (!search->after_this || !dynamic) return 0;
    struct tables t = tables_of(dynamic, object->dlpi_addr);
    if (!t.symbols || !t.strings) return 0;
    if (search->needed) {
        const char *name = own_name(dynamic, t.strings);
        if (!name || !same(name, search->needed)) return 0;
    }
    const ElfW(Sym) *symbol = look_up(&t, search->name);
    if (!symbol) return 0;
    search->found = address_of(symbol, object->dlpi_addr);
    search->size = symbol->st_size;
    return 1;
}

/* What a forked child of a program with threads may call first: another thread may have had the loader's lock when
 * it was forked, and has it in the child for ever. So all are found before the first fork. */
static struct numalens_definition children_call[] = {
    {.name = "malloc"}, {.name = "calloc"}, {.name = "realloc"}, {.name = "free"}, {.name = "posix_memalign"}, {.name = "aligned_alloc"}, {.name = "memalign"},
    {.name = "valloc"}, {.name = "pvalloc"}, {.name = "mmap"}, {.name = "mmap64"}, {.name = "munmap"}, {.name = "mremap"}, {.name = "fork"}, {.name = "execve"},
    {.name = "execvpe"}, {.name = "fexecve"}, {.name = "execveat"}, {.name = "posix_spawn"}, {.name = "posix_spawnp"}, {.name = "system"}, {.name = "popen"},
    {.name = "_exit"}, {.name = "_Exit"}, {.name = "quick_exit"}, {.name = "set_mempolicy"}, {.name = "mbind"}, {.name = "migrate_pages"},
    {.name = "move_pages"}, {.name = "prctl"}, {.name = "syscall"}, {.name = "pthread_attr_getstacksize"}, {.name = "gnu_get_libc_version"},
    {.name = "pthread_create"}, {.name = "sched_setaffinity"}, {.name = "pthread_setaffinity_np"}, {.name = "clock_gettime"},
    {.name = "mprotect"}, {.name = "pkey_mprotect"}, {.name = "dlsym"},
};
enum { CHILDREN_CALL = sizeof children_call / sizeof *children_call };
static int children_can_call;

HIDDEN void numalens_find_for_children(void) {
    if (__atomic_load_n(&children_can_call, __ATOMIC_ACQUIRE)) return;
    numalens_next_several(children_call, CHILDREN_CALL);
    __atomic_store_n(&children_can_call, 1, __ATOMIC_RELEASE);
}

HIDDEN void *numalens_next(const char *name) {
    int known = __atomic_load_n(&children_can_call, __ATOMIC_ACQUIRE) ? CHILDREN_CALL : 0;
    for (int i = 0; i < known; i++)
        if (children_call[i].found && same(children_call[i].name, name)) return children_call[i].found;
    struct search search = {.name = name};
    if (dl_iterate_phdr) dl_iterate_phdr(visit, &search);
    return search.found;
}

/* The same by the loader's own list: without a lock, and past sanitizers, whose dl_iterate_phdr cannot be called before
 * they have begun. Only while nothing is loaded or unloaded: NULL where there is no such list (musl). */
extern struct r_debug _r_debug __attribute__((weak));

HIDDEN void *numalens_next_at_start(const char *name) {
    int after_this = 0;
    for (const struct link_map *map = &_r_debug ? _r_debug.r_map : NULL; map; map = map->l_next) {
        if (map->l_ld == _DYNAMIC) after_this = 1;
        else if (after_this && map->l_ld) {
            struct tables t = tables_of(map->l_ld, map->l_addr);
            const ElfW(Sym) *symbol = t.symbols && t.strings ? look_up(&t, name) : NULL;
            if (symbol) return address_of(symbol, map->l_addr);
        }
    }
    return NULL;
}

HIDDEN void *numalens_anywhere(const char *name) {
    struct search search = {.name = name, .after_this = 1};
    if (dl_iterate_phdr) dl_iterate_phdr(visit, &search);
    return search.found;
}

struct several { struct numalens_definition *all; int count, after_this; };

static int visit_several(struct dl_phdr_info *object, size_t size, void *data) {
    (void)size;
    struct several *several = data;
    const ElfW(Dyn) *dynamic;
    if (is_this(object, &dynamic)) {
        several->after_this = 1;
        return 0;
    }
    if (!several->after_this || !dynamic) return 0;
    struct tables t = tables_of(dynamic, object->dlpi_addr);
    if (!t.symbols || !t.strings) return 0;
    int left = 0;
    for (int i = 0; i < several->count; i++) {
        struct numalens_definition *one = &several->all[i];
        if (one->found) continue;
        const ElfW(Sym) *symbol = look_up(&t, one->name);
        if (symbol) {
            one->found = address_of(symbol, object->dlpi_addr);
            one->beside_malloc = look_up(&t, "malloc") != NULL;
        } else {
            left++;
        }
    }
    return !left;
}

/* In one pass: the loader's lock and its list are there once. */
HIDDEN void numalens_next_several(struct numalens_definition *all, int count) {
    struct several several = {.all = all, .count = count};
    if (dl_iterate_phdr) dl_iterate_phdr(visit_several, &several);
}

/* Whether an object refers to any of them. By its relocations: what it does not define need not be in its hash
 * table. */
static int visit_references(struct dl_phdr_info *object, size_t size, void *data) {
    (void)size;
    struct several *several = data;
    const ElfW(Dyn) *dynamic;
    if (is_this(object, &dynamic) || !dynamic) return 0;
    struct tables t = tables_of(dynamic, object->dlpi_addr);
    const ElfW(Rela) *tables[2] = {NULL, NULL};
    size_t bytes[2] = {0, 0}, relative = 0;
    for (const ElfW(Dyn) *entry = dynamic; entry->d_tag != DT_NULL; entry++) {
        ElfW(Addr) at = entry->d_un.d_ptr;
        const void *address = (const void *)(at < object->dlpi_addr ? at + object->dlpi_addr : at);
        if (entry->d_tag == DT_RELA) tables[0] = address;
        if (entry->d_tag == DT_RELASZ) bytes[0] = entry->d_un.d_val;
        if (entry->d_tag == DT_RELACOUNT) relative = entry->d_un.d_val;
        if (entry->d_tag == DT_JMPREL) tables[1] = address;
        if (entry->d_tag == DT_PLTRELSZ) bytes[1] = entry->d_un.d_val;
    }
    for (int table = 0; t.symbols && t.strings && table < 2; table++) {
        for (size_t i = table ? 0 : relative; tables[table] && i < bytes[table] / sizeof(ElfW(Rela)); i++) {
            const ElfW(Sym) *symbol = t.symbols + ELF64_R_SYM(tables[table][i].r_info);
            const char *name = t.strings + symbol->st_name;
            if (name[0] != '_' || name[1] != 'Z' || (name[2] != 'n' && name[2] != 'd')) continue;
            for (int which = 0; which < several->count; which++)
                if (same(name, several->all[which].name)) several->all[which].referenced = 1;
        }
    }
    return 0;
}

HIDDEN void numalens_find_references(struct numalens_definition *all, int count) {
    struct several several = {.all = all, .count = count};
    if (dl_iterate_phdr) dl_iterate_phdr(visit_references, &several);
}

/* No loader binds anybody to a local symbol, and one byte makes it one: whoever looks it up meanwhile finds it as it
 * was or not at all. */
HIDDEN COLD void numalens_withdraw(const char *const *names, int count) {
    enum { PROT_R = 1, PROT_RW = 3 };
    struct tables t = tables_of(_DYNAMIC, (ElfW(Addr))&__ehdr_start);
    const ElfW(Phdr) *segment = (const ElfW(Phdr) *)((const char *)&__ehdr_start + __ehdr_start.e_phoff);
    ElfW(Addr) end = 0;
    for (int i = 0; i < __ehdr_start.e_phnum; i++, segment++) {
        ElfW(Addr) start = (ElfW(Addr))&__ehdr_start + segment->p_vaddr;
        if (segment->p_type == PT_LOAD && (ElfW(Addr))t.symbols - start < segment->p_memsz && segment->p_flags == PF_R) end = start + segment->p_memsz;
    }
    ElfW(Addr) from = end, to = 0;
    for (int i = 0; i < count; i++) {
        ElfW(Addr) at = (ElfW(Addr))look_up(&t, names[i]);
        if (at && at < from) from = at;
        if (at > to) to = at;
    }
    if (!to || from >= end) return;
    from &= -(ElfW(Addr))NUMALENS_PAGE;
    size_t bytes = to + sizeof(ElfW(Sym)) - from;
    if (sys3(SYS_MPROTECT, from, bytes, PROT_RW)) return;
    for (int i = 0; i < count; i++) {
        const ElfW(Sym) *symbol = look_up(&t, names[i]);
        if (symbol) __atomic_store_n((unsigned char *)&symbol->st_info, ELF64_ST_INFO(STB_LOCAL, STT_FUNC), __ATOMIC_RELAXED);
    }
    sys3(SYS_MPROTECT, from, bytes, PROT_R);
}

/* Tries what the caller's object needs, one library after the other. */
static int visit_caller(struct dl_phdr_info *object, size_t size, void *data) {
    (void)size;
    struct search *search = data;
    const ElfW(Dyn) *dynamic = NULL;
    const char *strings = NULL;
    int is_caller = 0;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = object->dlpi_phdr + i;
        ElfW(Addr) start = object->dlpi_addr + segment->p_vaddr;
        if (segment->p_type == PT_DYNAMIC) dynamic = (const ElfW(Dyn) *)start;
        if (segment->p_type == PT_LOAD && search->caller - start < segment->p_memsz) is_caller = 1;
    }
    if (!is_caller || !dynamic) return 0;
    for (const ElfW(Dyn) *entry = dynamic; entry->d_tag != DT_NULL; entry++) {
        ElfW(Addr) at = entry->d_un.d_ptr;
        if (entry->d_tag == DT_STRTAB) strings = (const char *)(at < object->dlpi_addr ? at + object->dlpi_addr : at);
    }
    for (const ElfW(Dyn) *entry = dynamic; strings && !search->found && entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag != DT_NEEDED) continue;
        struct search within = {.name = search->name, .needed = strings + entry->d_un.d_val};
        dl_iterate_phdr(visit, &within);
        search->found = within.found;
    }
    return 1;
}

/* Objects that are there from the beginning: everybody's names are looked for in them first. (So they are in what
 * dlopen makes global, later and hardly ever; that is not followed.) */
static int from_the_beginning;

static int count(struct dl_phdr_info *object, size_t size, void *data) {
    (void)object, (void)size;
    ++*(int *)data;
    return 0;
}

__attribute__((constructor)) static void begin(void) {
    if (dl_iterate_phdr) dl_iterate_phdr(count, &from_the_beginning);
}

HIDDEN void *numalens_next_of(const char *name, const void *caller) {
    struct search search = {.name = name, .caller = (uint64_t)caller, .first = from_the_beginning};
    if (!dl_iterate_phdr) return NULL;
    if (search.first) dl_iterate_phdr(visit, &search);
    if (!search.found) dl_iterate_phdr(visit_caller, &search);
    return search.found ? search.found : numalens_next(name);
}

/* Where operator new stands, to tell `new` from `malloc` by the caller's address: those that call malloc are not
 * told themselves (operators.c). */
enum { OPERATORS = 8 };
static struct { uint64_t start, end; } operators[OPERATORS];

HIDDEN COLD void numalens_find_operators(void) {
    static const char *const names[OPERATORS] = {"_Znwm", "_ZnwmSt11align_val_t", "_ZnwmRKSt9nothrow_t", "_ZnwmSt11align_val_tRKSt9nothrow_t",
        "_Znam", "_ZnamSt11align_val_t", "_ZnamRKSt9nothrow_t", "_ZnamSt11align_val_tRKSt9nothrow_t"};
    for (int i = 0; i < OPERATORS; i++) {
        struct search search = {.name = names[i]};
        if (dl_iterate_phdr) dl_iterate_phdr(visit, &search);
        operators[i].start = (uint64_t)search.found;
        operators[i].end = (uint64_t)search.found + search.size;
    }
}

HIDDEN int numalens_is_operator_new(uint64_t address) {
    for (int i = 0; i < OPERATORS; i++)
        if (address > operators[i].start && address <= operators[i].end) return 1;
    return 0;
}
