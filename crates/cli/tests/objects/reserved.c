/* Addresses that are reserved are no allocation before they have access: 1 TiB here, of which 64 MiB get it, half by
 * mappings over it, as GHC does, half by mprotect in pieces, as Java does. Of what is reserved and moved 8 MiB get
 * it. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
enum { PIECE = 1 << 20, PIECES = 32 };
#define ANONYMOUS (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)

int main(void) {
    char *heap = (char *)mmap(0, 1ul << 40, PROT_NONE, ANONYMOUS, -1, 0);
    if (heap == MAP_FAILED) return 1;
    for (long i = 0; i < PIECES; i++) {
        char *piece = (char *)mmap(heap + i * PIECE, PIECE, PROT_READ | PROT_WRITE, ANONYMOUS | MAP_FIXED, -1, 0);
        memset(piece, 1, PIECE);
    }
    char *rest = heap + (1ul << 39);
    for (long i = 0; i < PIECES; i++) {
        if (mprotect(rest + i * PIECE, PIECE, PROT_READ | PROT_WRITE)) return 1;
        memset(rest + i * PIECE, 1, PIECE);
    }
    /* What has access already is not allocated a second time. */
    if (mprotect(rest, PIECES * PIECE, PROT_READ)) return 1;
    char *moved = (char *)mmap(0, 16 * PIECE, PROT_NONE, ANONYMOUS, -1, 0);
    moved = (char *)mremap(moved, 16 * PIECE, 32 * PIECE, MREMAP_MAYMOVE);
    if (moved == MAP_FAILED || mprotect(moved + 24 * PIECE, 8 * PIECE, PROT_READ | PROT_WRITE)) return 1;
    munmap(moved, 32 * PIECE);
    puts("done");
}
