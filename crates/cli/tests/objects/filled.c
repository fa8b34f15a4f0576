// Blocks that the allocator fills before it gives them, in fresh memory of its heap.
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

int main(void) {
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    mallopt(M_TOP_PAD, 64 << 20);
    char *small = (char *)malloc(1 << 20);
    memset(small, 1, 1 << 20);
    volatile char *behind = (volatile char *)malloc(1 << 18);
    behind[0] = 1;
    char *copied = (char *)realloc(small, 4 << 20);  // EXPECT copied
    for (long at = 1 << 20; at < 4 << 20; at += 4096) ((volatile char *)copied)[at] = 2;
    char *cleared = (char *)calloc(1, 2 << 20);  // EXPECT cleared
    for (long at = 0; at < 2 << 20; at += 4096) cleared[at] = 1;
    return copied[0] == 1 && cleared[1] == 0 ? 0 : 1;
}
