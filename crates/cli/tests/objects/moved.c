// A block that grows is moved with its pages.
#include <stdlib.h>

int main(void) {
    volatile char *block = (char *)malloc(1 << 20);
    for (int i = 0; i < 1 << 20; i += 32) block[i] = 1;
    block = (char *)realloc((void *)block, 4 << 20); // EXPECT grown
    for (int i = 0; i < 4 << 20; i += 32) block[i] = 2;
    return block[64] != 2;
}
