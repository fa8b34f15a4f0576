/* Node.js: has it write the names of the code that it makes.
 *
 * It reads the options of a variable, NODE_OPTIONS, once as it starts, with getenv. There it gets those that the
 * variable has and one more, which has V8 append each function that it compiles to /tmp/perf-PID.map. Whoever reads the
 * variable afterwards, as children and process.env do, gets what it is. Where an option of the kind is there already,
 * nothing is done. The collector reads the file at the end, and takes it away. */
#include "runtime_log.h"

extern char *getenv(const char *name);

#define VARIABLE "NODE_OPTIONS"
#define OPTION "--perf-basic-prof-only-functions"
#define OF_THE_KIND "perf-basic-prof"

static char options[4096];
static int is_asked;

static int contains(const char *text, size_t n, const char *part) {
    size_t bytes = length(part);
    for (size_t i = 0; i + bytes <= n; i++)
        if (begins(text + i, part)) return 1;
    return 0;
}

static int is_on_command_line(void) {
    static char arguments[16384];
    int file = (int)sys3(SYS_OPEN, (long)"/proc/self/cmdline", 0, 0);
    if (file < 0) return 1;
    long n = sys3(SYS_READ, file, (long)arguments, sizeof arguments - 1);
    sys3(SYS_CLOSE, file, 0, 0);
    return n < 0 || contains(arguments, (size_t)n, OF_THE_KIND);
}

/* The options that it has and one more; NULL: they stay as they are. */
static COLD char *extended(const char *theirs) {
    struct log_record record;
    size_t n = theirs ? length(theirs) : 0;
    if (!numalens_anywhere("_ZN4node5StartEiPPc") || !numalens_connect()) return NULL;
    if (n + sizeof OPTION + 1 > sizeof options || (theirs && contains(theirs, n, OF_THE_KIND)) || is_on_command_line()) return NULL;
    if (!numalens_log_begin(&record, NUMALENS_TOLD_PERF_MAP, 0)) return NULL;
    numalens_log_end(&record);
    char *to = options;
    for (size_t i = 0; i < n; i++) *to++ = theirs[i];
    if (n) *to++ = ' ';
    for (const char *from = OPTION; (*to = *from); to++, from++) {}
    return options;
}

EXPORT char *getenv(const char *name) {
    char *theirs = NEXT(getenv) ? NEXT(getenv)(name) : NULL;
    if (likely(!name || name[0] != 'N' || !begins(name, VARIABLE) || name[sizeof VARIABLE - 1])) return theirs;
    if (__atomic_exchange_n(&is_asked, 1, __ATOMIC_RELAXED)) return theirs;
    char *with_ours = extended(theirs);
    return with_ours ? with_ours : theirs;
}
