/* The end of a process, and the beginning of a forked one. */
#include "state.h"

extern int fork(void);
extern void _exit(int);
extern void _Exit(int);
extern void quick_exit(int);

#define STATUS_UNKNOWN UINT32_MAX

static void tell_exit(uint32_t status) {
    if (!numalens_connect() || numalens_is_vfork_child()) return;
    numalens_pid();
    if (__atomic_exchange_n(&numalens_process->exiting, 1, __ATOMIC_ACQ_REL)) return;
    numalens_tell_regions();
    numalens_tell_and_wait(NUMALENS_PROCESS_EXIT, status, 1);
}

__attribute__((destructor)) static void end(void) { tell_exit(STATUS_UNKNOWN); }

EXPORT int fork(void) {
    numalens_find_for_children();
    __typeof__(&fork) real = NEXT(fork);
    if (!real) {
        set_errno(ENOSYS_);
        return -1;
    }
    int pid = real();
    if (pid == 0 && numalens_connect()) {
        numalens_process->pid = 0;
        numalens_pid();
        numalens_python_forked();
    }
    return pid;
}

static __attribute__((noreturn)) void leave(void (*real)(int), int status) {
    tell_exit((uint32_t)status);
    if (real) real(status);
    for (;;) sys3(SYS_EXIT_GROUP, status, 0, 0);
}
EXPORT void _exit(int status) { leave(NEXT(_exit), status); }
EXPORT void _Exit(int status) { leave(NEXT(_Exit), status); }
EXPORT void quick_exit(int status) { leave(NEXT(quick_exit), status); }
