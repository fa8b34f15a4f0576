// Copies of 48 bytes by one instruction, as compilers copy structures.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    long copies = argc > 1 ? atol(argv[1]) : 1;
    uint64_t from[6] = {1, 2, 3, 4, 5, 6}, to[6], sum = 0;
    for (long i = 0; i < copies; i++) {
        void *source = from, *destination = to;
        long words = 6;
        __asm__ volatile("rep movsq" : "+S"(source), "+D"(destination), "+c"(words) : : "memory");
        sum += to[i % 6];
    }
    printf("%lu\n", sum);
}
