// Blocks that are written to on the page that their allocator has just touched, and nowhere else.
#include <stdlib.h>

enum { BLOCKS = 4000, BYTES = 4000, TIMES = 40 };

int main() {
    for (int block = 0; block < BLOCKS; block++) {
        volatile char *bytes = (volatile char *)malloc(1 << 18); // EXPECT blocks
        for (int time = 0; time < TIMES; time++)
            for (int i = 0; i < BYTES; i++) bytes[i] = (char)time;
    }
    return 0;
}
