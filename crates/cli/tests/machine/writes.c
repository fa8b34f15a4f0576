/* Writes fresh memory, many times. */
#include <stdlib.h>

enum { WORDS = 1 << 17 };

int main(void)
{
    volatile long *memory = malloc(WORDS * sizeof *memory);
    for (int round = 0; round < 4; round++)
        for (int i = 0; i < WORDS; i++)
            memory[i] = i;
    return 0;
}
