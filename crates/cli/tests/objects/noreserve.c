/* 1 TiB that has access and for which the kernel sets nothing aside: 16 MiB are touched, and 8 MiB where something
 * else is mapped. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <string.h>
#include <sys/mman.h>
enum { MIB = 1 << 20 };

int main(void) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    char *heap = (char *)mmap(0, 1ul << 40, PROT_READ | PROT_WRITE, flags | MAP_NORESERVE, -1, 0);
    if (heap == MAP_FAILED) return 1;
    memset(heap + (1ul << 39), 1, 16 * MIB);
    char *piece = (char *)mmap(heap + (1ul << 30), 8 * MIB, PROT_READ | PROT_WRITE, flags | MAP_FIXED, -1, 0);
    memset(piece, 1, 8 * MIB);
    return 0;
}
