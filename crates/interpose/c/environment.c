/* The two variables that bring this library into a process: taken out of the program's sight when it starts, given to
 * its children when they start. */
#include "state.h"

#define CHANNEL "NUMALENS_CHANNEL="
#define PRELOAD "LD_PRELOAD="
/* Has the loader name the libraries of a program, ours among them, and not run it (ldd). */
#define LIST "LD_TRACE_LOADED_OBJECTS="

static char channel_entry[512];  /* NUMALENS_CHANNEL=<channel>:<library> */
static char channel_path[512];
static char library_path[512];
static struct file_identity library_file;

static void remove_entry(char **entry) {
    do entry[0] = entry[1];
    while (*entry++);
}

/* What follows our library in a value of LD_PRELOAD that begins with it; NULL when it does not. */
static char *after_library(char *value) {
    if (!begins(value, library_path)) return NULL;
    char *rest = value + length(library_path);
    return *rest == ':' || *rest == ' ' || !*rest ? rest : NULL;
}

HIDDEN int numalens_take_environment(char **path) {
    char **entry = environ;
    while (*entry && !begins(*entry, CHANNEL)) entry++;
    if (!*entry || length(*entry) >= sizeof channel_entry) return 0;
    for (size_t i = 0; i <= length(*entry); i++) channel_entry[i] = (*entry)[i];
    remove_entry(entry);
    char *to = channel_path, *from = channel_entry + sizeof CHANNEL - 1;
    while (*from && *from != ':') *to++ = *from++;
    *to = 0;
    if (*from != ':') return 0;
    for (to = library_path, from++; (*to = *from); to++, from++) {}
    for (entry = environ; *entry; entry++) {
        if (!begins(*entry, PRELOAD)) continue;
        char *value = *entry + sizeof PRELOAD - 1, *rest = after_library(value);
        if (rest && !*rest) remove_entry(entry);
        else if (rest)
            for (rest++; (*value = *rest); value++, rest++) {}
        break;
    }
    *path = channel_path;
    return file_identity(library_path, &library_file);
}

HIDDEN int numalens_beside_channel(char *path, size_t room, uint32_t descriptor) {
    size_t end = length(channel_path), digits = 1;
    while (end && channel_path[end - 1] != '/') end--;
    for (uint32_t rest = descriptor; rest > 9; rest /= 10) digits++;
    if (!end || end + digits >= room) return 0;
    for (size_t i = 0; i < end; i++) path[i] = channel_path[i];
    path[end + digits] = 0;
    for (; digits; descriptor /= 10) path[end + --digits] = (char)('0' + descriptor % 10);
    return 1;
}

/* A child that starts without the library, which the report says. */
static COLD size_t unpassed(void) {
    __atomic_fetch_add(&numalens_channel->unpassed, 1, __ATOMIC_RELAXED);
    return 0;
}

/* Whether a child that is told about the library will find it: the loader complains loudly about one it cannot load.
 * The path leads through the collector's /proc/PID/fd, which is for its own user and root alone; one who has just
 * ceased to be root may open it still, and no more after the exec that takes the capabilities away. */
static int library_still_there(void) {
    struct file_identity now;
    if (!file_identity(library_path, &now)) return (int)unpassed();
    if (now.device != library_file.device || now.inode != library_file.inode) return 0;
    uint32_t user = (uint32_t)sys3(SYS_GETEUID, 0, 0, 0);
    return user == 0 || user == library_file.owner || unpassed();
}

HIDDEN size_t numalens_environment_entries(char *const *from) {
    if (!numalens_connect() || !library_still_there()) return 0;
    size_t entries = 0;
    for (; from && from[entries]; entries++)
        if (begins(from[entries], LIST)) return 0;
    return entries + 3 <= ENVIRONMENT_ENTRIES ? entries + 3 : unpassed();
}

HIDDEN char *const *numalens_environment(char *const *from, char **room, struct environment *text) {
    const char *theirs = "";
    size_t n = 0;
    for (; from && *from; from++) {
        if (begins(*from, CHANNEL)) continue;
        if (begins(*from, PRELOAD)) {
            char *value = *from + sizeof PRELOAD - 1, *rest = after_library(value);
            theirs = !rest ? value : *rest ? rest + 1 : rest;
            continue;
        }
        room[n++] = *from;
    }
    const char *parts[] = {PRELOAD, library_path, *theirs ? ":" : "", theirs};
    size_t at = 0;
    for (int part = 0; part < 4; part++)
        for (const char *c = parts[part]; *c; c++) {
            if (at + 1 >= sizeof text->preload) {
                unpassed();
                return NULL;
            }
            text->preload[at++] = *c;
        }
    text->preload[at] = 0;
    room[n++] = text->preload;
    room[n++] = channel_entry;
    room[n] = NULL;
    return room;
}

HIDDEN void numalens_environment_restore(char **environment, char *const *original) {
    char *theirs = NULL;
    for (; original && *original; original++)
        if (begins(*original, PRELOAD)) theirs = *original;
    for (char **entry = environment; entry && *entry;) {
        if (*entry == channel_entry) remove_entry(entry);
        else if (begins(*entry, PRELOAD) && after_library(*entry + sizeof PRELOAD - 1)) {
            if (theirs) *entry++ = theirs;
            else remove_entry(entry);
        } else entry++;
    }
}
