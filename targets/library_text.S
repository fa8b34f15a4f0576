/* A shared library of 20 MiB of code: 10240 functions of 2 KiB, as an optimised build of a large library has them.
 *
 * uint64_t f(uint64_t n): mov rax, rdi; nop; 254 times lea rax, [rax + rdi + 1]; ret. The instructions are written as
 * bytes, so that assembling takes no time. Symbol: library, the address of the first function and the bytes of all. */
#define FUNCTIONS 10240
#define BYTES 2048

        .text
        .balign 4096
text:
        .rept   FUNCTIONS
        .byte   0x48, 0x89, 0xf8, 0x66, 0x90            /* mov rax, rdi; nop */
        .fill   254, 8, 0x0000000138848d48              /* lea rax, [rax + rdi + 1] */
        .byte   0xc3, 0xcc, 0xcc                        /* ret, and what is never reached */
        .balign BYTES, 0xcc
        .endr

        .section .data.rel.ro, "aw"
        .balign 8
        .globl  library
        .type   library, @object
        .size   library, 16
library:
        .quad   text
        .quad   FUNCTIONS * BYTES

        .section .note.GNU-stack, "", @progbits
