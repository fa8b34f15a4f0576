/* A thread whose FS goes to and fro between two pages, by the instruction and by system calls, and code elsewhere
 * that accesses them by it: the same instructions go to the page that FS points to at the time. Says where the pages
 * are, and how often each was accessed. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t pages[2][512] __attribute__((aligned(4096)));

__asm__("touch:\n\taddq $1, %fs:0x10\n\tmov %fs:0x18, %rax\n\tadd %fs:0x20(,%rax,8), %rax\n\tret\n"
        ".globl by_instruction\nby_instruction:\n\trdfsbase %r8\n"
        "1:\twrfsbase %rdi\n\tcall touch\n\tmov %fs:0x28, %rax\n\twrfsbase %rsi\n\tcall touch\n\tcall touch\n\tdec %rdx\n\tjnz 1b\n"
        "\twrfsbase %r8\n\tret\n"
        /* r12, r13: where to; r14: how often. */
        ".globl by_call\nby_call:\n\tpush %r12\n\tpush %r13\n\tpush %r14\n\tpush %r15\n\trdfsbase %r15\n"
        "\tmov %rdi, %r12\n\tmov %rsi, %r13\n\tmov %rdx, %r14\n"
        "1:\tmov $158, %eax\n\tmov $0x1002, %edi\n\tmov %r12, %rsi\n\tsyscall\n\tcall touch\n"
        "\tmov $158, %eax\n\tmov $0x1002, %edi\n\tmov %r13, %rsi\n\tsyscall\n\tcall touch\n\tdec %r14\n\tjnz 1b\n"
        "\twrfsbase %r15\n\tpop %r15\n\tpop %r14\n\tpop %r13\n\tpop %r12\n\tret\n");
void by_instruction(uint64_t *, uint64_t *, uint64_t), by_call(uint64_t *, uint64_t *, uint64_t);

int main(int count, char **arguments) {
    uint64_t rounds = count > 1 ? strtoull(arguments[1], 0, 10) : 1000;
    by_instruction(pages[0], pages[1], rounds);
    by_call(pages[1], pages[0], rounds / 10);
    uint64_t first = rounds + rounds / 10, second = 2 * rounds + rounds / 10;
    printf("%llu %llu %llu\n", (unsigned long long)pages[0] >> 12, (unsigned long long)(3 * first + rounds), (unsigned long long)first);
    printf("%llu %llu %llu\n", (unsigned long long)pages[1] >> 12, (unsigned long long)(3 * second), (unsigned long long)second);
    return 0;
}
