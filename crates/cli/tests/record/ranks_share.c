/* Ranks that share memory, as an MPI window is: ranks_share MEMORY TURN. Rank 0 places it and says so by a pipe, the
 * other reads it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 256, TIMES = 100 };

__attribute__((noinline)) static void write_all(volatile char *memory) {
    for (long page = 0; page < PAGES; page++) memory[page * PAGE] = 1;
}

__attribute__((noinline)) static long read_all(volatile char *memory) {
    long sum = 0;
    for (int time = 0; time < TIMES; time++)
        for (long page = 0; page < PAGES; page++) sum += memory[page * PAGE];
    return sum;
}

int main(int count, char **arguments) {
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    if (count < 3 || !rank) return 2;
    int file = open(arguments[1], O_RDWR), turn = open(arguments[2], atoi(rank) ? O_RDONLY : O_WRONLY);
    char *memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0), byte = 0;
    if (file < 0 || turn < 0 || memory == MAP_FAILED) return 3;
    /* A fault of a page whose neighbours are one block of the file's memory (a large folio) maps them all. Reading
     * ahead makes such blocks: nobody does that here, and each page has a fault of its own. */
    if (madvise(memory, PAGES * PAGE, MADV_RANDOM)) return 3;
    if (!atoi(rank)) {
        write_all(memory);
        return write(turn, &byte, 1) == 1 ? 0 : 4;
    }
    if (read(turn, &byte, 1) != 1) return 5;
    return read_all(memory) == PAGES * TIMES ? 0 : 6;
}
