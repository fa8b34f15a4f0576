/* numalens.h: what a program can tell numalens. Header only: there is nothing to link, and the program runs without
 * numalens as before.
 *
 *     #include "numalens.h"                      numalens header > numalens.h
 *
 *     numalens_start();                          with `numalens record --start-paused`: count from here on
 *     numalens_phase_begin("solve");
 *     ...
 *     numalens_phase_end("solve");
 *     numalens_stop();                           count no more
 *
 * C (gcc's dialects) and C++, gcc and clang, any optimization, programs and shared libraries, x86-64 Linux. Elsewhere,
 * and with NUMALENS_DISABLE defined, all of it is empty. Every function may be called by any thread at any time, also
 * in a signal handler.
 *
 * How it works. A call is an instruction that does nothing (a nop of eight bytes with a displacement that no compiler
 * emits), with arguments in registers. The exact engine translates the program and sees it, in static programs too.
 * Then, as nothing has answered: is there the library that numalens preloads? It has the function `numalens_hook`, a
 * weak reference here, null without numalens. So each call costs two nops, a load and a branch that is not taken: a
 * nanosecond. What is told of blocks goes the other way round: to the library, or where there is none, by the nop.
 * No system call is made, so no filter of system calls minds. Static programs under the sample engine cannot be told
 * of: there `numalens ctl` starts and stops.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef NUMALENS_H
#define NUMALENS_H

#include <stddef.h>

enum {
    NUMALENS_REQUEST_START = 1,
    NUMALENS_REQUEST_STOP = 2,
    NUMALENS_REQUEST_BEGIN = 3,
    NUMALENS_REQUEST_END = 4,
    NUMALENS_REQUEST_MARK = 5,
    NUMALENS_REQUEST_MOVED = 6,
    NUMALENS_REQUEST_ALLOC = 7,
    NUMALENS_REQUEST_FREE = 8,
    NUMALENS_REQUEST_NAME = 9,
    /* Between the library that numalens preloads and the exact engine; not for programs. */
    NUMALENS_REQUEST_BORN = 10,
    NUMALENS_REQUEST_DIES = 11,
    NUMALENS_REQUEST_LEAVES = 12,
    NUMALENS_REQUEST_WHEN_MOVED = 13
};

#if defined(__x86_64__) && !defined(__ILP32__) && defined(__linux__) && defined(__GNUC__) && !defined(NUMALENS_DISABLE)

#define NUMALENS_INLINE static __inline__ __attribute__((__always_inline__))

/* nopl 0x616d756e(%rax,%rax,1): `done` is 0 before it, and not 0 after it if the exact engine did what is asked. */
#define NUMALENS_NOP_(done, what, first, second) \
    __asm__ __volatile__(".byte 0x0f, 0x1f, 0x84, 0x00\n\t.long 0x616d756e" \
                         : "+a"(done) : "D"(what), "S"(first), "d"(second) : "memory")

NUMALENS_INLINE unsigned long numalens_ask_(unsigned long what, const void *first, size_t second) {
    unsigned long done = 0;
    NUMALENS_NOP_(done, what, first, second);
    return done;
}

/* Through the global offset table, whatever the code model: else a linker makes it null for good in a program that is
 * not relocated. (Compilers must not believe that the block is read.) */
#define NUMALENS_TELL_(what_, first_, second_) \
    do { \
        const unsigned long numalens_what_ = (what_); \
        const void *numalens_first_ = (first_); \
        size_t numalens_second_ = (second_); \
        void (*numalens_found_)(unsigned long, const void *, size_t); \
        __asm__(".weak numalens_hook\n\t" \
                "{movq numalens_hook@GOTPCREL(%%rip), %0|mov %0, qword ptr numalens_hook@GOTPCREL[rip]}" \
                : "=r"(numalens_found_), "+r"(numalens_first_)); \
        if (__builtin_expect(!!numalens_found_, 0)) numalens_found_(numalens_what_, numalens_first_, numalens_second_); \
        else { \
            unsigned long numalens_done_ = 0; \
            NUMALENS_NOP_(numalens_done_, numalens_what_, numalens_first_, numalens_second_); \
        } \
    } while (0)

NUMALENS_INLINE void numalens_tell_(unsigned long what, const void *first, size_t second) { NUMALENS_TELL_(what, first, second); }

NUMALENS_INLINE void numalens_request_(unsigned long what, const void *first) {
    if (!numalens_ask_(what, first, 0)) numalens_tell_(what, first, 0);
}

#else

#define NUMALENS_INLINE static __inline__
#define NUMALENS_TELL_(what_, first_, second_) ((void)(what_), (void)(first_), (void)(second_))
NUMALENS_INLINE void numalens_tell_(unsigned long what, const void *first, size_t second) { NUMALENS_TELL_(what, first, second); }
NUMALENS_INLINE void numalens_request_(unsigned long what, const void *first) { (void)what; (void)first; }

#endif

/* Accesses are counted from here on, of all threads of all processes of the recording. It counts from the beginning
 * unless it was started with --start-paused. With the exact engine the call returns when the collector has taken note
 * (a millisecond or so): what the calling thread does between numalens_start and numalens_stop is counted, exactly, and
 * nothing else of it; so is what threads do that wait at both. */
NUMALENS_INLINE void numalens_start(void) { numalens_request_(NUMALENS_REQUEST_START, NULL); }

/* Accesses are not counted any more. First touches and placements are followed all the same. */
NUMALENS_INLINE void numalens_stop(void) { numalens_request_(NUMALENS_REQUEST_STOP, NULL); }

/* A phase of the calling thread: a name, of which 120 bytes are kept. They may nest; an end is that of the innermost
 * phase of its name. */
NUMALENS_INLINE void numalens_phase_begin(const char *name) { numalens_request_(NUMALENS_REQUEST_BEGIN, name); }
NUMALENS_INLINE void numalens_phase_end(const char *name) { numalens_request_(NUMALENS_REQUEST_END, name); }

/* Something happens here: a phase without duration. */
NUMALENS_INLINE void numalens_mark(const char *name) { numalens_request_(NUMALENS_REQUEST_MARK, name); }

/* Somebody else has bound threads of this program, or moved pages of it: look again where they are. */
NUMALENS_INLINE void numalens_moved(void) { numalens_request_(NUMALENS_REQUEST_MOVED, NULL); }

/* An allocator of the program's own hands out `bytes` at `block`, which it has carved out of memory that it had
 * (malloc, mmap, static). The block becomes an object, as those of malloc do, with the line and the call stack of this
 * call. Small ones are sampled, as those of malloc are.
 * void numalens_alloc(const void *block, size_t bytes); a macro, so that the line is that of its use. */
#define numalens_alloc(block, bytes) NUMALENS_TELL_(NUMALENS_REQUEST_ALLOC, block, bytes)

/* It is given back, and with it what was carved out of it; of blocks within each other that begin here, the innermost.
 * What the allocator itself gives back (free, munmap) ends the blocks in it. */
NUMALENS_INLINE void numalens_free(const void *block) { numalens_tell_(NUMALENS_REQUEST_FREE, block, 0); }

/* The name of a block that begins at `block`, of numalens_alloc or malloc. Blocks below 64 KiB share an object, and a
 * name, with the others of their call stack. */
NUMALENS_INLINE void numalens_name(const void *block, const char *name) {
#ifdef __cplusplus
    numalens_tell_(NUMALENS_REQUEST_NAME, block, reinterpret_cast<size_t>(name));
#else
    numalens_tell_(NUMALENS_REQUEST_NAME, block, (size_t)name);
#endif
}

#ifdef __cplusplus
/* A phase as long as a scope. */
class numalens_phase {
public:
    explicit numalens_phase(const char *name) : name_(name) { numalens_phase_begin(name_); }
    ~numalens_phase() { numalens_phase_end(name_); }
private:
    numalens_phase(const numalens_phase &);
    numalens_phase &operator=(const numalens_phase &);
    const char *name_;
};
#endif

#endif
