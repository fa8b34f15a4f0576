/* Starts and stops the counting by numalens.h, without a C library: what is counted is known to the last access. */
#include "numalens.h"

static volatile long memory[64] __attribute__((aligned(64)));

static __attribute__((noinline)) void work(long reads, long writes) {
    for (long i = 0; i < reads; i++) (void)memory[i & 63];
    for (long i = 0; i < writes; i++) memory[i & 63] = i;
}

void _start(void) {
    work(1000, 10);
    numalens_start();
    work(300, 200);
    numalens_stop();
    work(5000, 7000);
    numalens_stop();
    work(0, 600);
    numalens_start();
    work(0, 70);
    numalens_start();
    work(5, 0);
    numalens_stop();
    work(9, 9);
    __asm__ volatile("syscall" : : "a"(231), "D"(0) : "rcx", "r11", "memory");
    __builtin_unreachable();
}
