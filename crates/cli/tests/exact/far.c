/* Returns that take more than an address off the stack, within 64-bit code: `iretq` with flags and a stack of its own,
 * `iretl`, `lretq`,
 * `lretl`, `lretq n`; with a frame that is not there, and to a segment that is none. */
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static sigjmp_buf out;
static uint64_t where;
static int code;
static void fault(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    where = (uint64_t)info->si_addr, code = info->si_code;
    siglongjmp(out, 1);
}

static uint64_t interrupt(uint64_t flags, uint64_t *stack) {
    uint64_t got, kept;
    __asm__ volatile("mov %%rsp, %[kept]\n\tmov %%ss, %%ecx\n\tpush %%rcx\n\tpush %[stack]\n\tpush %[flags]\n\t"
        "mov %%cs, %%ecx\n\tpush %%rcx\n\t"
                     "lea 1f(%%rip), %%rcx\n\tpush %%rcx\n\tiretq\n\tud2\n1:\tpushfq\n\tpop %[got]\n\t"
                     "mov %[kept], %%rsp"
                     : [got] "=&r"(got), [kept] "=&r"(kept)
                     : [stack] "r"(stack), [flags] "r"(flags)
                     : "rcx", "memory", "cc");
    return got;
}

static uint64_t far(void) {
    uint64_t sum = 0, kept;
    __asm__ volatile("mov %%rsp, %[kept]\n\tmov %%cs, %%ecx\n\tpush $7\n\tpush %%rcx\n\tlea 1f(%%rip), %%rcx\n\t"
        "push %%rcx\n\tlretq\n\tud2\n"
                     "1:\tpop %%rcx\n\tadd %%rcx, %[sum]\n\tpush $9\n\tpush $8\n\tmov %%cs, %%ecx\n\tpush %%rcx\n\t"
                     "lea 2f(%%rip), %%rcx\n\tpush %%rcx\n\t"
                     "lretq $8\n\tud2\n2:\tpop %%rcx\n\tadd %%rcx, %[sum]\n\tmov %[kept], %%rsp"
                     : [sum] "+r"(sum), [kept] "=&r"(kept) : : "rcx", "memory", "cc");
    return sum;
}

/* Words of 32 bits: code and stack lie low. */
static uint64_t narrow(char *low) {
    static const unsigned char text[] = {0x48, 0x89, 0xe0, 0x48, 0x89, 0xfc, 0xcb};                   /* mov rax,
        rsp; mov rsp, rdi; retf */
    static const unsigned char back[] = {0x48, 0x89, 0xc4, 0xb8, 0x2a, 0, 0, 0, 0xc3};                /* mov rsp,
        rax; mov eax, 42; ret */
    static const unsigned char iret[] = {0x48, 0x89, 0xe0, 0x48, 0x89, 0xfc,
        0xcf};                   /* the same with iretd */
    uint32_t *frame = (uint32_t *)(low + 2048);
    memcpy(low, text, sizeof text), memcpy(low + 64, back, sizeof back), memcpy(low + 128, iret, sizeof iret);
    frame[0] = (uint32_t)(uintptr_t)(low + 64), frame[1] = 0x33;
    uint64_t sum = ((uint64_t (*)(void *))low)(frame);
    frame[2] = 0x202, frame[3] = (uint32_t)(uintptr_t)frame, frame[4] = 0x2b;
    return sum + ((uint64_t (*)(void *))(low + 128))(frame);
}

static void faults(uint64_t segment, uint64_t *stack) {
    if (!sigsetjmp(out, 1)) {
        uint64_t kept;
        __asm__ volatile("mov %%rsp, %[kept]\n\tpush %[segment]\n\tlea 1f(%%rip), %%rcx\n\tpush %%rcx\n\t"
            "test %[stack], %[stack]\n\tcmovnz %[stack], %%rsp\n\t"
                         "lretq\n1:\tmov %[kept], %%rsp" : [kept] "=&r"(kept) : [segment] "r"(segment),
                         [stack] "r"(stack) : "rcx", "memory", "cc");
    }
    /* Which word of a frame they read first is the processors' choice. */
    printf("fault %d at %lx\n", code, (unsigned long)where & ~0xffful);
}

int main(int count, char **arguments) {
    uint64_t *stack = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *low = mmap((void *)0x20000000, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct sigaction action = {.sa_sigaction = fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    stack_t other = {.ss_sp = malloc(65536), .ss_size = 65536};
    sigaltstack(&other, 0), sigaction(SIGSEGV, &action, 0);
    if (count > 1) {
        /* To 32-bit code. */
        fflush(stdout), faults(0x23, 0);
        return strlen(arguments[1]);
    }
    for (int round = 0; round < 3; round++)
        printf("%lx %lx %lu %lu\n", (unsigned long)interrupt(0x246, stack + 4096),
            (unsigned long)interrupt(0xad7 | 0x40000, stack + 4096) & ~0x40000ul,
               (unsigned long)far(), (unsigned long)narrow(low));
    interrupt(0x202, stack + 4096);
    faults(0x18, 0);
    faults(0x33, (uint64_t *)16);
}
