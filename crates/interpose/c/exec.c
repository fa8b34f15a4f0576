/* Programs that replace or start others: the next program gets the environment that brings the library into it,
 * built on the caller's stack (which in a child of vfork is the parent's), and the collector hears of an exec before
 * the memory goes. */
#include "state.h"

typedef char *const *strings;
extern int execve(const char *, strings, strings);
extern int execvpe(const char *, strings, strings);
extern int execv(const char *, strings);
extern int execvp(const char *, strings);
extern int execl(const char *, const char *, ...);
extern int execlp(const char *, const char *, ...);
extern int execle(const char *, const char *, ...);
extern int fexecve(int, strings, strings);
extern int execveat(int, const char *, strings, strings, int);
extern int posix_spawn(int *, const char *, const void *, const void *, strings, strings);
extern int posix_spawnp(int *, const char *, const void *, const void *, strings, strings);
extern int system(const char *);
extern void *popen(const char *, const char *);

static int absent(void) {
    set_errno(ENOSYS_);
    return -1;
}

static void announce(void) {
    if (!numalens_connect() || numalens_is_vfork_child()) return;
    numalens_pid();
    numalens_tell_regions();
    numalens_tell_and_wait(NUMALENS_EXEC, 0, (int)numalens_process->lived);
}

static int came_back(int result) {
    if (numalens_connect() && !numalens_is_vfork_child())
        numalens_tell(NUMALENS_EXEC_FAILED, numalens_now(), __errno_location ? (uint64_t)*__errno_location() : 0, 0, 0, 0);
    return result;
}

/* Declares `passed`, the environment to give instead of `given`. */
#define ENVIRONMENT(given) \
    size_t entries = numalens_environment_entries(given); \
    struct environment text; \
    char *room[entries ? entries : 1]; \
    strings passed = entries ? numalens_environment(given, room, &text) : NULL; \
    if (!passed) passed = (given)

EXPORT int execve(const char *path, strings arguments, strings environment) {
    __typeof__(&execve) real = NEXT(execve);
    if (!real) return absent();
    ENVIRONMENT(environment);
    announce();
    return came_back(real(path, arguments, passed));
}

EXPORT int execv(const char *path, strings arguments) { return execve(path, arguments, environ); }

EXPORT int execvpe(const char *file, strings arguments, strings environment) {
    __typeof__(&execvpe) real = NEXT(execvpe);
    if (!real) return absent();
    ENVIRONMENT(environment);
    announce();
    return came_back(real(file, arguments, passed));
}

EXPORT int execvp(const char *file, strings arguments) { return execvpe(file, arguments, environ); }

/* The variable arguments as an array on the stack. */
#define ARGUMENTS(first) \
    __builtin_va_list more; \
    size_t count = 1; \
    __builtin_va_start(more, first); \
    if (first) while (__builtin_va_arg(more, const char *)) count++; \
    __builtin_va_end(more); \
    char *arguments[count + 1]; \
    arguments[0] = (char *)first; \
    __builtin_va_start(more, first); \
    for (size_t i = 1; i <= count; i++) arguments[i] = first ? __builtin_va_arg(more, char *) : NULL

EXPORT int execl(const char *path, const char *first, ...) {
    ARGUMENTS(first);
    __builtin_va_end(more);
    return execve(path, arguments, environ);
}

EXPORT int execlp(const char *file, const char *first, ...) {
    ARGUMENTS(first);
    __builtin_va_end(more);
    return execvpe(file, arguments, environ);
}

EXPORT int execle(const char *path, const char *first, ...) {
    ARGUMENTS(first);
    strings environment = __builtin_va_arg(more, strings);
    __builtin_va_end(more);
    return execve(path, arguments, environment);
}

EXPORT int fexecve(int fd, strings arguments, strings environment) {
    __typeof__(&fexecve) real = NEXT(fexecve);
    if (!real) return absent();
    ENVIRONMENT(environment);
    announce();
    return came_back(real(fd, arguments, passed));
}

EXPORT int execveat(int directory, const char *path, strings arguments, strings environment, int flags) {
    __typeof__(&execveat) real = NEXT(execveat);
    if (!real) return absent();
    ENVIRONMENT(environment);
    announce();
    return came_back(real(directory, path, arguments, passed, flags));
}

EXPORT int posix_spawn(int *pid, const char *path, const void *actions, const void *attributes, strings arguments, strings environment) {
    __typeof__(&posix_spawn) real = NEXT(posix_spawn);
    if (!real) return ENOSYS_;
    ENVIRONMENT(environment);
    return real(pid, path, actions, attributes, arguments, passed);
}

EXPORT int posix_spawnp(int *pid, const char *file, const void *actions, const void *attributes, strings arguments, strings environment) {
    __typeof__(&posix_spawnp) real = NEXT(posix_spawnp);
    if (!real) return ENOSYS_;
    ENVIRONMENT(environment);
    return real(pid, file, actions, attributes, arguments, passed);
}

/* system and popen give their child `environ` itself, from inside libc, so for their duration `environ` is an array of
 * ours with the two variables added; one call at a time, others start their child without. The array is static because
 * another thread may be reading it when it is taken away again. */
static char *lent_room[ENVIRONMENT_ENTRIES];
static struct environment lent_text;
static int lent;

static char **lend(void) {
    if (!numalens_connect() || __atomic_exchange_n(&lent, 1, __ATOMIC_ACQ_REL)) return NULL;
    char **original = environ;
    if (numalens_environment_entries(original) && numalens_environment(original, lent_room, &lent_text)) {
        environ = lent_room;
        return original;
    }
    __atomic_store_n(&lent, 0, __ATOMIC_RELEASE);
    return NULL;
}

static void take_back(char **original) {
    if (!original) return;
    if (environ == lent_room) environ = original;
    else numalens_environment_restore(environ, original); /* the program has made a copy meanwhile: setenv */
    __atomic_store_n(&lent, 0, __ATOMIC_RELEASE);
}

EXPORT int system(const char *command) {
    __typeof__(&system) real = NEXT(system);
    if (!real) return absent();
    char **original = command ? lend() : NULL;
    int result = real(command);
    take_back(original);
    return result;
}

EXPORT void *popen(const char *command, const char *mode) {
    __typeof__(&popen) real = NEXT(popen);
    if (!real) {
        absent();
        return NULL;
    }
    char **original = lend();
    void *result = real(command, mode);
    take_back(original);
    return result;
}
