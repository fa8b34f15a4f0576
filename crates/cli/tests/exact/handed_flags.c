/* Functions that hand a flag over to who called them, as those of SBCL and Erlang do. Threads execute one for a
 * while before anybody wants its flag: what was translated until then is given up while they are in it. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

/* Says by the carry flag whether a word is below another, and copies one afterwards. */
__asm__("below:\n\tcmp (%rdi), %rsi\n\tmov 8(%rdi), %rax\n\tmov %rax, 16(%rdi)\n\tret\n"
        /* Adds; whoever wants the flag jumps first. */
        "adds:\n\tadd %rsi, %rax\n\tstc\n\tmov %rax, 16(%rdi)\n\tret\n"
        ".globl unasked\nunasked:\n\tcall below\n\tmov 16(%rdi), %rax\n\tret\n"
        ".globl asked\nasked:\n\tcall below\n\tmov 16(%rdi), %rdx\n\tsetc %al\n\tmovzx %al, %eax\n\tret\n"
        ".globl far_off\nfar_off:\n\tmov 8(%rdi), %rax\n\tcall adds\n\tmov 16(%rdi), %rdx\n\tmov $0, %ecx\n\tjrcxz 1f\n\tud2\n"
        "1:\tadc %rdx, %rcx\n\tmov %rcx, %rax\n\tret\n"
        /* Begins in the middle of an unrolled loop, as those of GMP do, with a flag that was set before. */
        ".globl computed\ncomputed:\n\tlea 1f(%rip), %rcx\n\tcmp (%rdi), %rsi\n\tmov 8(%rdi), %rax\n\tjmp *%rcx\n"
        "1:\tadc 8(%rdi), %rax\n\tret\n"
        /* The same on purpose, through a pointer in memory. */
        ".globl pointed\npointed:\n\tlea 1f(%rip), %rcx\n\tmov %rcx, 24(%rdi)\n\tstc\n\tmov 8(%rdi), %rax\n\tjmp *24(%rdi)\n"
        "1:\tadc 8(%rdi), %rax\n\tret\n");
uint64_t unasked(uint64_t *, uint64_t), asked(uint64_t *, uint64_t), far_off(uint64_t *, uint64_t);
uint64_t computed(uint64_t *, uint64_t), pointed(uint64_t *, uint64_t);

static volatile int going = 1;

static void *executes(void *words) {
    uint64_t sum = 0;
    for (uint64_t round = 0; going || round < 1000; round++) sum |= unasked(words, round) ^ ((uint64_t *)words)[1];
    return (void *)sum;
}

int main(void) {
    static uint64_t words[5][512];
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        words[i][1] = i;
        pthread_create(&threads[i], 0, executes, words[i]);
    }
    uint64_t *mine = words[4], sum = 0;
    mine[0] = 50;
    mine[1] = 7;
    for (uint64_t round = 0; round < 100; round++) sum += computed(mine, round);
    printf("%llx\n", (unsigned long long)sum);
    for (uint64_t round = 0; round < 100; round++) sum += pointed(mine, round);
    printf("%llx\n", (unsigned long long)sum);
    for (uint64_t round = 0; round < 100; round++) sum += unasked(mine, round);
    for (uint64_t round = 0; round < 100; round++) sum += asked(mine, round) << 20;
    for (uint64_t round = 0; round < 100; round++) sum += far_off(mine, round) << 40;
    going = 0;
    for (int i = 0; i < 4; i++) {
        void *theirs;
        pthread_join(threads[i], &theirs);
        sum += (uint64_t)theirs;
    }
    printf("%llx\n", (unsigned long long)sum);
    return 0;
}
