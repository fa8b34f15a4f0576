// An allocator of the program's own, which carves blocks out of one mapping and tells of them.
#include "numalens.h"
#include <sys/mman.h>

static const long MIB = 1 << 20;

__attribute__((noinline)) static void write_all(char *block, long bytes, int times) {
    for (int i = 0; i < times; i++)
        for (long at = 0; at < bytes; at++) ((volatile char *)block)[at] = (char)i;
}

int main() {
    int access = PROT_READ | PROT_WRITE, kind = MAP_PRIVATE | MAP_ANONYMOUS;
    char *arena = (char *)mmap(nullptr, 8 * MIB, access, kind, -1, 0); // EXPECT arena
    if (arena == MAP_FAILED) return 1;
    // It begins where the arena does.
    char *grid = arena, *halo = arena + MIB, *rest = arena + 2 * MIB;
    numalens_alloc(grid, MIB); // EXPECT grid
    numalens_name(grid, "the grid");
    numalens_alloc(halo, MIB / 2); // EXPECT halo
    write_all(grid, MIB, 3);
    write_all(halo, MIB / 2, 2);
    write_all(rest, MIB, 1);
    numalens_free(grid);
    numalens_alloc(rest + MIB, MIB); // EXPECT later
    write_all(rest + MIB, MIB, 4);
    // A pool that is carved out of it, and a piece of that; what is given back ends both.
    char *pool = rest + 3 * MIB, *piece = pool + MIB / 2;
    numalens_alloc(pool, 2 * MIB); // EXPECT pool
    numalens_alloc(piece, MIB);    // EXPECT piece
    write_all(pool, MIB / 2, 2);
    write_all(piece, MIB, 2);
    write_all(piece + MIB, MIB / 2, 4);
    numalens_free(pool);
    write_all(piece, MIB, 1);
    munmap(arena, 8 * MIB);
    return 0;
}
