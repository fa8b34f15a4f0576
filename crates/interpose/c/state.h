/* What the parts of the interposer share. Three kinds of state, by who else may see it:
 *  - the channel: shared with the collector and with every other target process;
 *  - `numalens_process`: this process's own, on a page that the kernel empties in a forked child, so that a child is
 *    told from its parent without a system call, however it was made;
 *  - `numalens_self`: the thread's own, in the static TLS block (initial-exec), which exists from before the thread's
 *    first instruction until after its last destructor. */
#ifndef NUMALENS_STATE_H
#define NUMALENS_STATE_H

#include "../numalens_event.h"
#include "system.h"

#define TLS __thread __attribute__((tls_model("initial-exec")))
#define HIDDEN __attribute__((visibility("hidden")))

struct thread_state {
    int64_t countdown;       /* bytes until the next small allocation is recorded */
    int64_t large_countdown; /* the same for large ones while there is no credit */
    uint64_t mean;           /* that the countdown was drawn with */
    uint64_t random;         /* xorshift state; 0: thread not begun */
    uint32_t nested;         /* within a real function that may call another of its family by name */
    uint64_t made, made_bytes; /* the last block that malloc gave of those that may be told */
    uint64_t ending;         /* the block of an operator delete that is under way, which has been told */
    uint32_t tid, pid;       /* tid holds while pid is the process's */
    uint64_t stack_high;     /* readable from any deeper stack pointer up to here; 0: not known */
    uint64_t stack_window;   /* for stack pointers at most so far below stack_high */
};
extern HIDDEN TLS struct thread_state numalens_self;

struct process_state { uint32_t pid, exiting, lived; /* not merely forked to exec */ };
extern HIDDEN struct process_state *numalens_process;

/* Sizes from here on always take the slow path. 0 until connected, SIZE_MAX when there is nobody to tell. */
extern HIDDEN size_t numalens_large;

/* NULL until connected. */
extern HIDDEN struct numalens_header *numalens_channel;

/* Every block is told, to an agent as well, which has to know whose each address is. */
extern HIDDEN int numalens_every;

/* The program has forbidden itself to read the time stamp counter, which the C library's own clock reads as well. */
extern HIDDEN int numalens_no_counter;
enum { PR_GET_TSC_ = 25, PR_SET_TSC_ = 26, PR_TSC_SIGSEGV_ = 2 };

/* channel.c */
HIDDEN int numalens_connect(void);              /* is there a collector that listens? */
HIDDEN uint32_t numalens_pid(void);             /* of the process that owns this memory; detects a fork */
HIDDEN uint32_t numalens_tid(void);
HIDDEN uint64_t numalens_now(void);
HIDDEN uint64_t numalens_before(void);          /* the same where it costs nothing; else 0 */
HIDDEN void numalens_fork_child(void);
HIDDEN int numalens_is_vfork_child(void);       /* borrowing the parent's memory */
HIDDEN void numalens_may_end(const void *address, uint64_t time); /* a block or mapping: what becomes of it is told with the same time */
HIDDEN int numalens_tell(enum numalens_kind kind, uint64_t time, uint64_t a, uint64_t b, uint64_t c, uint64_t d);
struct wide_record {
    enum numalens_kind kind;
    uint8_t call, flags;
    uint64_t time, operands[4], mean;
    const struct numalens_frame *frames;        /* of a runtime, innermost first, before what follows */
    uint32_t frame_count;
    void *const *frame;                         /* of an exported function: its caller is recorded, with its stack */
    const void *payload; uint32_t payload_bytes; /* or this */
};
HIDDEN int numalens_tell_wide(const struct wide_record *record);
HIDDEN void numalens_tell_and_wait(enum numalens_kind kind, uint64_t status, int wait);

/* environment.c */
HIDDEN int numalens_take_environment(char **channel_path);
#define ENVIRONMENT_ENTRIES 4096
#define PRELOAD_BYTES 1024
struct environment { char preload[PRELOAD_BYTES]; };
HIDDEN size_t numalens_environment_entries(char *const *from); /* room to give to the next; 0: pass `from` as it is */
HIDDEN void numalens_environment_restore(char **environment, char *const *original);
HIDDEN char *const *numalens_environment(char *const *from, char **room, struct environment *text);

HIDDEN int numalens_beside_channel(char *path, size_t room, uint32_t descriptor); /* another of the collector's files */

/* resolve.c: the definition that the program would use if this library were not there. */
HIDDEN void *numalens_next(const char *name);
HIDDEN void *numalens_next_of(const char *name, const void *caller); /* of several, that of a library which the caller's object needs */
HIDDEN void *numalens_next_at_start(const char *name);
HIDDEN void *numalens_anywhere(const char *name); /* a function or variable of any object that is loaded */
struct numalens_definition { const char *name; void *found; int beside_malloc; /* its object defines malloc as well */ int referenced; };
HIDDEN void numalens_next_several(struct numalens_definition *all, int count);
HIDDEN void numalens_find_for_children(void); /* before a fork */
HIDDEN void numalens_find_references(struct numalens_definition *all, int count); /* who of those that are loaded has one in a relocation */
HIDDEN void numalens_withdraw(const char *const *names, int count); /* from what this library defines */
#define NEXT(name) ({ static __typeof__(&name) next_; \
    __typeof__(&name) found_ = __atomic_load_n(&next_, __ATOMIC_RELAXED); \
    if (unlikely(!found_)) { found_ = (__typeof__(&name))numalens_next(#name); __atomic_store_n(&next_, found_, __ATOMIC_RELAXED); } \
    found_; })
HIDDEN void numalens_find_operators(void);
HIDDEN int numalens_is_operator_new(uint64_t address);

/* openmp.c */
HIDDEN void numalens_tell_regions(void);

/* thread.c */
HIDDEN void numalens_tell_placement(uint32_t tid);
HIDDEN void numalens_tell_affinity(int tid); /* as given to sched_setaffinity */

/* policy.c: what the system calls of these names have done */
HIDDEN void numalens_tell_policy(int mode, const unsigned long *nodes, unsigned long bits);
HIDDEN void numalens_tell_mbind(uint64_t begun, uint64_t address, uint64_t n, int mode, const unsigned long *nodes, unsigned long bits, unsigned flags);
HIDDEN void numalens_tell_migrate(uint64_t begun, int pid);
HIDDEN void numalens_tell_move(uint64_t begun, int pid, unsigned long count, const int *nodes);

/* request.c */
HIDDEN void numalens_tell_text(enum numalens_kind kind, uint64_t first, const char *name, int must);
HIDDEN void numalens_phase(unsigned long what, const char *name); /* begins or ends */
/* to the agent: */
HIDDEN uint64_t numalens_born(const void *key, size_t n);         /* the time to tell of it with */
HIDDEN size_t numalens_dies(const void *key, uint64_t *time); /* the same; returns how long it was, 0: not known */
HIDDEN uint64_t numalens_when_moved(void);                     /* by the latest mremap; 0: there is no agent */
HIDDEN uint64_t numalens_leaves(const void *address, size_t n);   /* memory is about to be unmapped: the time to tell of that with */

/* heap.c: blocks that operators have given, or are about to take; those that the program itself tells of */
HIDDEN void numalens_gave(enum numalens_call call, void *address, size_t n, uint64_t before, void *const *frame);
HIDDEN void numalens_takes(void *address);
HIDDEN void numalens_told_alloc(const void *block, size_t n, void *const *frame);
HIDDEN void numalens_told_free(const void *block);
/* An object of a runtime, which has found it worth telling. */
struct told_object {
    uint64_t address, bytes;
    uint64_t mean;   /* bytes between samples, of which it is one; 0: it is none */
    uint64_t around; /* it stands for what lies in so many bytes from its address on, up to the next that is told */
    uint64_t since;  /* what was touched of its memory since then was touched for it */
    const struct numalens_frame *frames; /* that wanted it, innermost first */
    int frame_count;
};
HIDDEN int numalens_told_object(const struct told_object *object);

/* python.c */
HIDDEN void numalens_find_python(void);
HIDDEN void numalens_python_forked(void);
/* The frames of this thread, at most so many, innermost first; 0: none */
HIDDEN int numalens_python_frames(struct numalens_frame *frames, int most);

extern char **environ __attribute__((weak));
extern int *__errno_location(void) __attribute__((weak));
static inline void set_errno(int value) { if (__errno_location) *__errno_location() = value; }
enum { ENOENT_ = 2, EAGAIN_ = 11, ENOMEM_ = 12, ENOSYS_ = 38 };

#endif
