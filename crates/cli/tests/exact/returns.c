/* Returns that compilers do not make: off a stack that cannot be written (in a program that handles faults, whose
 * are others, and in one that does not), by `ret n`, to an address that nobody called from, into the middle of a
 * function with flags that are looked at, and from calls that are longjmped over. */
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static void fault(int signal) { _exit(3 + signal); }

static uint64_t read_only(int handled) {
    stack_t other = {.ss_sp = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), .ss_size = 65536};
    struct sigaction action = {.sa_handler = fault, .sa_flags = SA_ONSTACK};
    sigaltstack(&other, 0);
    if (handled) sigaction(SIGSEGV, &action, 0);
    uint64_t *stack = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), sum = 0;
    for (int round = 0; round < 3; round++) {
        mprotect(stack, 4096, PROT_READ | PROT_WRITE);
        uint64_t kept = 0, rax = 11, rdx = 13;
        __asm__ volatile("lea 1f(%%rip), %%rcx\n\tmov %%rcx, (%[stack])\n\t" : : [stack] "r"(stack) : "rcx", "memory");
        mprotect(stack, 4096, PROT_READ);
        __asm__ volatile("mov %%rsp, %[kept]\n\tmov %[stack], %%rsp\n\tmov $17, %%ecx\n\tret\n"
                         "1:\tmov %[kept], %%rsp\n\tadd %%rcx, %%rax\n\tadd %%rdx, %%rax\n\t"
                         : [kept] "=&r"(kept), "+a"(rax), "+d"(rdx)
                         : [stack] "r"(stack)
                         : "rcx", "memory", "cc");
        sum += rax;
    }
    return sum;
}

__asm__(".globl pops\npops:\n\tmov 8(%rsp), %rax\n\tadd 16(%rsp), %rax\n\tret $16\n"
        ".globl in_the_middle\nin_the_middle:\n\tlea 1f(%rip), %rax\n\tpush %rax\n\tcmp %rsi, %rdi\n\tret\n\tud2\n"
        "1:\tseta %al\n\tmovzx %al, %eax\n\tret\n");
uint64_t in_the_middle(uint64_t, uint64_t);

static jmp_buf out;
__attribute__((noinline)) static int down(int depth) {
    if (!depth) longjmp(out, 1);
    return down(depth - 1) + depth;
}

int main(int count, char **arguments) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t got;
        __asm__ volatile("push %[a]\n\tpush %[b]\n\tcall pops\n\t" : "=&a"(got) : [a] "r"(i), [b] "r"(2 * i) : "memory", "cc");
        sum += got + in_the_middle(i, 500);
        if (!setjmp(out)) sum += down(i % 40);
    }
    printf("%lu %lu\n", (unsigned long)sum, (unsigned long)read_only(count < 2));
}
